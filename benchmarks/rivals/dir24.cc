#include "benchmarks/rivals/dir24.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "benchmarks/rivals/dir24_search.h"
#include "benchmarks/rivals/huge_array.h"

namespace planb {
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
  Dir24(absl::Span<const Route> routes, size_t blocks, Dir24Kernel kernel)
      : table_(kTableSize + dir24::kSlack / sizeof(Entry)),
        blocks_(blocks * kBlock + dir24::kSlack / sizeof(Entry)),
        next_hops_{kNoRoute},
        lookup_(kernel == Dir24Kernel::kScalar || !dir24::HasAvx512()
                    ? dir24::LookupScalar<Entry>
                    : dir24::LookupAvx512<Entry>) {
    absl::flat_hash_map<NextHopId, Entry> indexes;
    // In the order of prefixes whatever covers a prefix comes before it, and
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
    Family family, absl::Span<const Route> routes, Dir24Kernel kernel) {
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
