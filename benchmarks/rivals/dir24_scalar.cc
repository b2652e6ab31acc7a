#include <endian.h>

#include <cstring>

#include "benchmarks/rivals/dir24_search.h"

namespace planb::dir24 {

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

template void LookupScalar(const View<uint16_t>&, const void*, size_t, void*);
template void LookupScalar(const View<uint32_t>&, const void*, size_t, void*);

}  // namespace planb::dir24
