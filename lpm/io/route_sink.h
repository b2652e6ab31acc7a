// Where the routes of a file go, and what is said about its reading.

#ifndef PLANB_LPM_IO_ROUTE_SINK_H_
#define PLANB_LPM_IO_ROUTE_SINK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "lpm/io/problem_output.h"
#include "lpm/prefix.h"

namespace planb {

// Receives what a file holds. A next hop or group that the file describes comes
// before the first route that names it, once a file; one of which it knows the
// number only does not come at all, for the table may know more. An error ends
// the reading and is returned by it.
class RouteSink {
 public:
  virtual ~RouteSink() = default;
  virtual absl::Status OnNextHop(const NextHop& next_hop) = 0;
  virtual absl::Status OnRoute(const Route& route) = 0;
  // Only table files have groups. Ignored by default: lookups answer with the
  // group's id all the same. RouteFileReport::groups tells who must know.
  virtual absl::Status OnGroup(const NextHopGroup& /*group*/) {
    return absl::OkStatus();
  }
};

struct RouteFileReport : RecordReport {
  uint64_t routes = 0;     // handed to the sink
  uint64_t next_hops = 0;  // handed to the sink
  uint64_t groups = 0;     // handed to the sink, which may have ignored them
};

// A sink that collects; what comes later replaces what came earlier under the
// same prefix or the same id. Thread-compatible.
class RouteCollector : public RouteSink {
 public:
  absl::Status OnNextHop(const NextHop& next_hop) override;
  absl::Status OnRoute(const Route& route) override;
  absl::Status OnGroup(const NextHopGroup& group) override;

  // Sorted by prefix, each prefix once. Call once, last. O(routes log routes).
  std::vector<Route> TakeRoutes();
  // Sorted by id, each id once. Call once, last.
  std::vector<NextHop> TakeNextHops();
  std::vector<NextHopGroup> TakeGroups();

 private:
  std::vector<Route> routes_;
  std::vector<NextHop> next_hops_;
  std::vector<NextHopGroup> groups_;
};

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_SINK_H_
