// SPDX-License-Identifier: Apache-2.0

// Parts that several rivals are made of.

#ifndef PLANB_BENCHMARKS_RIVALS_PARTS_H_
#define PLANB_BENCHMARKS_RIVALS_PARTS_H_

#include <endian.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/paper.h"
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

// A part of the address space, and the interval that holds its first address.
struct Part {
  absl::uint128 first;
  size_t interval;
};

// Cuts `whole`, the addresses that share their first `depth` bits, into
// 2^stride parts, and calls f(i, part, next_hop) for each: with nullptr where
// several intervals meet inside of it, else with what all of it takes. The last
// parts may be shorter than an address: they begin at the same one.
template <typename F>
void CutEvenly(absl::Span<const paper::Interval> intervals, Part whole,
               uint32_t depth, uint32_t stride, const F& f) {
  const uint32_t end = depth + stride;
  size_t at = whole.interval;
  const auto next_begins_by = [&](absl::uint128 address) {
    return at + 1 < intervals.size() && intervals[at + 1].start <= address;
  };
  for (uint32_t i = 0; i < uint32_t{1} << stride; ++i) {
    const absl::uint128 bits = i;
    const absl::uint128 first =
        whole.first | (end <= 128 ? bits << (128 - end) : bits >> (end - 128));
    while (next_begins_by(first)) ++at;
    const bool shared =
        end < 128 && next_begins_by(first | (absl::Uint128Max() >> end));
    f(i, Part{first, at}, shared ? nullptr : &intervals[at].next_hop);
  }
}

// The second stage of rivals with upper halves as keys. It decides within a /64
// that holds longer prefixes, by sorted starts. Thread-safe: const.
class LowerHalves {
 public:
  explicit LowerHalves(absl::Span<const paper::Entries> halves) {
    for (const paper::Entries& entries : halves) {
      begins_.push_back(starts_.size());
      for (const auto& [start, next_hop] : entries) {
        starts_.push_back(start);
        next_hops_.push_back(next_hop);
      }
    }
    begins_.push_back(starts_.size());
  }

  // What a value of the first stage means for an address.
  NextHopId Resolve(uint32_t value, uint64_t low) const {
    if ((value & paper::kSecondStage) == 0) [[likely]] {
      return value;
    }
    const size_t half = value & ~paper::kSecondStage;
    size_t at = begins_[half];
    for (size_t count = begins_[half + 1] - at; count > 1;) {
      const size_t middle = count / 2;
      at += starts_[at + middle] <= low ? middle : 0;
      count -= middle;
    }
    return next_hops_[at];
  }

  size_t bytes() const {
    return begins_.size() * sizeof(size_t) +
           starts_.size() * (sizeof(uint64_t) + sizeof(NextHopId));
  }

 private:
  std::vector<size_t> begins_;  // of each upper half, and the end
  std::vector<uint64_t> starts_;
  std::vector<NextHopId> next_hops_;
};

// The routes up to /64, with values for next hops: a /64 with longer ones in it
// has a value of the second stage, whether or not it is a route.
inline std::vector<Route> UpToHalf(absl::Span<const Route> routes,
                                   const paper::Stages& stages) {
  std::vector<Route> upper;
  for (const auto& [start, value] : stages.first) {
    if ((value & paper::kSecondStage) == 0) continue;
    upper.push_back(
        {Prefix::Truncate(Address::V6(absl::MakeUint128(start, 0)), 64),
         value});
  }
  for (const Route& route : routes) {
    if (route.prefix.length() <= 64) upper.push_back(route);
  }
  // A value of the second stage stays ahead of the route of the same prefix.
  const auto less = [](const Route& a, const Route& b) {
    return a.prefix < b.prefix;
  };
  std::stable_sort(upper.begin(), upper.end(), less);
  const auto same = [](const Route& a, const Route& b) {
    return a.prefix == b.prefix;
  };
  upper.erase(std::unique(upper.begin(), upper.end(), same), upper.end());
  return upper;
}

// Errors: UNIMPLEMENTED if a next hop is 2^31 or more, for the bit marks a
// value of the second stage.
inline absl::Status CheckNextHops(absl::Span<const Route> routes) {
  for (const Route& route : routes) {
    if (route.next_hop >= paper::kSecondStage) {
      return absl::UnimplementedError("a next hop of 2^31 or more");
    }
  }
  return absl::OkStatus();
}

// Numbers next hops in the order in which they are first asked for. 0 is no
// route.
class NextHopNumbers {
 public:
  uint32_t NumberOf(NextHopId next_hop) {
    if (next_hop == next_hops_[last_]) return last_;  // mostly so
    const auto [it, fresh] = numbers_.try_emplace(
        next_hop, static_cast<uint32_t>(next_hops_.size()));
    if (fresh) next_hops_.push_back(next_hop);
    return last_ = it->second;
  }
  size_t size() const { return next_hops_.size(); }
  // The next hops by number.
  const std::vector<NextHopId>& next_hops() const { return next_hops_; }

 private:
  absl::flat_hash_map<NextHopId, uint32_t> numbers_ = {{kNoRoute, 0}};
  std::vector<NextHopId> next_hops_ = {kNoRoute};
  uint32_t last_ = 0;  // the number asked for last
};

// Copies the values to an array of at least one, for searches that read a first
// one in any case.
template <typename T, typename U>
HugeArray<T> Copied(const std::vector<U>& from) {
  HugeArray<T> to(std::max<size_t>(from.size(), 1));
  std::transform(from.begin(), from.end(), to.begin(),
                 [](const U& value) { return static_cast<T>(value); });
  return to;
}

// True if this CPU counts bits and shifts by any register in one instruction
// each: Intel's since 2013.
inline bool HasPopcntAndBmi2() {
  return __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("bmi2");
}

}  // namespace planb

#endif  // PLANB_BENCHMARKS_RIVALS_PARTS_H_
