// SPDX-License-Identifier: Apache-2.0

#include <endian.h>
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace dir24 {
namespace {

// An entry with its highest bit set names a block.
template <typename Entry>
inline constexpr Entry kIsBlock =
    static_cast<Entry>(Entry{1} << (8 * sizeof(Entry) - 1));

inline constexpr size_t kBlock = 256;

// A gather reads four bytes wherever it reads: both arrays of entries go on
// for at least this many bytes after their last.
inline constexpr size_t kSlack = 4;

template <typename Entry>
struct View {
  const Entry* table;         // by the first 24 bits
  const Entry* blocks;        // of kBlock entries, by the last 8
  const uint32_t* next_hops;  // by entry
};

// Lookups are independent and short: the processor overlaps them by itself.
template <typename Entry>
void LookupScalar(const View<Entry>& view, const void* addresses, size_t count,
                  void* next_hops) {
  const auto* const in = static_cast<const uint8_t*>(addresses);
  auto* const out = static_cast<uint8_t*>(next_hops);
#pragma GCC unroll 8
  for (size_t i = 0; i < count; ++i) {
    uint32_t wire;
    std::memcpy(&wire, in + 4 * i, sizeof(wire));
    const uint32_t address = be32toh(wire);
    uint32_t entry = view.table[address >> 8];
    if (entry & kIsBlock<Entry>) [[unlikely]] {
      const size_t block = entry & ~uint32_t{kIsBlock<Entry>};
      entry = view.blocks[block * kBlock + (address & 0xff)];
    }
    wire = htole32(view.next_hops[entry]);
    std::memcpy(out + 4 * i, &wire, sizeof(wire));
  }
}

}  // namespace
}  // namespace dir24
}  // namespace planb

// By AVX-512, sixteen addresses a step: a gather from the table, one from the
// blocks where an address needs it, and one from the next hops.
//
// GCC 12 takes the undefined value inside its intrinsics for one of this file.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw")

namespace planb {
namespace dir24 {
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
__m512i NextHops(const View<Entry>& view, __m512i wire, __mmask16 lanes) {
  const __m512i address = Swapped(wire);
  const __m512i is_block =
      _mm512_set1_epi32(static_cast<int32_t>(kIsBlock<Entry>));
  __m512i entry = Gathered(_mm512_setzero_si512(), lanes,
                           _mm512_srli_epi32(address, 8), view.table);
  const __mmask16 more = _mm512_test_epi32_mask(entry, is_block);
  if (more != 0) {
    const __m512i block = _mm512_andnot_si512(is_block, entry);
    const __m512i index =
        _mm512_or_si512(_mm512_slli_epi32(block, 8),
                        _mm512_and_si512(address, _mm512_set1_epi32(0xff)));
    entry = Gathered(entry, more, index, view.blocks);
  }
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes, entry,
                                     view.next_hops, 4);
}

template <typename Entry>
void LookupAvx512(const View<Entry>& view, const void* addresses, size_t count,
                  void* next_hops) {
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
}  // namespace dir24
}  // namespace planb

#pragma GCC pop_options

namespace planb {
namespace dir24 {
namespace {

// True if this CPU, and the operating system, allow LookupAvx512.
bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw");
}

}  // namespace
}  // namespace dir24

namespace {

using dir24::kBlock;
using dir24::kIsBlock;

constexpr size_t kTableSize = size_t{1} << 24;

uint32_t First(const Prefix& prefix) {
  return static_cast<uint32_t>(absl::Uint128High64(prefix.first()) >> 32);
}

template <typename Entry>
class Dir24 : public Baseline {
 public:
  Dir24(absl::Span<const Route> routes, size_t blocks, RivalKernel kernel)
      : table_(kTableSize + dir24::kSlack / sizeof(Entry)),
        blocks_(blocks * kBlock + dir24::kSlack / sizeof(Entry)),
        next_hops_{kNoRoute},
        lookup_(kernel == RivalKernel::kScalar || !dir24::HasAvx512()
                    ? dir24::LookupScalar<Entry>
                    : dir24::LookupAvx512<Entry>) {
    absl::flat_hash_map<NextHopId, Entry> indexes;
    // In the order of prefixes what covers a prefix comes before it, and
    // nothing shorter than /25 comes after a longer one in the same /24.
    for (const Route& route : routes) {
      const auto [it, fresh] = indexes.try_emplace(
          route.next_hop, static_cast<Entry>(next_hops_.size()));
      if (fresh) next_hops_.push_back(route.next_hop);
      Add(route.prefix, it->second);
    }
    view_ = {table_.data(), blocks_.data(), next_hops_.data()};
  }

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    lookup_(view_, addresses, count, next_hops);
  }

  size_t bytes() const override {
    return sizeof(*this) + table_.bytes() + blocks_.bytes() +
           next_hops_.size() * sizeof(NextHopId);
  }

 private:
  void Add(const Prefix& prefix, Entry entry) {
    const uint32_t first = First(prefix);
    if (prefix.length() <= 24) {
      std::fill_n(&table_[first >> 8], size_t{1} << (24 - prefix.length()),
                  entry);
      return;
    }
    Entry& slot = table_[first >> 8];
    if (!(slot & kIsBlock<Entry>)) {
      std::fill_n(&blocks_[blocks_used_ * kBlock], kBlock, slot);
      slot = static_cast<Entry>(kIsBlock<Entry> | blocks_used_++);
    }
    const size_t block = slot & static_cast<Entry>(~kIsBlock<Entry>);
    std::fill_n(&blocks_[block * kBlock + (first & 0xff)],
                size_t{1} << (32 - prefix.length()), entry);
  }

  HugeArray<Entry> table_;
  HugeArray<Entry> blocks_;
  size_t blocks_used_ = 0;
  std::vector<NextHopId> next_hops_;
  dir24::View<Entry> view_;
  void (*const lookup_)(const dir24::View<Entry>& view, const void* addresses,
                        size_t count, void* next_hops);
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildDir24(
    Family family, absl::Span<const Route> routes, RivalKernel kernel) {
  if (family != Family::kIpv4) return absl::UnimplementedError("IPv4 only");
  size_t blocks = 0;  // distinct /24s with something longer in them
  uint32_t last = 0;
  absl::flat_hash_set<NextHopId> next_hops;
  for (const Route& route : routes) {
    next_hops.insert(route.next_hop);
    if (route.prefix.length() <= 24) continue;
    const uint32_t slot = First(route.prefix) >> 8;
    if (blocks == 0 || slot != last) ++blocks;
    last = slot;
  }
  // A gather's index is a signed number of 32 bits.
  if (blocks >= size_t{1} << 23) {
    return absl::ResourceExhaustedError("too many /24s with longer prefixes");
  }
  if (next_hops.size() < kIsBlock<uint16_t> && blocks <= kIsBlock<uint16_t>) {
    return std::make_unique<Dir24<uint16_t>>(routes, blocks, kernel);
  }
  return std::make_unique<Dir24<uint32_t>>(routes, blocks, kernel);
}

}  // namespace planb
