// The plain text format: "PREFIX/LEN NEXTHOP" a line, blanks between, `#` to
// the end of the line a comment, lines ended by LF or CRLF.

#ifndef PLANB_LPM_IO_TEXT_ROUTES_H_
#define PLANB_LPM_IO_TEXT_ROUTES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/io/byte_reader.h"
#include "lpm/io/route_output.h"
#include "lpm/prefix.h"

namespace planb {

// A line longer than this, its comment not counted, is malformed.
inline constexpr size_t kMaxTextLine = 4096;

// What a line says: without its comment and the blanks around it.
absl::string_view TextLineContent(absl::string_view line);

// Parses a line's content, strictly: the next hop is a number of
// 1..4294967294 without sign or leading zeros.
// Errors: INVALID_ARGUMENT, saying what is wrong with which text.
absl::StatusOr<Route> ParseTextRoute(absl::string_view content);

// Reads `in` to its end. Next hops are not described, and none is handed on.
// A last line without its newline is read but reported as truncated, for it
// may be cut; it is dropped where the stream is known to be cut.
// Errors: those of `in` save DATA_LOSS, and those of `out`.
absl::Status ReadTextRoutes(ByteReader& in, RouteOutput& out);

}  // namespace planb

#endif  // PLANB_LPM_IO_TEXT_ROUTES_H_
