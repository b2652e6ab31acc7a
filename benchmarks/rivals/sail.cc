// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

constexpr uint32_t kFirstStride = 16;
constexpr uint32_t kStride = 8;

// An entry with its highest bit set is the number of a chunk.
template <typename Entry>
constexpr Entry kIsChunk = static_cast<Entry>(Entry{1}
                                              << (8 * sizeof(Entry) - 1));

// What a lookup reads.
template <typename Entry>
struct View {
  const Entry* level16;
  // Chunks of 256 entries, for /24s and for single addresses.
  const Entry* level24;
  const Entry* level32;
  const NextHopId* next_hops;
};

// Addresses are taken by 32, a level after the other, so that their cache
// misses overlap. Whether level 16 has the answer is not to be foreseen: level
// 24 is read in any case, its first entry if there is no need. Level 32 rarely
// is.
template <typename Entry>
void LookupAll(const View<Entry>& view, const void* addresses, size_t count,
               void* next_hops) {
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

// Entries of 32 bits, of each level.
struct Grown {
  std::vector<uint32_t> levels[3];
  NextHopNumbers numbers;
};

Grown Grow(absl::Span<const paper::Interval> intervals) {
  Grown grown;
  std::vector<Part> level = {{0, 0}};
  uint32_t depth = 0;
  for (std::vector<uint32_t>& entries : grown.levels) {
    const uint32_t stride = depth == 0 ? kFirstStride : kStride;
    std::vector<Part> next;
    for (const Part& whole : level) {
      CutEvenly(intervals, whole, depth, stride,
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
    depth += stride;
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
    LookupAll(view_, addresses, count, next_hops);
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
  const View<Entry> view_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildSail(
    Family family, absl::Span<const Route> routes) {
  if (family != Family::kIpv4) return absl::UnimplementedError("IPv4 only");
  const Grown grown = Grow(paper::Sweep(routes, paper::Boundaries::kDistinct));
  constexpr size_t kMost = kIsChunk<uint16_t>;
  if (std::max({grown.numbers.size(), grown.levels[1].size() >> kStride,
                grown.levels[2].size() >> kStride}) <= kMost) {
    return std::make_unique<Sail<uint16_t>>(grown);
  }
  return std::make_unique<Sail<uint32_t>>(grown);
}

}  // namespace planb
