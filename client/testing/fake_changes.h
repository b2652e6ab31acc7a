// SPDX-License-Identifier: Apache-2.0

// What the fake table's changes share: applying them, and telling two states
// apart.

#ifndef PLANB_CLIENT_TESTING_FAKE_CHANGES_H_
#define PLANB_CLIENT_TESTING_FAKE_CHANGES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "client/testing/fake_table.h"
#include "google/protobuf/util/message_differencer.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client::testing {

// Replies of the three kinds of change count alike.
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

// Puts next hops or groups into a map of them.
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

// Adds what is between two maps of objects to the counts of `response`.
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

// What makes `after` of `before`; without generation and digest.
v1::WatchRoutesResponse ChangesBetween(const FakeTable::State& before,
                                       const FakeTable::State& after);

bool HasChanges(const v1::WatchRoutesResponse& changes);

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_FAKE_CHANGES_H_
