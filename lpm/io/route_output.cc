#include "lpm/io/route_output.h"

namespace planb {

absl::Status RouteOutput::OnNextHop(const NextHop& next_hop) {
  absl::Status status = sink_.OnNextHop(next_hop);
  if (status.ok()) ++counts_.next_hops;
  return status;
}

absl::Status RouteOutput::OnRoute(const Route& route) {
  absl::Status status = sink_.OnRoute(route);
  if (status.ok()) ++counts_.routes;
  return status;
}

absl::Status RouteOutput::OnGroup(const NextHopGroup& group) {
  absl::Status status = sink_.OnGroup(group);
  if (status.ok()) ++counts_.groups;
  return status;
}

RouteFileReport RouteOutput::report() const {
  RouteFileReport report = counts_;
  static_cast<RecordReport&>(report) = records();
  return report;
}

}  // namespace planb
