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

#include "follow/convert.h"
#include "lpm/routes/table_digest.h"
#include "server/testing/control_calls.h"

namespace planb::server {

// Not thread-safe.
class Replica {
 public:
  // Makes a replica that is empty at generation 0.
  Replica() = default;
  // Makes a replica from lists of one generation.
  Replica(const std::vector<v1::ListRoutesResponse>& routes,
          const std::vector<v1::ListNextHopsResponse>& objects) {
    for (const v1::ListRoutesResponse& chunk : routes) {
      generation_ = chunk.generation();
      for (const v1::Route& route : chunk.routes()) {
        Set(ToPrefix(route.prefix()), route.next_hop_id());
      }
    }
    for (const v1::ListNextHopsResponse& chunk : objects) {
      EXPECT_EQ(chunk.generation(), generation_);
      SetObjects(chunk);
    }
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
    SetObjects(message);
    for (const v1::RouteUpdate& update : message.updates()) {
      const bool withdrawn = update.op() == v1::RouteUpdate::OP_DELETE;
      EXPECT_TRUE(withdrawn || update.op() == v1::RouteUpdate::OP_UPSERT);
      EXPECT_EQ(withdrawn, update.next_hop_id() == kNoRoute);
      const Prefix prefix = ToPrefix(update.prefix());
      EXPECT_TRUE(seen_.insert(prefix).second) << prefix.ToString();
      Set(prefix, update.next_hop_id());
    }
    for (uint32_t id : message.deleted_next_hop_ids()) {
      Erase(id, next_hops_);
    }
    for (uint32_t id : message.deleted_group_ids()) {
      Erase(id, groups_);
    }
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
  // The objects by id.
  const std::map<uint32_t, v1::NextHop>& next_hops() const {
    return next_hops_;
  }
  const std::map<uint32_t, v1::NextHopGroup>& groups() const { return groups_; }

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

  // Sets the next hops and groups of a message.
  template <typename Message>
  void SetObjects(const Message& message) {
    for (const v1::NextHop& hop : message.next_hops()) {
      Erase(hop.id(), next_hops_);
      digest_.Add(FromProto(hop).value());
      next_hops_[hop.id()] = hop;
    }
    for (const v1::NextHopGroup& group : message.groups()) {
      Erase(group.id(), groups_);
      digest_.Add(FromProto(group).value());
      groups_[group.id()] = group;
    }
  }

  // Erases the object of `id`, if there is one.
  template <typename Object>
  void Erase(uint32_t id, std::map<uint32_t, Object>& objects) {
    const auto it = objects.find(id);
    if (it == objects.end()) return;
    digest_.Remove(FromProto(it->second).value());
    objects.erase(it);
  }

  std::map<Prefix, NextHopId> routes_;
  std::map<uint32_t, v1::NextHop> next_hops_;
  std::map<uint32_t, v1::NextHopGroup> groups_;
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
