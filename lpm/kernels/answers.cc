// SPDX-License-Identifier: Apache-2.0

#include "lpm/kernels/answers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "lpm/prefix.h"

namespace planb {
namespace {

// So many at a time are counted in 32 bits, as wide as what is compared: the
// compiler then makes it one compare and one subtraction a vector.
constexpr size_t kBlock = size_t{1} << 16;

}  // namespace

size_t CountNoRoute(const void* next_hops, size_t count) {
  static_assert(kNoRoute == 0, "or the order of bytes matters");
  const auto* const bytes = static_cast<const unsigned char*>(next_hops);
  size_t total = 0;
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t end = std::min(count, done + kBlock);
    uint32_t found = 0;
    for (size_t i = done; i < end; ++i) {
      NextHopId next_hop;
      std::memcpy(&next_hop, bytes + i * sizeof(next_hop), sizeof(next_hop));
      found += next_hop == kNoRoute ? 1 : 0;
    }
    total += found;
  }
  return total;
}

}  // namespace planb
