#include "lpm/io/table_file_order.h"

#include "absl/strings/str_cat.h"

namespace planb {

absl::Status TableFileOrder::Accept(const NextHop& next_hop) {
  if (counts_.groups > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("next hop ", next_hop.id, " comes after a group"));
  }
  absl::Status status = AcceptId(next_hop.id, "next hop");
  if (status.ok()) ++counts_.next_hops;
  return status;
}

absl::Status TableFileOrder::Accept(const NextHopGroup& group) {
  // The ids of groups start anew.
  if (counts_.groups == 0) last_id_ = kNoRoute;
  absl::Status status = AcceptId(group.id, "group");
  if (status.ok()) ++counts_.groups;
  return status;
}

absl::Status TableFileOrder::AcceptId(NextHopId id, absl::string_view what) {
  if (last_prefix_) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " comes after a route"));
  }
  if (!IsNextHop(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " has a reserved id"));
  }
  if (id <= last_id_) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", id, " comes after ", what, " ", last_id_));
  }
  last_id_ = id;
  return absl::OkStatus();
}

absl::Status TableFileOrder::Accept(const Route& route) {
  if (!IsNextHop(route.next_hop)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the route of ", route.prefix.ToString(),
                     " has the reserved next hop ", route.next_hop));
  }
  if (last_prefix_ && route.prefix <= *last_prefix_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the route of ", route.prefix.ToString(),
                     " comes after that of ", last_prefix_->ToString()));
  }
  last_prefix_ = route.prefix;
  ++(route.prefix.family() == Family::kIpv4 ? counts_.ipv4_routes
                                            : counts_.ipv6_routes);
  return absl::OkStatus();
}

}  // namespace planb
