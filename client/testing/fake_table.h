// SPDX-License-Identifier: Apache-2.0

// The routing table of the fake server: ordered maps, so that its answers are
// correct by inspection.

#ifndef PLANB_CLIENT_TESTING_FAKE_TABLE_H_
#define PLANB_CLIENT_TESTING_FAKE_TABLE_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client::testing {

// An error as a PlanB server sends it: with ErrorInfo and, unless `field` is
// empty, a BadRequest.
grpc::Status MakeError(grpc::StatusCode code, const std::string& reason,
                       const std::string& message,
                       const std::string& field = "");

// RESOURCE_EXHAUSTED with RetryInfo.
grpc::Status RetryLater(absl::Duration delay);

// The name of the only table that the fake server has.
inline bool IsDefaultTable(const std::string& name) {
  return name.empty() || name == "default";
}

// In every fake table, ids from kFirstGroup to 2 * kFirstGroup are groups.
inline constexpr NextHopId kFirstGroup = 1'000'000;

// The member of the group `id` that the flow takes; `id` if it is no group.
inline NextHopId MemberOf(NextHopId id, uint32_t flow_hash) {
  const bool group = id >= kFirstGroup && id < 2 * kFirstGroup;
  return group ? id - kFirstGroup + flow_hash % 100 + 1 : id;
}

// Thread-compatible. Every change is visible at once. Nothing survives the
// process, even if `durable`.
class FakeTable {
 public:
  // The content of a generation.
  struct State {
    std::map<Prefix, NextHopId> routes;
    std::map<uint32_t, v1::NextHop> next_hops;
    std::map<uint32_t, v1::NextHopGroup> groups;
  };

  // A table at generation 1 if it has routes, else at 0.
  explicit FakeTable(const std::vector<Route>& routes = {},
                     bool durable = false);

  std::optional<Route> Lookup(const Address& address) const;

  // Follows the contract, except for times, `request_id` and strict ops.
  grpc::Status Update(const v1::UpdateRoutesRequest& request,
                      v1::UpdateRoutesResponse& response);

  v1::Table Describe() const;

  const std::map<Prefix, NextHopId>& routes() const { return now_.routes; }
  const std::map<uint32_t, v1::NextHop>& next_hops() const {
    return now_.next_hops;
  }
  const std::map<uint32_t, v1::NextHopGroup>& groups() const {
    return now_.groups;
  }
  uint64_t generation() const { return first_ + history_.size(); }
  // The digest has 16 bytes: the exclusive or of a hash of each route, next hop
  // and group.
  std::string digest() const;

  // The changes of generation oldest() + 1 and on, each whole.
  using History = std::vector<std::shared_ptr<const v1::WatchRoutesResponse>>;
  const History& history() const { return history_; }
  uint64_t oldest() const { return first_; }
  // The digest of `generation`.
  // REQUIRES: oldest() <= generation <= generation().
  std::string DigestOf(uint64_t generation) const;
  void ForgetHistory();

 private:
  uint64_t persisted() const { return durable_ ? generation() : 0; }

  State now_;
  bool durable_ = false;
  uint64_t writer_epoch_ = 0;
  uint64_t first_ = 0;
  std::string first_digest_;
  History history_;
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_FAKE_TABLE_H_
