// The routing table of the fake server: an ordered map and nothing clever, so
// that its answers are right by inspection.

#ifndef PLANB_CLIENT_TESTING_FAKE_TABLE_H_
#define PLANB_CLIENT_TESTING_FAKE_TABLE_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client::testing {

// An error as a PlanB server sends it: with ErrorInfo and, unless `field` is
// empty, a BadRequest.
grpc::Status MakeError(grpc::StatusCode code, const std::string& reason,
                       const std::string& message,
                       const std::string& field = "");

// In every fake table the ids from here to twice this are next-hop groups.
inline constexpr NextHopId kFirstGroup = 1'000'000;

// The member of the group `id` that the flow takes, which the hash shows; `id`
// if it is no group.
inline NextHopId MemberOf(NextHopId id, uint32_t flow_hash) {
  const bool group = id >= kFirstGroup && id < 2 * kFirstGroup;
  return group ? id - kFirstGroup + flow_hash % 100 + 1 : id;
}

// Thread-compatible.
class FakeTable {
 public:
  // A table at generation 1 if it has routes, else at 0.
  explicit FakeTable(const std::vector<Route>& routes = {});

  std::optional<Route> Lookup(const Address& address) const;

  // As the contract says, but for digest, times and `request_id`.
  grpc::Status Update(const v1::UpdateRoutesRequest& request,
                      size_t max_updates, v1::UpdateRoutesResponse& response);

  v1::Table Describe() const;

  const std::map<Prefix, NextHopId>& routes() const { return routes_; }
  const std::map<uint32_t, v1::NextHop>& next_hops() const {
    return next_hops_;
  }
  uint64_t generation() const { return generation_; }

 private:
  std::map<Prefix, NextHopId> routes_;
  std::map<uint32_t, v1::NextHop> next_hops_;
  uint64_t generation_ = 0;
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_FAKE_TABLE_H_
