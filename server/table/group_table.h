// SPDX-License-Identifier: Apache-2.0

// Which member of a next-hop group a flow takes (ECMP).
//
// Every group has its members in kBuckets buckets, and a flow's hash names one.
// Who gets a bucket is settled by weighted rendezvous hashing: in each, every
// member draws a number of its own, from nothing but its id and the bucket, and
// the least number over weight wins. So a draw knows nothing of the others:
// - a member that leaves loses its flows, and nobody else loses any;
// - one that joins or grows takes flows, and nobody else gets any;
// - a member's chance is its weight over the sum of weights;
// - the same members choose the same on every machine, in whatever order they
//   come and whatever their group's id. Draws are integers throughout.
//
// A bucket is the smallest share there is. A member that ought to have n of
// them has n give or take sqrt(n): of 16 equals each has 1024 +- 32, some 3%.
// More buckets would be closer and no longer fit the first-level cache.

#ifndef PLANB_SERVER_TABLE_GROUP_TABLE_H_
#define PLANB_SERVER_TABLE_GROUP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"
#include "proto/wire/bytes.h"

namespace planb::server {

// The groups of one generation. Immutable, so thread-safe. Groups with the same
// members share their buckets, within a table and with the table before.
class GroupTable {
 public:
  static constexpr int kBucketBits = 14;
  static constexpr size_t kBuckets = size_t{1} << kBucketBits;
  static constexpr size_t kMaxMembers = 256;

  // The empty table.
  GroupTable() = default;

  // `previous`, which may be null, is where unchanged groups' buckets come
  // from; it need not outlive the call. O(members) and, for each set of members
  // that is new, kBuckets * members: about a millisecond for 16.
  // REQUIRES: ids differ; each group has 1..kMaxMembers members, which differ
  // and are no groups themselves. A weight of 0 counts as 1.
  static std::shared_ptr<const GroupTable> Make(
      absl::Span<const NextHopGroup> groups, const GroupTable* previous);

  bool empty() const { return groups_.empty(); }
  size_t size() const { return groups_.size(); }

  // The member that a flow takes if `id` is a group, else `id`. O(1).
  NextHopId Choose(NextHopId id, uint32_t flow_hash) const;

  // Choose for each of a batch, in place: `next_hops` holds one id for every
  // hash, both little-endian and of any alignment.
  // REQUIRES: flow_hashes.size() is a multiple of 4.
  void ChooseEach(const wire::Bytes& flow_hashes, char* next_hops) const;

  // Bytes held; of the buckets only those that `beside` has not as well.
  size_t bytes(const GroupTable* beside = nullptr) const;
  // At most so many more bytes are held for a group of its own.
  static constexpr size_t kGroupBytes =
      kBuckets + kMaxMembers * sizeof(NextHopGroup::Member) + 256;

 private:
  class Buckets;

  // Null if `id` is no group.
  const Buckets* Find(NextHopId id) const;

  absl::flat_hash_map<NextHopId, std::shared_ptr<const Buckets>> groups_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_GROUP_TABLE_H_
