// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

// The lengths to try one after the other, a byte each, as long as each is a
// miss; 0 ends it.
using Rope = uint64_t;
inline constexpr size_t kMostMisses = sizeof(Rope);

// What a search takes from a hit: the next hop of the longest match up to this
// length, and where to go on.
struct First {
  Rope rope;
  NextHopId next_hop;
};
// The first bits are an index.
inline constexpr uint8_t kFirstBits = 16;

// Truncated keys of one length. Of keys up to 64 bits the upper halves alone
// are kept, and a bucket is a cache line; of longer ones it is two.
inline constexpr size_t kSlots = 3;
template <size_t kHalves>
struct alignas(64) Bucket {
  uint64_t keys[kHalves][kSlots];
  Rope ropes[kSlots];
  NextHopId next_hops[kSlots];
  uint8_t used;  // a bit for each slot
  bool full;     // and some of its keys are in the next bucket
};
static_assert(sizeof(Bucket<1>) == 64 && sizeof(Bucket<2>) == 128);

struct Length {
  uint64_t masks[2];  // of the bits that count
  size_t first;       // bucket, of short or of long keys
  uint32_t buckets;
  bool is_long;
};

Key Masked(Key key, const Length& length) {
  return {key.high & length.masks[0], key.low & length.masks[1]};
}

// The high and the low half of a product: every bit of the key counts.
uint64_t Mixed(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The bucket where a masked key belongs, among those of its length.
size_t HomeOf(Key key, const Length& length) {
  uint64_t hash = Mixed(key.high ^ 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93);
  if (length.is_long) hash = Mixed(hash ^ key.low, 0xa0761d6478bd642f);
  return length.first + (((hash >> 32) * length.buckets) >> 32);
}

// The bucket after one of a length: behind the last comes the first.
size_t After(size_t bucket, const Length& length) {
  return bucket + 1 < length.first + length.buckets ? bucket + 1 : length.first;
}

#include "benchmarks/rivals/turns.inc"

// What a search reads. See LookupInTurns; a step is a probe of a bucket.
struct View {
  const First* firsts;
  const Length* lengths;  // by bits; 0 is none
  const Bucket<1>* short_keys;
  const Bucket<2>* long_keys;

  struct State {
    Key key;
    Key masked;
    size_t bucket;
    Rope rope;  // the first byte is the length
    NextHopId next_hop;
  };

  bool Start(Key key, State& state) const {
    const First& first = firsts[key.high >> (64 - kFirstBits)];
    state.key = key;
    state.next_hop = first.next_hop;
    state.rope = first.rope;
    return GoOn(state);
  }

  bool Step(uint32_t, State& state) const {
    if (!lengths[state.rope & 0xff].is_long) {
      return Probe(short_keys[state.bucket], state);
    }
    return Probe(long_keys[state.bucket], state);
  }

  NextHopId Result(const State& state) const { return state.next_hop; }

 private:
  template <size_t kHalves>
  bool Probe(const Bucket<kHalves>& bucket, State& state) const {
    uint32_t found = 0;
    for (uint32_t i = 0; i < kSlots; ++i) {
      bool same = bucket.keys[0][i] == state.masked.high;
      if constexpr (kHalves == 2) {
        same &= bucket.keys[1][i] == state.masked.low;
      }
      found |= uint32_t{same} << i;
    }
    found &= bucket.used;
    if (found == 0 && bucket.full) [[unlikely]] {
      state.bucket = After(state.bucket, lengths[state.rope & 0xff]);
      return true;
    }
    // Without a branch: the last slot is read where none is the key's.
    const uint64_t hit = uint64_t{0} - (found != 0);
    const auto slot =
        static_cast<size_t>(__builtin_ctz(found | 1U << (kSlots - 1)));
    state.next_hop ^=
        (state.next_hop ^ bucket.next_hops[slot]) & static_cast<NextHopId>(hit);
    const Rope missed = state.rope >> 8;
    state.rope = missed ^ ((missed ^ bucket.ropes[slot]) & hit);
    return GoOn(state);
  }

  bool GoOn(State& state) const {
    const Length& length = lengths[state.rope & 0xff];
    state.masked = Masked(state.key, length);
    state.bucket = HomeOf(state.masked, length);
    if (length.is_long) [[unlikely]] {
      __builtin_prefetch(&long_keys[state.bucket]);
      __builtin_prefetch(&long_keys[state.bucket].ropes);
    } else {
      __builtin_prefetch(&short_keys[state.bucket]);
    }
    return state.rope != 0;
  }
};

// The path of misses in a search tree of `lengths` (ascending, `routes` of
// each): of all trees the one in which a route is found after the fewest probes
// on average, by dynamic programming.
std::vector<uint8_t> PathOfMisses(const std::vector<uint8_t>& lengths,
                                  const std::vector<size_t>& routes) {
  const size_t n = lengths.size();
  // Of lengths i to j - 1, at i * (n + 1) + j: the sum of probes, and the root.
  std::vector<size_t> cost((n + 1) * (n + 1));
  std::vector<size_t> root = cost;
  for (size_t width = 1; width <= n; ++width) {
    for (size_t i = 0; i + width <= n; ++i) {
      const size_t j = i + width;
      size_t best = std::numeric_limits<size_t>::max();
      size_t weight = 0;
      for (size_t r = i; r < j; ++r) {
        weight += routes[r];
        const size_t here = cost[i * (n + 1) + r] + cost[(r + 1) * (n + 1) + j];
        if (here < best) {
          best = here;
          root[i * (n + 1) + j] = r;
        }
      }
      cost[i * (n + 1) + j] = best + weight;
    }
  }
  std::vector<uint8_t> path;
  for (size_t j = n; j > 0;) {
    j = root[j];
    path.push_back(lengths[j]);
  }
  return path;
}

// A key of one length while it is built.
struct Entry {
  absl::uint128 key;
  First found;
};
using ByLength = std::array<std::vector<Entry>, 129>;

absl::uint128 Mask(int length) {
  return length == 128 ? absl::Uint128Max() : ~(absl::Uint128Max() >> length);
}

// Enters routes and markers, from the first bits on.
class Builder {
 public:
  explicit Builder(absl::Span<const Route> routes)
      : routes_(routes), parents_(routes.size()) {
    std::vector<size_t> open;
    for (size_t i = 0; i < routes.size(); ++i) {
      while (!open.empty() &&
             !routes[open.back()].prefix.Covers(routes[i].prefix)) {
        open.pop_back();
      }
      parents_[i] = open.empty() ? i : open.back();
      open.push_back(i);
    }
  }

  std::vector<First> Build() {
    std::vector<First> firsts(size_t{1} << kFirstBits);
    const auto first_of = [&](size_t i) {
      return static_cast<size_t>(routes_[i].prefix.first() >>
                                 (128 - kFirstBits));
    };
    for (size_t i = 0; i < routes_.size();) {
      const size_t first = first_of(i);
      if (routes_[i].prefix.length() <= kFirstBits) {
        std::fill_n(&firsts[first],
                    size_t{1} << (kFirstBits - routes_[i].prefix.length()),
                    First{0, routes_[i].next_hop});
        ++i;
        continue;
      }
      std::vector<size_t> group;
      for (; i < routes_.size() && first_of(i) == first; ++i) {
        group.push_back(i);
      }
      firsts[first].rope = Enter(std::move(group));
    }
    return firsts;
  }

  const ByLength& entries() const { return entries_; }

 private:
  // Enters routes, ascending, that are found after the same hit; returns where
  // to go on after it. A length on the path of misses has an entry for each
  // route that is as long or longer; those that share one are found after it.
  Rope Enter(std::vector<size_t> group) {
    if (group.empty()) return 0;
    std::array<size_t, 129> count = {};
    for (const size_t i : group) ++count[LengthOf(i)];
    std::vector<uint8_t> lengths;
    std::vector<size_t> weights;
    for (uint8_t length = 1; length <= 128; ++length) {
      if (count[length] == 0) continue;
      lengths.push_back(length);
      weights.push_back(count[length]);
    }
    std::vector<uint8_t> path = PathOfMisses(lengths, weights);
    if (path.size() > kMostMisses) {  // a balanced tree has a shorter one
      path = PathOfMisses(lengths, std::vector<size_t>(lengths.size(), 1));
    }
    ABSL_RAW_CHECK(path.size() <= kMostMisses, "path of misses");
    Rope rope = 0;
    for (size_t step = 0; step < path.size(); ++step) {
      const uint8_t length = path[step];
      rope |= Rope{length} << (8 * step);
      std::vector<size_t> rest;
      for (size_t k = 0; k < group.size();) {
        if (LengthOf(group[k]) < length) {
          rest.push_back(group[k++]);
          continue;
        }
        const absl::uint128 key =
            routes_[group[k]].prefix.first() & Mask(length);
        const NextHopId next_hop = LongestUpTo(length, group[k]);
        std::vector<size_t> behind;
        for (; k < group.size() &&
               (routes_[group[k]].prefix.first() & Mask(length)) == key;
             ++k) {
          if (LengthOf(group[k]) > length) behind.push_back(group[k]);
        }
        const Rope next = Enter(std::move(behind));
        entries_[length].push_back({key, {next, next_hop}});
      }
      group = std::move(rest);
    }
    return rope;
  }

  uint8_t LengthOf(size_t i) const {
    return static_cast<uint8_t>(routes_[i].prefix.length());
  }

  // The next hop of the longest route up to `length` that covers route i.
  NextHopId LongestUpTo(uint8_t length, size_t i) const {
    while (LengthOf(i) > length && parents_[i] != i) i = parents_[i];
    return LengthOf(i) <= length ? routes_[i].next_hop : kNoRoute;
  }

  const absl::Span<const Route> routes_;
  std::vector<size_t> parents_;  // the longest that covers each, or itself
  ByLength entries_;
};

class Hbs : public InTurns<View> {
 public:
  Hbs(Family family, absl::Span<const Route> routes, Turns turns)
      : InTurns(family, turns) {
    Builder builder(routes);
    const std::vector<First> firsts = builder.Build();
    firsts_ = HugeArray<First>(firsts.size());
    std::copy(firsts.begin(), firsts.end(), firsts_.begin());
    Lay(builder.entries());
    view_ = {firsts_.data(), lengths_.data(), short_keys_.data(),
             long_keys_.data()};
  }

  size_t bytes() const override {
    return sizeof(*this) + firsts_.bytes() + short_keys_.bytes() +
           long_keys_.bytes();
  }

 private:
  // Buckets are half full on average, so that few are full.
  void Lay(const ByLength& entries) {
    size_t sizes[2] = {};
    for (size_t bits = 0; bits <= 128; ++bits) {
      const absl::uint128 mask = Mask(static_cast<int>(bits));
      lengths_[bits] = {
          .masks = {absl::Uint128High64(mask), absl::Uint128Low64(mask)},
          .first = sizes[bits > 64],
          .buckets =
              1 + static_cast<uint32_t>(entries[bits].size() * 2 / kSlots),
          .is_long = bits > 64};
      sizes[bits > 64] += lengths_[bits].buckets;
    }
    short_keys_ = HugeArray<Bucket<1>>(sizes[0]);
    long_keys_ = HugeArray<Bucket<2>>(sizes[1]);
    for (size_t bits = 1; bits <= 128; ++bits) {
      const Length& length = lengths_[bits];
      for (const Entry& entry : entries[bits]) {
        const Key key = {absl::Uint128High64(entry.key),
                         absl::Uint128Low64(entry.key)};
        if (length.is_long) {
          Put(key, entry.found, length, long_keys_.data());
        } else {
          Put(key, entry.found, length, short_keys_.data());
        }
      }
    }
  }

  template <size_t kHalves>
  static void Put(Key key, const First& found, const Length& length,
                  Bucket<kHalves>* buckets) {
    size_t at = HomeOf(key, length);
    while (buckets[at].used == (1U << kSlots) - 1) {
      buckets[at].full = true;
      at = After(at, length);
    }
    Bucket<kHalves>* const bucket = &buckets[at];
    const auto slot = static_cast<size_t>(__builtin_popcount(bucket->used));
    bucket->keys[0][slot] = key.high;
    if constexpr (kHalves == 2) bucket->keys[1][slot] = key.low;
    bucket->ropes[slot] = found.rope;
    bucket->next_hops[slot] = found.next_hop;
    bucket->used = static_cast<uint8_t>(bucket->used << 1 | 1);
  }

  std::array<Length, 129> lengths_ = {};
  HugeArray<First> firsts_;
  HugeArray<Bucket<1>> short_keys_;
  HugeArray<Bucket<2>> long_keys_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildHbs(
    Family family, absl::Span<const Route> routes, Turns turns) {
  return std::make_unique<Hbs>(family, routes, turns);
}

}  // namespace planb
