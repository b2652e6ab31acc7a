// SPDX-License-Identifier: Apache-2.0

// DIR-24-8 and SAIL_L: a table that the first bits index, and chunks of 256
// entries for the next eight.

#include <endian.h>
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

constexpr uint32_t kStride = 8;

// An entry with its highest bit set is the number of a chunk.
template <typename Entry>
constexpr Entry kIsChunk = static_cast<Entry>(Entry{1}
                                              << (8 * sizeof(Entry) - 1));

// Entries of 32 bits, of each level.
struct Grown {
  std::vector<std::vector<uint32_t>> levels;
  NextHopNumbers numbers;

  // True if all numbers fit entries of 16 bits.
  bool narrow() const {
    size_t most = numbers.size();
    for (size_t i = 1; i < levels.size(); ++i) {
      most = std::max(most, levels[i].size() >> kStride);
    }
    return most <= kIsChunk<uint16_t>;
  }
};

Grown Grow(absl::Span<const Route> routes, const std::vector<uint32_t>& ends) {
  const std::vector<paper::Interval> intervals =
      paper::Sweep(routes, paper::Boundaries::kDistinct);
  Grown grown;
  std::vector<Part> level = {{0, 0}};
  uint32_t depth = 0;
  for (const uint32_t end : ends) {
    std::vector<uint32_t>& entries = grown.levels.emplace_back();
    entries.reserve(level.size() << (end - depth));
    std::vector<Part> next;
    for (const Part& whole : level) {
      CutEvenly(intervals, whole, depth, end - depth,
                [&](uint32_t, Part part, const NextHopId* next_hop) {
                  if (next_hop != nullptr) {
                    entries.push_back(grown.numbers.NumberOf(*next_hop));
                    return;
                  }
                  entries.push_back(kIsChunk<uint32_t> |
                                    static_cast<uint32_t>(next.size()));
                  next.push_back(part);
                });
    }
    level = std::move(next);
    depth = end;
  }
  return grown;
}

template <typename Entry>
HugeArray<Entry> Narrowed(std::vector<uint32_t> entries) {
  for (uint32_t& entry : entries) {
    if (entry & kIsChunk<uint32_t>) entry |= kIsChunk<Entry>;
  }
  return Copied<Entry>(entries);
}

// What a lookup reads.
template <typename Entry>
struct SailView {
  const Entry* level16;
  // Chunks, for /24s and for single addresses.
  const Entry* level24;
  const Entry* level32;
  const NextHopId* next_hops;
};
template <typename Entry>
struct Dir24View {
  const Entry* table;   // by the first 24 bits
  const Entry* chunks;  // by the last 8
  const NextHopId* next_hops;
};

// Addresses are taken by 32, a level after the other, so that their cache
// misses overlap. Whether level 16 has the answer is not to be foreseen: level
// 24 is read in any case, its first entry if there is no need. Level 32 rarely
// is.
template <typename Entry>
void LookupSail(const SailView<Entry>& view, const void* addresses,
                size_t count, void* next_hops) {
  constexpr size_t kLanes = 32;
  const auto* in = static_cast<const uint8_t*>(addresses);
  auto* out = static_cast<uint8_t*>(next_hops);
  while (count > 0) {
    const size_t lanes = std::min(count, kLanes);
    uint32_t address[kLanes];
    uint32_t is_chunk[kLanes];  // all ones, or none
    uint32_t entry[kLanes];
    uint32_t slot[kLanes];
    for (size_t i = 0; i < lanes; ++i) {
      address[i] =
          static_cast<uint32_t>(Ipv4Reader::Read(in + 4 * i).high >> 32);
      entry[i] = view.level16[address[i] >> 16];
      is_chunk[i] = 0U - ((entry[i] & kIsChunk<Entry>) != 0);
      entry[i] &= static_cast<Entry>(~kIsChunk<Entry>);
      slot[i] = (entry[i] << kStride | (address[i] >> 8 & 0xff)) & is_chunk[i];
      __builtin_prefetch(&view.level24[slot[i]]);
    }
    for (size_t i = 0; i < lanes; ++i) {
      entry[i] ^= (entry[i] ^ view.level24[slot[i]]) & is_chunk[i];
      if (entry[i] & kIsChunk<Entry>) [[unlikely]] {
        const size_t chunk = entry[i] & static_cast<Entry>(~kIsChunk<Entry>);
        entry[i] = view.level32[chunk << kStride | (address[i] & 0xff)];
      }
      WriteNextHop(view.next_hops[entry[i]], out + 4 * i);
    }
    in += 4 * lanes;
    out += 4 * lanes;
    count -= lanes;
  }
}

// Lookups are independent and short: the processor overlaps them by itself.
template <typename Entry>
void LookupScalar(const Dir24View<Entry>& view, const void* addresses,
                  size_t count, void* next_hops) {
  const auto* const in = static_cast<const uint8_t*>(addresses);
  auto* const out = static_cast<uint8_t*>(next_hops);
#pragma GCC unroll 8
  for (size_t i = 0; i < count; ++i) {
    uint32_t wire;
    std::memcpy(&wire, in + 4 * i, sizeof(wire));
    const uint32_t address = be32toh(wire);
    uint32_t entry = view.table[address >> 8];
    if (entry & kIsChunk<Entry>) [[unlikely]] {
      const size_t chunk = entry & ~uint32_t{kIsChunk<Entry>};
      entry = view.chunks[chunk << kStride | (address & 0xff)];
    }
    wire = htole32(view.next_hops[entry]);
    std::memcpy(out + 4 * i, &wire, sizeof(wire));
  }
}

}  // namespace
}  // namespace planb

// By AVX-512, sixteen addresses a step: a gather from the table, one from the
// chunks where an address needs it, and one from the next hops.
//
// GCC 12 takes the undefined value inside its intrinsics for one of this file.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw")

namespace planb {
namespace {

constexpr size_t kLanes = 16;

// Reverses the bytes of each of sixteen numbers.
__m512i Swapped(__m512i value) {
  return _mm512_shuffle_epi8(
      value, _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11,
                                                  10, 9, 8, 15, 14, 13, 12)));
}

// The entries at `index` in `entries`, for the lanes of `mask`; the others are
// as in `otherwise`.
template <typename Entry>
__m512i Gathered(__m512i otherwise, __mmask16 mask, __m512i index,
                 const Entry* entries) {
  const __m512i read = _mm512_mask_i32gather_epi32(otherwise, mask, index,
                                                   entries, sizeof(Entry));
  if constexpr (sizeof(Entry) == 4) return read;
  return _mm512_and_si512(read, _mm512_set1_epi32(0xffff));
}

template <typename Entry>
__m512i NextHops(const Dir24View<Entry>& view, __m512i wire, __mmask16 lanes) {
  const __m512i address = Swapped(wire);
  const __m512i is_chunk =
      _mm512_set1_epi32(static_cast<int32_t>(kIsChunk<Entry>));
  __m512i entry = Gathered(_mm512_setzero_si512(), lanes,
                           _mm512_srli_epi32(address, 8), view.table);
  const __mmask16 more = _mm512_test_epi32_mask(entry, is_chunk);
  if (more != 0) {
    const __m512i chunk = _mm512_andnot_si512(is_chunk, entry);
    const __m512i index =
        _mm512_or_si512(_mm512_slli_epi32(chunk, kStride),
                        _mm512_and_si512(address, _mm512_set1_epi32(0xff)));
    entry = Gathered(entry, more, index, view.chunks);
  }
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes, entry,
                                     view.next_hops, 4);
}

template <typename Entry>
void LookupAvx512(const Dir24View<Entry>& view, const void* addresses,
                  size_t count, void* next_hops) {
  const auto* in = static_cast<const uint8_t*>(addresses);
  auto* out = static_cast<uint8_t*>(next_hops);
#pragma GCC unroll 4
  for (; count >= kLanes; count -= kLanes) {
    _mm512_storeu_si512(
        out, NextHops(view, _mm512_loadu_si512(in), __mmask16{0xffff}));
    in += 4 * kLanes;
    out += 4 * kLanes;
  }
  if (count > 0) {
    const auto lanes = static_cast<__mmask16>((1U << count) - 1);
    _mm512_mask_storeu_epi32(
        out, lanes, NextHops(view, _mm512_maskz_loadu_epi32(lanes, in), lanes));
  }
}

}  // namespace
}  // namespace planb

#pragma GCC pop_options

namespace planb {
namespace {

template <typename Entry>
class Sail : public Baseline {
 public:
  explicit Sail(const Grown& grown)
      : level16_(Narrowed<Entry>(grown.levels[0])),
        level24_(Narrowed<Entry>(grown.levels[1])),
        level32_(Narrowed<Entry>(grown.levels[2])),
        next_hops_(grown.numbers.next_hops()),
        view_{level16_.data(), level24_.data(), level32_.data(),
              next_hops_.data()} {}

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    LookupSail(view_, addresses, count, next_hops);
  }

  size_t bytes() const override {
    return sizeof(*this) + level16_.bytes() + level24_.bytes() +
           level32_.bytes() + next_hops_.size() * sizeof(NextHopId);
  }

 private:
  const HugeArray<Entry> level16_;
  const HugeArray<Entry> level24_;
  const HugeArray<Entry> level32_;
  const std::vector<NextHopId> next_hops_;
  const SailView<Entry> view_;
};

template <typename Entry>
class Dir24 : public Baseline {
 public:
  Dir24(const Grown& grown, RivalKernel kernel)
      : table_(Narrowed<Entry>(grown.levels[0])),
        chunks_(Narrowed<Entry>(grown.levels[1])),
        next_hops_(grown.numbers.next_hops()),
        view_{table_.data(), chunks_.data(), next_hops_.data()},
        lookup_(kernel == RivalKernel::kScalar ||
                        !__builtin_cpu_supports("avx512f") ||
                        !__builtin_cpu_supports("avx512bw")
                    ? LookupScalar<Entry>
                    : LookupAvx512<Entry>) {}

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    lookup_(view_, addresses, count, next_hops);
  }

  size_t bytes() const override {
    return sizeof(*this) + table_.bytes() + chunks_.bytes() +
           next_hops_.size() * sizeof(NextHopId);
  }

 private:
  const HugeArray<Entry> table_;
  const HugeArray<Entry> chunks_;
  const std::vector<NextHopId> next_hops_;
  const Dir24View<Entry> view_;
  void (*const lookup_)(const Dir24View<Entry>& view, const void* addresses,
                        size_t count, void* next_hops);
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildSail(
    Family family, absl::Span<const Route> routes) {
  if (family != Family::kIpv4) return absl::UnimplementedError("IPv4 only");
  const Grown grown = Grow(routes, {16, 24, 32});
  if (grown.narrow()) return std::make_unique<Sail<uint16_t>>(grown);
  return std::make_unique<Sail<uint32_t>>(grown);
}

absl::StatusOr<std::unique_ptr<const Baseline>> BuildDir24(
    Family family, absl::Span<const Route> routes, RivalKernel kernel) {
  if (family != Family::kIpv4) return absl::UnimplementedError("IPv4 only");
  const Grown grown = Grow(routes, {24, 32});
  // A gather's index is a signed number of 32 bits.
  if (grown.levels[1].size() >> 31 != 0) {
    return absl::ResourceExhaustedError("too many /24s with longer prefixes");
  }
  if (grown.narrow()) return std::make_unique<Dir24<uint16_t>>(grown, kernel);
  return std::make_unique<Dir24<uint32_t>>(grown, kernel);
}

}  // namespace planb
