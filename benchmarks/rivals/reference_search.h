// The searches of the reference tree, for each instruction set.

#ifndef PLANB_BENCHMARKS_RIVALS_REFERENCE_SEARCH_H_
#define PLANB_BENCHMARKS_RIVALS_REFERENCE_SEARCH_H_

#include <cstddef>
#include <cstdint>

namespace planb::reference {

inline constexpr size_t kNodeKeys = 8;
inline constexpr size_t kBranches = 9;
// 8 * 9^8 keys.
inline constexpr size_t kMaxDepth = 9;

// Keys are starts minus one, an address is beyond those below it: none is
// beyond the padding.
inline constexpr uint64_t kPadding = UINT64_MAX;

// The tree as a search reads it. Nodes of 8 keys, level after level; values[i]
// belongs to addresses beyond i leaf keys.
struct View {
  const uint64_t* keys = nullptr;
  const uint32_t* values = nullptr;
  size_t depth = 0;  // levels, 1..kMaxDepth
  // The key each level begins with.
  size_t level_begin[kMaxDepth] = {};
};

// See Baseline::Lookup; IPv6.
using LookupFunction = void (*)(const View& tree, const void* addresses,
                                size_t count, void* next_hops);

void LookupScalar(const View& tree, const void* addresses, size_t count,
                  void* next_hops);

// True if this CPU, and the operating system, allow LookupAvx512.
bool HasAvx512();
void LookupAvx512(const View& tree, const void* addresses, size_t count,
                  void* next_hops);

}  // namespace planb::reference

#endif  // PLANB_BENCHMARKS_RIVALS_REFERENCE_SEARCH_H_
