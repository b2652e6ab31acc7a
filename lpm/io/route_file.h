// Reads routing tables from files, whatever their format: plain text
// ("PREFIX/LEN NEXTHOP" a line) or MRT TABLE_DUMP_V2 (RFC 6396), each plain,
// gzipped or bzip2ed. Streams: memory does not grow with the file.

#ifndef PLANB_LPM_IO_ROUTE_FILE_H_
#define PLANB_LPM_IO_ROUTE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/next_hop.h"
#include "lpm/prefix.h"

namespace planb {

// Receives what a file holds. A next hop comes before the first route that
// names it. An error ends the reading and is returned by it.
class RouteSink {
 public:
  virtual ~RouteSink() = default;
  virtual absl::Status OnNextHop(const NextHop& next_hop) = 0;
  virtual absl::Status OnRoute(const Route& route) = 0;
};

struct RouteFileOptions {
  // Treat the first malformed record as an error instead of counting it.
  bool strict = false;
};

// A record that could not be read.
struct RouteFileProblem {
  uint64_t offset = 0;  // octets into the uncompressed file
  uint64_t line = 0;    // for text, counted from 1; else 0
  std::string message;
};

struct RouteFileReport {
  uint64_t routes = 0;     // handed to the sink
  uint64_t next_hops = 0;  // handed to the sink
  uint64_t malformed = 0;  // records skipped
  uint64_t ignored = 0;    // well-formed records that hold no unicast route
  // The first few problems (at most 16).
  std::vector<RouteFileProblem> problems;
  // The file ended in the middle of a record or of its compression.
  bool truncated = false;
};

// Reads the file at `path`. A route given twice reaches the sink twice: the
// last one counts.
// Errors: NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE for the file itself;
// INVALID_ARGUMENT if its format is not recognized; DATA_LOSS for a malformed
// record or a truncated file with `strict`; whatever the sink returns.
absl::StatusOr<RouteFileReport> ReadRouteFile(const std::string& path,
                                              const RouteFileOptions& options,
                                              RouteSink& sink);

// A sink that collects, later routes replacing earlier ones of their prefix.
class RouteCollector : public RouteSink {
 public:
  absl::Status OnNextHop(const NextHop& next_hop) override;
  absl::Status OnRoute(const Route& route) override;

  // Sorted by prefix, each prefix once. Call once, last.
  std::vector<Route> TakeRoutes();
  std::vector<NextHop> TakeNextHops();

 private:
  std::vector<Route> routes_;
  std::vector<NextHop> next_hops_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_FILE_H_
