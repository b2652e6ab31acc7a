// The way from the readers of routes to the caller: hands on what was read and
// counts it.

#ifndef PLANB_LPM_IO_ROUTE_OUTPUT_H_
#define PLANB_LPM_IO_ROUTE_OUTPUT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/io/problem_output.h"
#include "lpm/io/route_sink.h"

namespace planb {

// Every call that returns a status ends the reading unless it is OK.
// Thread-compatible.
class RouteOutput : public ProblemOutput {
 public:
  // `sink` must outlive this.
  RouteOutput(absl::string_view name, bool strict, RouteSink& sink)
      : ProblemOutput(name, strict), sink_(sink) {}

  // Hand on to the sink. Errors: the sink's.
  absl::Status OnNextHop(const NextHop& next_hop);
  absl::Status OnRoute(const Route& route);
  absl::Status OnGroup(const NextHopGroup& group);

  RouteFileReport report() const;

 private:
  RouteSink& sink_;
  RouteFileReport counts_;  // of what was handed on; problems are the base's
};

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_OUTPUT_H_
