// SPDX-License-Identifier: Apache-2.0

// A replica of a table that is fed by WatchRoutes alone and checks every
// promise of the contract on the way.

#ifndef PLANB_SERVER_TESTING_REPLICA_H_
#define PLANB_SERVER_TESTING_REPLICA_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/table/table_digest.h"
#include "server/testing/control_calls.h"

namespace planb::server {

// Not thread-safe.
class Replica {
 public:
  // Empty at generation 0.
  Replica() = default;
  // From a list.
  Replica(uint64_t generation, const std::vector<Route>& routes)
      : generation_(generation) {
    for (const Route& route : routes) Set(route.prefix, route.next_hop);
    complete_digest_ = digest_.ToString();
  }

  // The last complete generation, and its digest.
  uint64_t generation() const { return generation_; }
  const std::string& digest() const { return complete_digest_; }

  v1::WatchRoutesRequest Resume(const std::string& table = "") {
    seen_.clear();
    within_ = false;
    v1::WatchRoutesRequest request;
    request.set_table(table);
    request.set_start_generation(generation_);
    request.set_start_digest(complete_digest_);
    return request;
  }

  void Apply(const v1::WatchRoutesResponse& message) {
    ++messages_;
    if (IsBookmark(message)) {
      ++bookmarks_;
      EXPECT_FALSE(within_) << "a bookmark within a generation";
      EXPECT_TRUE(message.generation_complete());
      EXPECT_EQ(message.generation(), generation_);
      EXPECT_EQ(message.digest(), complete_digest_);
      return;
    }
    EXPECT_EQ(message.generation(), generation_ + 1);
    within_ = true;
    for (const v1::NextHop& hop : message.next_hops()) {
      next_hops_[hop.id()] = hop.SerializeAsString();
    }
    for (const v1::NextHopGroup& group : message.groups()) {
      groups_[group.id()] = group.SerializeAsString();
    }
    for (const v1::RouteUpdate& update : message.updates()) {
      const bool withdrawn = update.op() == v1::RouteUpdate::OP_DELETE;
      EXPECT_TRUE(withdrawn || update.op() == v1::RouteUpdate::OP_UPSERT);
      EXPECT_EQ(withdrawn, update.next_hop_id() == kNoRoute);
      const Prefix prefix = ToPrefix(update.prefix());
      EXPECT_TRUE(seen_.insert(prefix).second) << prefix.ToString();
      Set(prefix, update.next_hop_id());
    }
    for (uint32_t id : message.deleted_next_hop_ids()) next_hops_.erase(id);
    for (uint32_t id : message.deleted_group_ids()) groups_.erase(id);
    if (!message.generation_complete()) {
      ++splits_;
      return;
    }
    ++generation_;
    complete_digest_ = digest_.ToString();
    EXPECT_EQ(message.digest(), complete_digest_)
        << "generation " << generation_;
    seen_.clear();
    within_ = false;
  }

  std::vector<Route> routes() const {
    std::vector<Route> routes;
    for (const auto& [prefix, hop] : routes_) routes.push_back({prefix, hop});
    return routes;
  }
  // By id, serialized.
  using Objects = std::map<uint32_t, std::string>;
  const Objects& next_hops() const { return next_hops_; }
  const Objects& groups() const { return groups_; }

  int messages() const { return messages_; }
  int bookmarks() const { return bookmarks_; }
  // Messages that did not complete their generation.
  int splits() const { return splits_; }

 private:
  static bool IsBookmark(const v1::WatchRoutesResponse& message) {
    return message.updates().empty() && message.next_hops().empty() &&
           message.groups().empty() && message.deleted_next_hop_ids().empty() &&
           message.deleted_group_ids().empty();
  }

  void Set(const Prefix& prefix, NextHopId next_hop) {
    const auto it = routes_.find(prefix);
    if (it != routes_.end()) {
      digest_.Remove(Route{prefix, it->second});
      routes_.erase(it);
    }
    if (next_hop == kNoRoute) return;
    routes_[prefix] = next_hop;
    digest_.Add(Route{prefix, next_hop});
  }

  std::map<Prefix, NextHopId> routes_;
  Objects next_hops_;
  Objects groups_;
  TableDigest digest_;
  uint64_t generation_ = 0;
  std::string complete_digest_ = std::string(16, '\0');
  std::set<Prefix> seen_;  // within a generation
  bool within_ = false;
  int messages_ = 0;
  int bookmarks_ = 0;
  int splits_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_REPLICA_H_
