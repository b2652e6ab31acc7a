// The searches of a DIR-24-8 table, for each instruction set and entry size.

#ifndef PLANB_BENCHMARKS_RIVALS_DIR24_SEARCH_H_
#define PLANB_BENCHMARKS_RIVALS_DIR24_SEARCH_H_

#include <cstddef>
#include <cstdint>

namespace planb::dir24 {

// An entry with its highest bit set names a block.
template <typename Entry>
inline constexpr Entry kIsBlock =
    static_cast<Entry>(Entry{1} << (8 * sizeof(Entry) - 1));

inline constexpr size_t kBlock = 256;

// A gather reads four octets wherever it reads: both arrays of entries go on
// for at least this many octets after their last.
inline constexpr size_t kSlack = 4;

template <typename Entry>
struct View {
  const Entry* table;         // by the first 24 bits
  const Entry* blocks;        // of kBlock entries, by the last 8
  const uint32_t* next_hops;  // by entry
};

// See Baseline::Lookup; IPv4. Entry is uint16_t or uint32_t.
template <typename Entry>
void LookupScalar(const View<Entry>& view, const void* addresses, size_t count,
                  void* next_hops);

// True if this CPU, and the operating system, allow LookupAvx512.
bool HasAvx512();
template <typename Entry>
void LookupAvx512(const View<Entry>& view, const void* addresses, size_t count,
                  void* next_hops);

}  // namespace planb::dir24

#endif  // PLANB_BENCHMARKS_RIVALS_DIR24_SEARCH_H_
