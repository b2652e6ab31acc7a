// SPDX-License-Identifier: Apache-2.0

#include <endian.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/paper.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace bloom {
namespace {

// Keys are the first bits of an address, in 64 bits (IPv4: 32).
template <typename Bits>
struct Slot {
  Bits key;
  uint32_t value;  // 0 if there is none
};

// A filter and the hash table behind it.
template <typename Bits>
struct Level {
  uint32_t shift;  // that leaves the bits of the key
  uint32_t filter_bits;
  const uint32_t* filter;
  uint32_t slots;
  const Slot<Bits>* table;
};

template <typename Bits>
struct View {
  std::vector<Level<Bits>> levels;  // the longest first
  uint32_t hashes;
  uint32_t direct_shift;
  const uint32_t* direct;  // by the first bits
  const LowerHalves* lower;
};

// Addresses that go through the levels together.
inline constexpr size_t kBatch = 128;
inline constexpr size_t kLanes = 8;

// Some of them. A store of a vector may go past the last.
struct Some {
  size_t count;
  uint64_t keys[kBatch + kLanes];
  uint64_t lanes[kBatch + kLanes];
  uint64_t hashes[kBatch + kLanes];  // the first, of those that pass a filter
};

// Xors with shifts and products: MurmurHash3's last step, for 64 bits, and H2
// (Algorithm 3), for 32, are of this form.
struct Mixer {
  int shifts[3];
  uint64_t factors[2];
};
template <typename Bits>
inline constexpr Mixer kMixer =
    sizeof(Bits) == 4
        ? Mixer{{16, 16, 16}, {0x45d9f3b, 0x45d9f3b}}
        : Mixer{{33, 33, 33}, {0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53}};
// Makes a second hash of the first's function.
inline constexpr uint64_t kOther = 0x9e3779b9;

template <typename Bits>
Bits Mixed(uint64_t value) {
  constexpr Mixer kMix = kMixer<Bits>;
  auto x = static_cast<Bits>(value);
  for (int i = 0; i < 2; ++i) {
    x = static_cast<Bits>((x ^ (x >> kMix.shifts[i])) * kMix.factors[i]);
  }
  return x ^ (x >> kMix.shifts[2]);
}

// Two hashes of 32 bits: of these all others are made (section 4.1).
struct Hashes {
  uint64_t first;
  uint64_t second;

  // The i-th, scaled to a range.
  uint64_t In(uint32_t range, uint32_t i) const {
    return (((first + i * second) & UINT32_MAX) * range) >> 32;
  }
};
template <typename Bits>
Hashes HashesOf(uint64_t key) {
  if constexpr (sizeof(Bits) == 4) {
    return {Mixed<Bits>(key), Mixed<Bits>(key ^ kOther)};
  } else {
    const uint64_t hash = Mixed<Bits>(key);
    return {hash & UINT32_MAX, hash >> 32};
  }
}

// Moves those of `active` that pass the filter to `passed`.
template <typename Bits>
void FilterScalar(const Level<Bits>& level, uint32_t hashes, Some& active,
                  Some& passed) {
  size_t left = 0;
  size_t hits = 0;
  for (size_t i = 0; i < active.count; ++i) {
    const uint64_t key = active.keys[i];
    const uint64_t lane = active.lanes[i];
    const Hashes hash = HashesOf<Bits>(key >> level.shift);
    uint32_t bits = 1;
    for (uint32_t j = 0; j < hashes; ++j) {
      const uint64_t bit = hash.In(level.filter_bits, j);
      bits &= level.filter[bit / 32] >> (bit % 32);
    }
    passed.keys[hits] = active.keys[left] = key;
    passed.lanes[hits] = active.lanes[left] = lane;
    passed.hashes[hits] = hash.first;
    hits += bits;
    left += 1 - bits;
  }
  active.count = left;
  passed.count = hits;
}

}  // namespace
}  // namespace bloom
}  // namespace planb

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,popcnt")

namespace planb {
namespace bloom {
namespace {

// Eight numbers in 64 bits each, of which those of 32 leave the upper half 0.
template <typename Bits>
__m512i Product(__m512i x, uint64_t factor) {
  const __m512i by = _mm512_set1_epi64(static_cast<int64_t>(factor));
  return sizeof(Bits) == 4 ? _mm512_mullo_epi32(x, by)
                           : _mm512_mullo_epi64(x, by);
}

template <typename Bits>
__m512i Mixed(__m512i x) {
  constexpr Mixer kMix = kMixer<Bits>;
  for (int i = 0; i < 2; ++i) {
    x = _mm512_xor_si512(
        x, _mm512_srli_epi64(x, static_cast<uint32_t>(kMix.shifts[i])));
    x = Product<Bits>(x, kMix.factors[i]);
  }
  return _mm512_xor_si512(
      x, _mm512_srli_epi64(x, static_cast<uint32_t>(kMix.shifts[2])));
}

struct VectorHashes {
  __m512i first;
  __m512i second;
};
template <typename Bits>
VectorHashes HashesOf(__m512i key) {
  if constexpr (sizeof(Bits) == 4) {
    const __m512i other = _mm512_set1_epi64(kOther);
    return {Mixed<Bits>(key), Mixed<Bits>(_mm512_xor_si512(key, other))};
  } else {
    const __m512i hash = Mixed<Bits>(key);
    return {_mm512_and_si512(hash, _mm512_set1_epi64(UINT32_MAX)),
            _mm512_srli_epi64(hash, 32)};
  }
}

// Zen 4 is slow to compress into memory, not into a register.
void Append(__m512i values, __mmask8 chosen, uint64_t* to) {
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(chosen, values));
}

// See FilterScalar.
template <typename Bits>
void FilterAvx512(const Level<Bits>& level, uint32_t hashes, Some& active,
                  Some& passed) {
  const __m512i range = _mm512_set1_epi64(level.filter_bits);
  size_t left = 0;
  size_t hits = 0;
  for (size_t i = 0; i < active.count; i += kLanes) {
    const size_t rest = std::min(kLanes, active.count - i);
    const auto valid = static_cast<__mmask8>((1U << rest) - 1);
    const __m512i keys = _mm512_loadu_si512(active.keys + i);
    const __m512i lanes = _mm512_loadu_si512(active.lanes + i);
    const auto [first, second] =
        HashesOf<Bits>(_mm512_srli_epi64(keys, level.shift));
    __mmask8 in = valid;
    __m512i hash = first;
    for (uint32_t j = 0; j < hashes; ++j) {
      // Of either factor the lower half counts.
      const __m512i bit = _mm512_srli_epi64(_mm512_mul_epu32(hash, range), 32);
      const __m512i words = _mm512_cvtepu32_epi64(_mm512_mask_i64gather_epi32(
          _mm256_setzero_si256(), valid, _mm512_srli_epi64(bit, 5),
          level.filter, 4));
      const __m512i at = _mm512_and_si512(bit, _mm512_set1_epi64(31));
      in = _mm512_mask_test_epi64_mask(in, _mm512_srlv_epi64(words, at),
                                       _mm512_set1_epi64(1));
      hash = _mm512_add_epi64(hash, second);
    }
    const auto out = static_cast<__mmask8>(valid & ~in);
    Append(keys, in, passed.keys + hits);
    Append(lanes, in, passed.lanes + hits);
    Append(first, in, passed.hashes + hits);
    Append(keys, out, active.keys + left);
    Append(lanes, out, active.lanes + left);
    hits += static_cast<size_t>(_mm_popcnt_u32(in));
    left += static_cast<size_t>(_mm_popcnt_u32(out));
  }
  active.count = left;
  passed.count = hits;
}

}  // namespace
}  // namespace bloom
}  // namespace planb

#pragma GCC pop_options

namespace planb {
namespace bloom {
namespace {

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("popcnt");
}

template <typename Bits>
size_t SlotOf(uint64_t hash, const Level<Bits>& level) {
  return (hash * level.slots) >> 32;
}

template <typename Bits>
using Filter = void (*)(const Level<Bits>& level, uint32_t hashes, Some& active,
                        Some& passed);

// Level after level for all that are left: those that a filter lets pass are
// looked up in its table, each line asked for ahead of the search.
template <typename Bits, Filter<Bits> kFilter>
void Lookup(const View<Bits>& view, const void* addresses, size_t count,
            void* next_hops) {
  using Reader = std::conditional_t<sizeof(Bits) == 4, Ipv4Reader, Ipv6Reader>;
  const auto* in = static_cast<const uint8_t*>(addresses);
  auto* out = static_cast<uint8_t*>(next_hops);
  Some active;
  Some passed;
  while (count > 0) {
    const size_t size = std::min(count, kBatch);
    for (size_t i = 0; i < size; ++i) {
      const uint64_t high = Reader::Read(in + i * Reader::kBytes).high;
      active.keys[i] = high >> (64 - 8 * sizeof(Bits));
      active.lanes[i] = i;
    }
    active.count = size;
    const auto write = [&](uint64_t lane, uint32_t value) {
      const uint64_t low = Reader::Read(in + lane * Reader::kBytes).low;
      WriteNextHop(view.lower->Resolve(value, low), out + 4 * lane);
    };
    for (const Level<Bits>& level : view.levels) {
      if (active.count == 0) break;
      kFilter(level, view.hashes, active, passed);
      for (size_t i = 0; i < passed.count; ++i) {
        __builtin_prefetch(&level.table[SlotOf(passed.hashes[i], level)]);
      }
      for (size_t i = 0; i < passed.count; ++i) {
        const auto key = static_cast<Bits>(passed.keys[i] >> level.shift);
        const Slot<Bits>* slot = &level.table[SlotOf(passed.hashes[i], level)];
        while (slot->value != 0 && slot->key != key) {
          if (++slot == level.table + level.slots) slot = level.table;
        }
        if (slot->value != 0) {
          write(passed.lanes[i], slot->value);
        } else {
          active.keys[active.count] = passed.keys[i];
          active.lanes[active.count++] = passed.lanes[i];
        }
      }
    }
    for (size_t i = 0; i < active.count; ++i) {
      write(active.lanes[i], view.direct[active.keys[i] >> view.direct_shift]);
    }
    in += size * Reader::kBytes;
    out += size * 4;
    count -= size;
  }
}

// The least sum of expanded prefixes for the lengths so far, in so many levels.
struct Choice {
  double cost = std::numeric_limits<double>::infinity();
  int before = 0;  // the length of the level before
};

}  // namespace
}  // namespace bloom

std::vector<int> ExpansionLengths(absl::Span<const Route> routes,
                                  int direct_bits, int levels) {
  using bloom::Choice;
  std::array<double, 129> routes_of = {};
  int longest = 0;
  for (const Route& route : routes) {
    const int length = route.prefix.length();
    routes_of[static_cast<size_t>(length)] += 1;
    longest = std::max(longest, length);
  }
  if (longest <= direct_bits) return {};
  std::vector<std::array<Choice, 129>> best(static_cast<size_t>(levels) + 1);
  best[0][static_cast<size_t>(direct_bits)].cost = 0;
  for (size_t level = 1; level < best.size(); ++level) {
    for (int last = direct_bits + 1; last <= longest; ++last) {
      // Of the lengths from `from` to `last`, if `last` is the next level.
      double expanded = 0;
      Choice& choice = best[level][static_cast<size_t>(last)];
      for (int from = last; from > direct_bits; --from) {
        expanded +=
            std::ldexp(routes_of[static_cast<size_t>(from)], last - from);
        const double cost =
            best[level - 1][static_cast<size_t>(from) - 1].cost + expanded;
        if (cost < choice.cost) choice = {cost, from - 1};
      }
    }
  }
  const auto cost = [&](size_t level) {
    return best[level][static_cast<size_t>(longest)].cost;
  };
  size_t level = 1;
  for (size_t more = 2; more < best.size(); ++more) {
    if (cost(more) < cost(level)) level = more;
  }
  std::vector<int> lengths;
  for (int last = longest; level > 0; --level) {
    lengths.push_back(last);
    last = best[level][static_cast<size_t>(last)].before;
  }
  std::reverse(lengths.begin(), lengths.end());
  return lengths;
}

namespace {

using bloom::Level;
using bloom::Slot;
using bloom::View;

inline constexpr int kDirectBits = 20;
inline constexpr double kFalsePositives = 0.05;
// Beyond this a table does not fit: 16 bytes each and half of them empty.
inline constexpr size_t kMaxExpanded = size_t{1} << 26;

template <typename Bits>
using LookupFunction = void (*)(const View<Bits>& view, const void* addresses,
                                size_t count, void* next_hops);
template <typename Bits>
LookupFunction<Bits> LookupBy(RivalKernel kernel) {
  const bool scalar = kernel == RivalKernel::kScalar || !bloom::HasAvx512();
  return scalar ? bloom::Lookup<Bits, bloom::FilterScalar<Bits>>
                : bloom::Lookup<Bits, bloom::FilterAvx512<Bits>>;
}

template <typename Bits>
class Bloom : public Baseline {
 public:
  Bloom(absl::Span<const Route> routes, const paper::Stages& stages,
        const std::vector<int>& lengths, RivalKernel kernel)
      : lookup_(LookupBy<Bits>(kernel)),
        direct_(size_t{1} << kDirectBits),
        lower_(stages.second) {
    const double bits_each =
        -std::log2(kFalsePositives) / std::log(2.0);  // (3)
    view_.hashes = static_cast<uint32_t>(
        std::max(1L, std::lround(bits_each * std::log(2.0))));  // (1)
    view_.direct_shift = static_cast<uint32_t>(kWidth - kDirectBits);
    view_.lower = &lower_;
    view_.direct = direct_.data();
    // What covers a route comes before it, and is written over.
    std::vector<absl::flat_hash_map<uint64_t, uint32_t>> expanded(
        lengths.size());
    for (const auto& [prefix, value] : routes) {
      const uint64_t bits =
          absl::Uint128High64(prefix.first()) >> (64 - kWidth);
      if (prefix.length() <= kDirectBits) {
        std::fill_n(&direct_[bits >> view_.direct_shift],
                    direct_.size() >> prefix.length(), value);
        continue;
      }
      const auto level =
          std::lower_bound(lengths.begin(), lengths.end(), prefix.length());
      const uint64_t first = bits >> (kWidth - *level);
      auto& entries = expanded[static_cast<size_t>(level - lengths.begin())];
      for (uint64_t i = 0; i < uint64_t{1} << (*level - prefix.length()); ++i) {
        entries[first + i] = value;
      }
    }
    for (size_t i = lengths.size(); i-- > 0;) {
      std::vector<std::pair<uint64_t, uint32_t>> entries(expanded[i].begin(),
                                                         expanded[i].end());
      std::sort(entries.begin(), entries.end());
      Add(static_cast<uint32_t>(kWidth - lengths[i]), entries, bits_each);
    }
  }

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    lookup_(view_, addresses, count, next_hops);
  }

  size_t bytes() const override {
    size_t bytes = sizeof(*this) + direct_.bytes() + lower_.bytes();
    for (const auto& filter : filters_) bytes += filter.bytes();
    for (const auto& table : tables_) bytes += table.bytes();
    return bytes;
  }

 private:
  static constexpr int kWidth = 8 * sizeof(Bits);

  void Add(uint32_t shift,
           const std::vector<std::pair<uint64_t, uint32_t>>& entries,
           double bits_each) {
    const size_t bits = static_cast<size_t>(
        std::ceil(bits_each * static_cast<double>(entries.size())));
    auto& filter = filters_.emplace_back(bits / 32 + 1);
    auto& table = tables_.emplace_back(2 * entries.size());
    const Level<Bits> level = {
        shift, static_cast<uint32_t>(bits), filter.data(),
        static_cast<uint32_t>(table.size()), table.data()};
    for (const auto& [key, value] : entries) {
      const bloom::Hashes hashes = bloom::HashesOf<Bits>(key);
      for (uint32_t i = 0; i < view_.hashes; ++i) {
        const uint64_t bit = hashes.In(level.filter_bits, i);
        filter[bit / 32] |= uint32_t{1} << (bit % 32);
      }
      size_t slot = bloom::SlotOf(hashes.first, level);
      while (table[slot].value != 0) slot = (slot + 1) % table.size();
      table[slot] = {static_cast<Bits>(key), value};
    }
    view_.levels.push_back(level);
  }

  const LookupFunction<Bits> lookup_;
  HugeArray<uint32_t> direct_;
  std::vector<HugeArray<uint32_t>> filters_;
  std::vector<HugeArray<Slot<Bits>>> tables_;
  const LowerHalves lower_;
  View<Bits> view_;
};

template <typename Bits>
absl::StatusOr<std::unique_ptr<const Baseline>> Build(
    Family family, absl::Span<const Route> routes,
    const BloomOptions& options) {
  const paper::Stages stages =
      paper::SplitStages(paper::Sweep(routes, paper::Boundaries::kDistinct));
  const std::vector<Route> upper =
      family == Family::kIpv6
          ? UpToHalf(routes, stages)
          : std::vector<Route>(routes.begin(), routes.end());
  const std::vector<int> lengths =
      ExpansionLengths(upper, kDirectBits, options.levels);
  size_t expanded = 0;
  for (const Route& route : upper) {
    const int length = route.prefix.length();
    const auto level = std::lower_bound(lengths.begin(), lengths.end(), length);
    if (level == lengths.end() || length <= kDirectBits) continue;
    // No more than this many in all, so that it does not wrap.
    expanded += size_t{1} << std::min(*level - length, 40);
    if (expanded > kMaxExpanded) {
      return absl::ResourceExhaustedError("2^26 expanded prefixes");
    }
  }
  return std::make_unique<Bloom<Bits>>(upper, stages, lengths, options.kernel);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildBloom(
    Family family, absl::Span<const Route> routes,
    const BloomOptions& options) {
  const absl::Status status = CheckNextHops(routes);
  if (!status.ok()) return status;
  return family == Family::kIpv6 ? Build<uint64_t>(family, routes, options)
                                 : Build<uint32_t>(family, routes, options);
}

}  // namespace planb
