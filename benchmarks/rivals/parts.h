// SPDX-License-Identifier: Apache-2.0

// What several rivals are made of: how addresses are read and answers written,
// and searches that take turns.

#ifndef PLANB_BENCHMARKS_RIVALS_PARTS_H_
#define PLANB_BENCHMARKS_RIVALS_PARTS_H_

#include <endian.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// An address, left-aligned in 128 bits.
struct Key {
  uint64_t high;
  uint64_t low;

  // `count` bits (1..32) from bit `offset` (0..127) on; past the end they are
  // 0.
  uint32_t Bits(uint32_t offset, uint32_t count) const {
    const auto all = static_cast<unsigned __int128>(high) << 64 | low;
    return static_cast<uint32_t>((all << offset) >> (128 - count));
  }
};

// How packed addresses of each family are read, in place.
struct Ipv6Reader {
  static constexpr size_t kBytes = 16;
  static Key Read(const uint8_t* address) {
    uint64_t halves[2];
    std::memcpy(halves, address, sizeof(halves));
    return {be64toh(halves[0]), be64toh(halves[1])};
  }
};
struct Ipv4Reader {
  static constexpr size_t kBytes = 4;
  static Key Read(const uint8_t* address) {
    uint32_t value;
    std::memcpy(&value, address, sizeof(value));
    return {uint64_t{be32toh(value)} << 32, 0};
  }
};

inline void WriteNextHop(NextHopId next_hop, uint8_t* out) {
  const uint32_t wire = htole32(next_hop);
  std::memcpy(out, &wire, sizeof(wire));
}

// Looks packed addresses up, `kLanes` together: each takes a step in turn, so
// that their cache misses overlap. With one lane they come one after the other.
//
// `Search` provides
//   struct State;
//   // Begins; false if there is nothing to do but take the result.
//   bool Start(Key key, State& state) const;
//   // A step; false if it was the last.
//   bool Step(State& state) const;
//   NextHopId Result(const State& state) const;
template <size_t kLanes, typename Reader, typename Search>
void LookupInTurns(const Search& search, const void* addresses, size_t count,
                   void* next_hops) {
  static_assert(kLanes <= 256);
  const auto* in = static_cast<const uint8_t*>(addresses);
  auto* out = static_cast<uint8_t*>(next_hops);
  typename Search::State states[kLanes];
  while (count > 0) {
    const size_t lanes = std::min(count, kLanes);
    uint8_t active[kLanes];
    size_t left = 0;
    for (size_t i = 0; i < lanes; ++i) {
      active[left] = static_cast<uint8_t>(i);
      left += search.Start(Reader::Read(in + i * Reader::kBytes), states[i]);
    }
    while (left > 0) {
      size_t still = 0;
      for (size_t i = 0; i < left; ++i) {
        const uint8_t lane = active[i];
        active[still] = lane;
        still += search.Step(states[lane]);
      }
      left = still;
    }
    for (size_t i = 0; i < lanes; ++i) {
      WriteNextHop(search.Result(states[i]), out + 4 * i);
    }
    in += lanes * Reader::kBytes;
    out += lanes * 4;
    count -= lanes;
  }
}

// The same for a family that is known only now.
template <size_t kLanes, typename Search>
void LookupInTurns(Family family, const Search& search, const void* addresses,
                   size_t count, void* next_hops) {
  if (family == Family::kIpv6) {
    LookupInTurns<kLanes, Ipv6Reader>(search, addresses, count, next_hops);
  } else {
    LookupInTurns<kLanes, Ipv4Reader>(search, addresses, count, next_hops);
  }
}

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_PARTS_H_
