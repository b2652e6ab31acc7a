// SPDX-License-Identifier: Apache-2.0

#include "lpm/table/group_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"

namespace planb {
namespace {

using Member = NextHopGroup::Member;
using Members = std::vector<Member>;

// Every bit of the result depends on every bit of `x` (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", their mix13).
// NEVER CHANGE: every flow would move.
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// Mixed again, because some bits of a caller's hash may vary little.
constexpr size_t BucketOf(uint32_t flow_hash) {
  return static_cast<size_t>(Mix(flow_hash) >> (64 - GroupTable::kBucketBits));
}

// Logarithms to base 2, in units of 2^-kLogBits, interpolated between 257 exact
// values. The error is at most 0.1% of a draw, much less than the random
// variation of kBuckets draws.
constexpr int kLogBits = 26;
constexpr int kLogSteps = 256;

// log2(1 + step / kLogSteps), digit by digit: squaring doubles a logarithm.
constexpr uint32_t LogOfStep(uint32_t step) {
  if (step == kLogSteps) return uint32_t{1} << kLogBits;
  constexpr int kPoint = 31;
  constexpr uint64_t kTwo = uint64_t{2} << kPoint;
  uint64_t x = (uint64_t{kLogSteps} + step) << (kPoint - 8);
  uint32_t log = 0;
  for (int bit = 0; bit < kLogBits; ++bit) {
    x = x * x >> kPoint;
    log <<= 1;
    if (x < kTwo) continue;
    log |= 1;
    x >>= 1;
  }
  return log;
}

constexpr std::array<uint32_t, kLogSteps + 1> kLogs = [] {
  std::array<uint32_t, kLogSteps + 1> logs{};
  for (uint32_t step = 0; step <= kLogSteps; ++step) {
    logs[step] = LogOfStep(step);
  }
  return logs;
}();

// A draw: -log2 of a number that is uniform between 0 and 1, so exponentially
// distributed. Among members with such draws, each has the lowest draw over
// weight with a probability proportional to its weight.
// NEVER CHANGE: flows would move.
uint32_t Draw(NextHopId member, size_t bucket) {
  const uint64_t number =
      (Mix(uint64_t{member} << 32 | bucket) >> 32) + 1;  // 1..2^32, of 2^32
  const int whole = 63 - std::countl_zero(number);
  const auto fraction = static_cast<uint32_t>(number << (32 - whole));
  const uint32_t below = kLogs[fraction >> 24];
  const uint64_t step = kLogs[(fraction >> 24) + 1] - below;
  const auto beyond = static_cast<uint32_t>(step * (fraction & 0xffffff) >> 24);
  return (static_cast<uint32_t>(32 - whole) << kLogBits) - below - beyond;
}

// The members sorted by id, with weights of at least 1: equal for groups that
// choose equally.
Members Canonical(const NextHopGroup& group) {
  Members members = group.members;
  ABSL_RAW_CHECK(
      !members.empty() && members.size() <= NextHopGroup::kMaxMembers,
      "a group has 1..kMaxMembers members");
  for (Member& member : members) member.weight = std::max(member.weight, 1u);
  std::sort(
      members.begin(), members.end(),
      [](const Member& a, const Member& b) { return a.next_hop < b.next_hop; });
  return members;
}

struct MembersHash {
  size_t operator()(const Members& members) const {
    uint64_t hash = members.size();
    for (const Member& member : members) {
      hash = Mix(hash ^ (uint64_t{member.next_hop} << 32 | member.weight));
    }
    return static_cast<size_t>(hash);
  }
};

}  // namespace

// The member that owns each bucket, for one set of members.
class GroupTable::Buckets {
 public:
  // REQUIRES: `members` is canonical.
  explicit Buckets(Members members);

  NextHopId Choose(uint32_t flow_hash) const {
    return members_[owners_[BucketOf(flow_hash)]].next_hop;
  }
  const Members& members() const { return members_; }
  size_t bytes() const {
    return sizeof(*this) + members_.capacity() * sizeof(Member);
  }

 private:
  const Members members_;
  std::array<uint8_t, kBuckets> owners_;  // indexes of members_
};

GroupTable::Buckets::Buckets(Members members) : members_(std::move(members)) {
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    size_t owner = 0;
    uint64_t least = Draw(members_[0].next_hop, bucket);
    for (size_t i = 1; i < members_.size(); ++i) {
      const uint64_t draw = Draw(members_[i].next_hop, bucket);
      // draw / its weight < least / the owner's weight, exactly: 32 bits each.
      // The lowest id wins a tie.
      if (draw * members_[owner].weight >= least * members_[i].weight) continue;
      owner = i;
      least = draw;
    }
    owners_[bucket] = static_cast<uint8_t>(owner);
  }
}

std::shared_ptr<const GroupTable> GroupTable::Make(
    absl::Span<const NextHopGroup> groups, const GroupTable* previous) {
  absl::flat_hash_map<Members, std::shared_ptr<const Buckets>, MembersHash>
      known;
  if (previous != nullptr) {
    for (const auto& [id, buckets] : previous->groups_) {
      known.emplace(buckets->members(), buckets);
    }
  }
  auto table = std::make_shared<GroupTable>();
  table->groups_.reserve(groups.size());
  for (const NextHopGroup& group : groups) {
    Members members = Canonical(group);
    std::shared_ptr<const Buckets>& buckets = known[members];
    if (buckets == nullptr) {
      buckets = std::make_shared<const Buckets>(std::move(members));
    }
    table->groups_.emplace(group.id, buckets);
  }
  return table;
}

const GroupTable::Buckets* GroupTable::Find(NextHopId id) const {
  const auto group = groups_.find(id);
  return group == groups_.end() ? nullptr : group->second.get();
}

NextHopId GroupTable::Choose(NextHopId id, uint32_t flow_hash) const {
  const Buckets* const group = Find(id);
  return group == nullptr ? id : group->Choose(flow_hash);
}

void GroupTable::ChooseEach(const char* flow_hashes, size_t count,
                            char* next_hops) const {
  if (empty()) return;
  // Consecutive addresses often have the same next hop: looks it up once.
  NextHopId last = kNoRoute;
  const Buckets* group = nullptr;
  for (size_t i = 0; i < count; ++i, next_hops += sizeof(NextHopId)) {
    NextHopId id;
    std::memcpy(&id, next_hops, sizeof(id));
    if (id != last) {
      last = id;
      group = Find(id);
    }
    if (group == nullptr) continue;
    uint32_t flow_hash;
    std::memcpy(&flow_hash, flow_hashes + i * sizeof(flow_hash),
                sizeof(flow_hash));
    id = group->Choose(flow_hash);
    std::memcpy(next_hops, &id, sizeof(id));
  }
}

size_t GroupTable::bytes(const GroupTable* beside) const {
  size_t bytes = groups_.capacity() * sizeof(*groups_.begin());
  absl::flat_hash_set<const Buckets*> counted;
  if (beside != nullptr) {
    for (const auto& [id, buckets] : beside->groups_) {
      counted.insert(buckets.get());
    }
  }
  for (const auto& [id, buckets] : groups_) {
    if (counted.insert(buckets.get()).second) bytes += buckets->bytes();
  }
  return bytes;
}

}  // namespace planb
