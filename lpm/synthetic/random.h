// SPDX-License-Identifier: Apache-2.0

// A small random number generator for made-up tables and for tests. Its numbers
// are the same on every machine (the distributions of <random> are not).

#ifndef PLANB_LPM_SYNTHETIC_RANDOM_H_
#define PLANB_LPM_SYNTHETIC_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"

namespace planb {

// SplitMix64 (Steele, Lea, Flood 2014): a counter put through a bijective
// mixer. Not for secrets. Thread-compatible.
class Random {
 public:
  explicit constexpr Random(uint64_t seed) : state_(seed) {}

  // Uniform over 64 and 128 bits.
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  absl::uint128 Next128() {
    const uint64_t high = Next();
    return absl::MakeUint128(high, Next());
  }

  // 0..n-1, uniform but for a bias of less than n/2^64. REQUIRES: n > 0.
  uint64_t Below(uint64_t n) {
    return absl::Uint128High64(absl::uint128(Next()) * n);
  }

  // True `times` times out of `of`. REQUIRES: of > 0.
  bool Chance(uint64_t times, uint64_t of) { return Below(of) < times; }

  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (size_t n = items.size(); n > 1; --n) {
      std::swap(items[n - 1], items[Below(n)]);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace planb

#endif  // PLANB_LPM_SYNTHETIC_RANDOM_H_
