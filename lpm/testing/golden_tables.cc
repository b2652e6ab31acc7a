// SPDX-License-Identifier: Apache-2.0

// The tables are synthetic. One has long prefixes added at random.

#include "lpm/testing/golden_tables.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/numeric/int128.h"
#include "lpm/kernels/layout.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

GoldenTable Synthetic(absl::string_view name, Family family, size_t routes,
                      uint32_t next_hops) {
  return {name, family,
          SyntheticTable({.ipv6_routes = family == Family::kIpv6 ? routes : 0,
                          .ipv4_routes = family == Family::kIpv4 ? routes : 0,
                          .next_hops = next_hops})};
}

GoldenTable LongPrefixes() {
  GoldenTable table = Synthetic("ipv6_long", Family::kIpv6, 10'000, 64);
  RouteSet routes(Family::kIpv6, table.routes);
  Random random(3);
  while (routes.size() < 20'000) {
    const Prefix& top = table.routes[random.Below(table.routes.size())].prefix;
    const absl::uint128 inside = random.Next128() & (top.last() - top.first());
    const int length = 49 + static_cast<int>(random.Below(80));
    routes.Announce(Prefix::Truncate(Address::V6(top.first() | inside), length),
                    static_cast<NextHopId>(1 + random.Below(64)));
  }
  table.routes.clear();
  for (const auto& [prefix, next_hop] : routes) {
    table.routes.push_back({prefix, 1'000'000 + 7 * next_hop});
  }
  return table;
}

}  // namespace

std::vector<GoldenTable> GoldenTables() {
  std::vector<GoldenTable> tables;
  tables.push_back(Synthetic("ipv6_20k", Family::kIpv6, 20'000, 64));
  tables.push_back(Synthetic("ipv6_100k", Family::kIpv6, 100'000, 64));
  tables.push_back(LongPrefixes());
  tables.push_back(Synthetic("ipv4_100k", Family::kIpv4, 100'000, 1000));
  return tables;
}

std::vector<Address> GoldenTrace(const GoldenTable& table, size_t count) {
  return SyntheticTrace(table.routes, table.family, count, 2);
}

// What a test may see of a FIB.
class FibPeer {
 public:
  static FibView View(const Fib& fib) { return fib.View(); }
};

namespace {

// The first 32 of left-aligned bits.
uint32_t First32(absl::uint128 bits) {
  return static_cast<uint32_t>(absl::Uint128High64(bits) >> 32);
}

template <typename V>
class Walk {
 public:
  explicit Walk(const FibView& fib) : fib_(fib) {}

  WalkedLines Take(const Address& address) {
    const absl::uint128 bits = address.bits();
    const uint32_t first = First32(bits);
    const uint32_t key = First32(bits << 16);
    uint32_t entry = Read(fib_.root + (first >> (32 - kRootBits)));
    // Only the first table uses the first bits.
    if (TypeOf(entry) == kTableEntry) entry = InTable(entry, first);
    uint32_t value = Resolve(entry, key);
    while ((value & kFlag) != 0) {
      value =
          PassDescriptor(Read(fib_.descriptors + (value & (kFlag - 1))), bits);
    }
    WalkedLines walked;
    walked.next_hop =
        fib_.next_hops == nullptr ? value : Read(fib_.next_hops + value);
    std::sort(lines_.begin(), lines_.end());
    walked.lines = static_cast<size_t>(
        std::unique(lines_.begin(), lines_.end()) - lines_.begin());
    return walked;
  }

 private:
  static constexpr uint32_t kFlag = kDescriptorFlag<V>;

  // Reads one object, and notes the line. REQUIRES: it lies in one line.
  template <typename T>
  T Read(const T* from) {
    const auto at = reinterpret_cast<uintptr_t>(from);
    ABSL_RAW_CHECK(at / sizeof(Line) == (at + sizeof(T) - 1) / sizeof(Line),
                   "an object in two lines");
    lines_.push_back(at / sizeof(Line));
    return *from;
  }

  uint32_t InTable(uint32_t entry, uint32_t key) {
    return Read(fib_.words() + TableIndex(entry, key));
  }

  uint32_t Resolve(uint32_t entry, uint32_t key) {
    while (TypeOf(entry) == kTableEntry) entry = InTable(entry, key);
    switch (TypeOf(entry)) {
      case kWideEntry:
        return InPartition<uint32_t, kWideSeparators, Leaf<V>::kWideKeys,
                           Leaf<V>::kWideValuesAt>(entry, key);
      case kNarrowEntry:
        return InPartition<uint16_t, kNarrowSeparators, Leaf<V>::kNarrowKeys,
                           Leaf<V>::kNarrowValuesAt>(
            entry, static_cast<uint16_t>(key >> ShiftOf(entry)));
      default:
        return PayloadOf(entry);
    }
  }

  template <typename Key, uint32_t kSeparators, uint32_t kKeys,
            uint32_t kValuesAt>
  uint32_t InPartition(uint32_t entry, Key key) {
    const Line* const node = fib_.lines + PayloadOf(entry);
    const Line separators = Read(node);
    const Line leaf = Read(node + 1 + CountBelow(separators, kSeparators, key));
    V value;
    std::memcpy(&value,
                reinterpret_cast<const char*>(leaf.words) + kValuesAt +
                    CountBelow(leaf, kKeys, key) * sizeof(V),
                sizeof(V));
    return value;
  }

  template <typename Key>
  static size_t CountBelow(const Line& node, uint32_t count, Key key) {
    Key keys[sizeof(Line) / sizeof(Key)];
    std::memcpy(keys, node.words, sizeof(keys));
    return static_cast<size_t>(std::count_if(
        keys, keys + count, [key](Key other) { return other < key; }));
  }

  uint32_t PassDescriptor(const Descriptor& descriptor, absl::uint128 bits) {
    const absl::uint128 base =
        absl::MakeUint128(descriptor.high, descriptor.low);
    if ((bits ^ base) >> static_cast<int>(128 - descriptor.length) != 0) {
      return descriptor.fallback;
    }
    const bool ends = descriptor.length == 128;
    return Resolve(
        descriptor.entry,
        ends ? 0 : First32(bits << static_cast<int>(descriptor.length)));
  }

  const FibView& fib_;
  std::vector<uintptr_t> lines_;  // as read: with repeats, in any order
};

}  // namespace

WalkedLines WalkLines(const Fib& fib, const Address& address) {
  ABSL_RAW_CHECK(address.family() == fib.family(), "address of another family");
  const FibView view = FibPeer::View(fib);
  switch (view.value_bytes) {
    case 1:
      return Walk<uint8_t>(view).Take(address);
    case 2:
      return Walk<uint16_t>(view).Take(address);
    default:
      return Walk<uint32_t>(view).Take(address);
  }
}

LinesRead CountLines(const Fib& fib, absl::Span<const Address> addresses) {
  LinesRead read;
  if (addresses.empty()) return read;
  std::vector<size_t> counts;
  size_t sum = 0;
  for (const Address& address : addresses) {
    counts.push_back(WalkLines(fib, address).lines);
    sum += counts.back();
  }
  std::sort(counts.begin(), counts.end());
  read.mean = static_cast<double>(sum) / static_cast<double>(counts.size());
  read.p99 = counts[counts.size() * 99 / 100];
  read.max = counts.back();
  return read;
}

size_t MostLines(const FibStats& stats) {
  const auto tables = static_cast<size_t>(stats.table_steps);
  const auto descriptors = static_cast<size_t>(stats.descriptor_steps);
  const size_t next_hops = stats.next_hop_bytes > 0 ? 1 : 0;
  return 1 + tables + 2 + descriptors * (1 + 2) + next_hops;
}

}  // namespace planb
