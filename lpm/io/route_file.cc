// Opens, decompresses, recognizes, and leaves the rest to the format's reader.

#include "lpm/io/route_file.h"

#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/byte_reader.h"
#include "lpm/io/decompress.h"
#include "lpm/io/mrt.h"
#include "lpm/io/mrt_routes.h"
#include "lpm/io/route_format.h"
#include "lpm/io/route_output.h"
#include "lpm/io/table_file_routes.h"
#include "lpm/io/text_routes.h"

namespace planb {
namespace {

absl::Status Unrecognized(absl::string_view name, absl::string_view head) {
  return absl::InvalidArgumentError(absl::StrCat(
      name,
      ": neither a text of routes (\"PREFIX/LENGTH NEXTHOP\" a line) nor MRT "
      "(RFC 6396) nor a table file, plain, gzipped or bzip2ed; it starts with "
      "\"",
      absl::CHexEscape(head.substr(0, 16)), "\""));
}

absl::Status ReadDetected(absl::string_view name, ByteReader& in,
                          const RouteFileOptions& options, RouteOutput& out) {
  const absl::string_view head = in.Peek(kFormatProbe);
  switch (DetectRouteFormat(head.substr(0, kFormatProbe))) {
    case RouteFormat::kText:
      return ReadTextRoutes(in, out);
    case RouteFormat::kMrt:
      return ReadMrtRoutes(in, options.first_next_hop_id, out);
    case RouteFormat::kTableFile:
      return ReadTableFileRoutes(in, out);
    case RouteFormat::kUnknown:
      break;
  }
  // A stream that breaks off before its format shows, or could not be read.
  if (head.size() < kMrtHeaderSize && !in.status().ok()) {
    return out.OnEnd({}, in.status(), "");
  }
  return Unrecognized(name, head);
}

}  // namespace

absl::StatusOr<RouteFileReport> ReadRouteFile(const std::string& path,
                                              const RouteFileOptions& options,
                                              RouteSink& sink) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path);
  if (!source.ok()) return source.status();
  return ReadRoutes(path, *std::move(source), options, sink);
}

absl::StatusOr<RouteFileReport> ReadRoutes(absl::string_view name,
                                           std::unique_ptr<ByteSource> source,
                                           const RouteFileOptions& options,
                                           RouteSink& sink) {
  ABSL_RAW_CHECK(options.first_next_hop_id != kNoRoute,
                 "next hop 0 is reserved");
  absl::StatusOr<std::unique_ptr<ByteSource>> plain =
      Decompress(std::move(source));
  if (!plain.ok()) return plain.status();
  ByteReader in(*std::move(plain));
  RouteOutput out(name, options.strict, sink);
  absl::Status status = ReadDetected(name, in, options, out);
  if (!status.ok()) return status;
  return out.report();
}

}  // namespace planb
