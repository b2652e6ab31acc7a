// SPDX-License-Identifier: Apache-2.0

// Which member of a next-hop group a flow takes (ECMP).
//
// A group divides its flows into kBuckets buckets by their hash. Weighted
// rendezvous hashing assigns each bucket to a member: every member draws a
// number from its id and the bucket alone, and the lowest number divided by
// weight wins. A draw does not depend on the other members. Therefore:
// - if a member leaves, only its own flows move;
// - if a member joins or its weight grows, flows move only to it;
// - a member's expected share is its weight over the sum of weights;
// - the same members give the same choice on every machine, in any order and
// for
//   any id of the group. All draws are integers.
//
// A bucket is the smallest share. A member with an expected share of n buckets
// has about n +- sqrt(n): each of 16 equal members has 1024 +- 32, about 3%.
// More buckets would be more exact but would not fit into the first-level
// cache.

#ifndef PLANB_LPM_TABLE_GROUP_TABLE_H_
#define PLANB_LPM_TABLE_GROUP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb {

// The groups of one generation. Immutable and thus thread-safe. Groups with the
// same members share their buckets, within a table and with the previous table.
class GroupTable {
 public:
  static constexpr int kBucketBits = 14;
  static constexpr size_t kBuckets = size_t{1} << kBucketBits;

  // The empty table.
  GroupTable() = default;

  // Takes the buckets of unchanged groups from `previous`, which may be null
  // and need not outlive the call. A weight of 0 counts as 1. O(members), plus
  // O(kBuckets * members) for each new set of members: about a millisecond for
  // 16 members.
  // REQUIRES: the ids of groups are distinct; each group has 1..kMaxMembers
  // members, which are distinct and not groups.
  static std::shared_ptr<const GroupTable> Make(
      absl::Span<const NextHopGroup> groups, const GroupTable* previous);

  bool empty() const { return groups_.empty(); }
  size_t size() const { return groups_.size(); }

  // The member that a flow takes if `id` is a group; otherwise `id`. O(1).
  NextHopId Choose(NextHopId id, uint32_t flow_hash) const;

  // Applies Choose to `count` next hops, in place, with one hash for each. Both
  // are little-endian, of 4 bytes, and need no alignment.
  void ChooseEach(const char* flow_hashes, size_t count, char* next_hops) const;

  // Bytes held, without buckets that are shared with `beside`.
  size_t bytes(const GroupTable* beside = nullptr) const;
  // An upper bound of the bytes for one more group.
  static constexpr size_t kGroupBytes =
      kBuckets + NextHopGroup::kMaxMembers * sizeof(NextHopGroup::Member) + 256;

 private:
  class Buckets;

  // Null if `id` is not a group.
  const Buckets* Find(NextHopId id) const;

  absl::flat_hash_map<NextHopId, std::shared_ptr<const Buckets>> groups_;
};

}  // namespace planb

#endif  // PLANB_LPM_TABLE_GROUP_TABLE_H_
