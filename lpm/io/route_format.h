// Tells the formats of route files apart by content.

#ifndef PLANB_LPM_IO_ROUTE_FORMAT_H_
#define PLANB_LPM_IO_ROUTE_FORMAT_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace planb {

enum class RouteFormat { kUnknown, kText, kMrt, kTableFile };

// How much of a file's start is looked at.
inline constexpr size_t kFormatProbe = 64 << 10;

// The format of a file that starts with `head`, which is all of it if shorter
// than kFormatProbe. Text has no control characters, and one of its lines
// starts like a route, or none says anything (as in an empty file). MRT is told
// from six octets on, a table file from its magic number.
RouteFormat DetectRouteFormat(absl::string_view head);

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_FORMAT_H_
