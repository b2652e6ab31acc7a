// SPDX-License-Identifier: Apache-2.0

// The routing table of the fake server: ordered maps, so that its answers are
// correct by inspection.

#ifndef PLANB_CLIENT_TESTING_FAKE_TABLE_H_
#define PLANB_CLIENT_TESTING_FAKE_TABLE_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "google/protobuf/util/message_differencer.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client::testing {

// An error as a PlanB server sends it: with ErrorInfo and, unless `field` is
// empty, a BadRequest.
grpc::Status MakeError(grpc::StatusCode code, const std::string& reason,
                       const std::string& message,
                       const std::string& field = "");

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

  // By the contract, except for times and `request_id`.
  grpc::Status Update(const v1::UpdateRoutesRequest& request,
                      size_t max_updates, v1::UpdateRoutesResponse& response);
  grpc::Status UpdateNextHops(const v1::UpdateNextHopsRequest& request,
                              v1::UpdateNextHopsResponse& response);

  // `first` has the conditions, `all` the routes and objects.
  grpc::Status Replace(const v1::ReplaceRoutesRequest& first,
                       const v1::ReplaceRoutesRequest& all,
                       v1::ReplaceRoutesResponse& response);

  v1::Table Describe() const;

  const std::map<Prefix, NextHopId>& routes() const { return now_.routes; }
  const std::map<uint32_t, v1::NextHop>& next_hops() const {
    return now_.next_hops;
  }
  const std::map<uint32_t, v1::NextHopGroup>& groups() const {
    return now_.groups;
  }
  uint64_t generation() const { return first_ + history_.size(); }
  uint64_t persisted() const { return durable_ ? generation() : 0; }
  // 16 bytes: the exclusive or of a hash of each route.
  std::string digest() const;

  // The changes of generation oldest() + 1 and on, each whole.
  using History = std::vector<std::shared_ptr<const v1::WatchRoutesResponse>>;
  const History& history() const { return history_; }
  uint64_t oldest() const { return first_; }
  // The digest of the routes of `generation`.
  // REQUIRES: oldest() <= generation <= generation().
  std::string DigestOf(uint64_t generation) const;
  void ForgetHistory();

 private:
  // The conditions that all changes share.
  template <typename Request>
  grpc::Status Check(const Request& request);

  // Makes `next` the table's state, unless `request` only validates.
  template <typename Request, typename Response>
  void Commit(const Request& request, State next, Response& response);

  State now_;
  bool durable_ = false;
  uint64_t writer_epoch_ = 0;
  uint64_t first_ = 0;
  std::string first_digest_;
  History history_;
};

// The counts in the replies to all kinds of change.
struct RouteCounts {
  uint64_t added = 0;
  uint64_t changed = 0;
  uint64_t removed = 0;
  uint64_t unchanged = 0;
};

// Applies the updates of `request` and counts.
grpc::Status ApplyUpdates(const v1::UpdateRoutesRequest& request,
                          std::map<Prefix, NextHopId>& routes,
                          RouteCounts& counts);

template <typename Response>
grpc::Status ApplyUpdates(const v1::UpdateRoutesRequest& request,
                          std::map<Prefix, NextHopId>& routes,
                          Response& response) {
  RouteCounts counts;
  grpc::Status status = ApplyUpdates(request, routes, counts);
  response.set_added(counts.added);
  response.set_changed(counts.changed);
  response.set_removed(counts.removed);
  response.set_unchanged(counts.unchanged);
  return status;
}

inline bool SameMessage(const google::protobuf::Message& a,
                        const google::protobuf::Message& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

// Adds next hops or groups to a map.
template <typename Objects, typename Map>
grpc::Status SetObjects(const Objects& objects, const std::string& field,
                        Map& map) {
  std::set<uint32_t> ids;
  for (const auto& object : objects) {
    if (object.id() == 0 || !ids.insert(object.id()).second) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "BAD_NEXT_HOP",
                       "an id twice, or 0", field);
    }
    map[object.id()] = object;
  }
  return grpc::Status::OK;
}

// Adds the differences of two maps of objects to the counts of `response`.
template <typename Map, typename Response>
void CountObjects(const Map& before, const Map& after, Response& response) {
  for (const auto& [id, object] : after) {
    const auto old = before.find(id);
    if (old == before.end()) {
      response.set_added(response.added() + 1);
    } else if (!SameMessage(old->second, object)) {
      response.set_changed(response.changed() + 1);
    }
  }
  for (const auto& [id, object] : before) {
    if (!after.contains(id)) response.set_removed(response.removed() + 1);
  }
}

// The changes from `before` to `after`, without generation and digest.
v1::WatchRoutesResponse ChangesBetween(const FakeTable::State& before,
                                       const FakeTable::State& after);

bool HasChanges(const v1::WatchRoutesResponse& changes);

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_FAKE_TABLE_H_
