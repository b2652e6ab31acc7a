// SPDX-License-Identifier: Apache-2.0

// Next hops and groups are found by what they mean. A file has ids of its own:
// the same gateway may have another id in the table, and the same id may be
// another gateway's.

#ifndef PLANB_CLIENT_PLANBCTL_TABLE_OBJECTS_H_
#define PLANB_CLIENT_PLANBCTL_TABLE_OBJECTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/table_client.h"
#include "lpm/prefix.h"

namespace planb::client {

// New ids of next hops, unless they have one that is free: out of the way of
// ids that people choose.
inline constexpr NextHopId kFirstMadeId = 1 << 23;
inline constexpr NextHopId kEndOfMadeIds = 1 << 24;

// The objects of a table as listed, and those that it lacks. An object is never
// changed. Thread-compatible.
class KnownObjects {
 public:
  // `used` are further ids that must not get a meaning: those that routes name.
  explicit KnownObjects(const NextHopList& list,
                        const std::set<NextHopId>& used = {});

  // The id of the object that means the same, kNoRoute if there is none. The
  // gateway and the interface are the meaning; the label is a part of it unless
  // NamesNeighbor(wanted). Of several, the one with the same id, else the
  // lowest.
  NextHopId Find(const NextHop& wanted) const;
  // Members with their weights, in any order, and the label are the meaning.
  NextHopId Find(const NextHopGroup& wanted) const;

  // The same. Without one adds it to missing(): with its own id if `keep_id`
  // and the id is free, else with one that depends on the meaning.
  NextHopId FindOrAdd(NextHop wanted, bool keep_id);
  NextHopId FindOrAdd(NextHopGroup wanted, bool keep_id);

  // The lowest id with the meaning of `id`; `id` itself if it has no object.
  NextHopId Canonical(NextHopId id) const;

  // The objects to be made, and the generation that lacks them.
  const NextHopList& missing() const { return missing_; }
  bool complete() const {
    return missing_.next_hops.empty() && missing_.groups.empty();
  }
  // They were made, and nothing else changed the table up to `generation`.
  void SetMade(uint64_t generation) { missing_ = {.generation = generation}; }

 private:
  template <typename Object>
  NextHopId FindOrAddTo(std::vector<Object>& missing, Object wanted,
                        bool keep_id);
  void Add(NextHopId id, const std::string& meaning);
  NextHopId Find(NextHopId id, const std::string& meaning) const;

  std::map<std::string, NextHopId> ids_;  // the lowest of each meaning
  std::map<NextHopId, std::string> meanings_;
  std::set<NextHopId> taken_;
  NextHopList missing_;
};

// The ids that the visible routes of --table name, and the members of `groups`.
// Sets `generation`.
absl::StatusOr<std::set<NextHopId>> NamedIds(
    const TableClient& client, const std::vector<NextHopGroup>& groups,
    uint64_t& generation);

// Calls `send`, which lists objects and changes the table on the condition of
// the list's generation. Again, until the deadline of --timeout, while other
// clients change the table meanwhile.
absl::Status RetryConflicts(absl::FunctionRef<absl::Status()> send);

// Makes the objects of a file in --table, and knows their ids there. An object
// that the table has is used; an object that another client made is never
// changed. The objects of the table are listed once, and again after another
// client changed the table. Thread-compatible.
class FileObjects {
 public:
  // `client` must outlive this. Null: for Plan alone.
  explicit FileObjects(const TableClient* client) : client_(client) {}

  // An object with the file's id.
  void Add(const NextHop& next_hop);
  void Add(const NextHopGroup& group);
  void Add(const NextHopList& objects);

  // The objects without a settled id in the table.
  size_t pending() const { return next_hops_.size() + groups_.size(); }

  // Finds the pending objects, and makes those that the table lacks, visibly.
  // Errors: those of ListNextHops, ListRoutes, UpdateRoutes.
  absl::Status Make();

  // Finds the pending objects in `known`, or adds them there. Changes nothing
  // else.
  void Plan(KnownObjects& known, bool keep_ids);

  // Gives `request` the table's ids, the objects that the table lacks, the
  // condition that it has not changed, and that described next hops are there.
  // After its success call Settle with the generation of the response, and
  // whether the request changed the table. Errors: those of ListNextHops,
  // ListRoutes.
  absl::Status Prepare(v1::UpdateRoutesRequest& request);
  void Settle(uint64_t generation, bool changed);
  // The table may have lost objects: all are pending again.
  void Unsettle();
  // Other calls of this client change the table.
  void Relist() { known_.reset(); }

  // The id in the table. An id without an object in the file means itself.
  NextHopId ToTable(NextHopId id) const;

  // The objects that were added.
  uint64_t next_hops() const { return added_next_hops_; }
  uint64_t groups() const { return added_groups_; }

 private:
  // Adds what the pending objects need to `request`.
  absl::Status AddMissing(v1::UpdateRoutesRequest& request);

  const TableClient* const client_;
  // Pending objects, and the others.
  std::map<NextHopId, NextHop> next_hops_, settled_next_hops_;
  std::map<NextHopId, NextHopGroup> groups_, settled_groups_;
  std::map<NextHopId, NextHopId> ids_;
  // The objects of the table, as long as only Prepare and Make change it.
  std::optional<KnownObjects> known_;
  bool first_ = true;
  uint64_t added_next_hops_ = 0;
  uint64_t added_groups_ = 0;
};

// Gives `routes` of a file with the given objects the ids of --table. The
// result has the table's objects and those that it lacks. Without objects the
// ids of the file are those of the table, and the result is empty. Errors:
// those of ListNextHops and ListRoutes.
absl::StatusOr<KnownObjects> UseTableIds(const TableClient& client,
                                         const NextHopList& objects,
                                         std::vector<Route>& routes);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_TABLE_OBJECTS_H_
