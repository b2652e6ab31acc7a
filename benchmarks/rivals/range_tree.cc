// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/paper.h"
#include "benchmarks/rivals/parts.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

// A tree of ranges within the arrays of all: `size` nodes in the order of their
// levels, so that the children of node k, counted from 1, are 2k and 2k + 1.
// Node k lies at first + k.
struct Root {
  uint32_t first;
  uint32_t size;
};

// The partition of a bin in which no prefix lies, ahead of all others.
inline constexpr uint32_t kNoPartition = 0;

// p, the first bits that partitions are formed by.
inline constexpr int kBits = 16;

// A range, both ends included, and what it takes.
template <typename Bits>
struct Range {
  Bits lower;
  Bits upper;
  uint32_t value;
};

// What searches of either kind read. A step leaves a search that is over as it
// is, without a branch, so that all of them take each step together.
template <typename Bits>
struct View {
  const uint32_t* partitions;  // by the first bits
  const Root* roots;
  const Bits* uppers;  // implicit
  const uint32_t* values;
  const Range<Bits>* ranges;  // explicit
  const LowerHalves* lower;
};

// Upper bounds alone: a search goes down to the end of its path, and takes the
// node where it last went to the left.
template <typename Bits>
struct Implicit {
  const Bits* uppers;
  Bits bits;
  uint32_t first;
  uint32_t size;
  uint32_t node;

  Implicit() = default;
  Implicit(const View<Bits>& view, Bits address, Root root)
      : uppers(view.uppers + root.first),
        bits(address),
        first(root.first),
        size(root.size),
        node(1) {}
  bool Step() {
    const bool more = node <= size;
    const Bits upper = uppers[more ? node : 0];
    const uint32_t child = 2 * node + (bits > upper ? 1 : 0);
    node = more ? child : node;
    return more;
  }
  uint32_t Value(const View<Bits>& view) const {
    return view.values[first + (node >> (std::countr_one(node) + 1))];
  }
};

// Both bounds: a search ends where the address is between them.
template <typename Bits>
struct Explicit {
  const Range<Bits>* ranges;
  Bits bits;
  uint32_t node;

  Explicit() = default;
  Explicit(const View<Bits>& view, Bits address, Root root)
      : ranges(view.ranges + root.first), bits(address), node(1) {}
  bool Step() {
    const Range<Bits>& range = ranges[node];
    const bool above = bits > range.upper;
    const bool outside = above | (bits < range.lower);
    const uint32_t child = 2 * node + above;
    node = outside ? child : node;
    return outside;
  }
  uint32_t Value(const View<Bits>&) const { return ranges[node].value; }
};

template <typename Bits, typename Search, size_t kLanes>
void LookupTogether(const View<Bits>& view, const uint8_t* in, uint8_t* out) {
  using Reader = std::conditional_t<sizeof(Bits) == 4, Ipv4Reader, Ipv6Reader>;
  Search searches[kLanes];
  for (size_t i = 0; i < kLanes; ++i) {
    const uint64_t high = Reader::Read(in + i * Reader::kBytes).high;
    searches[i] =
        Search(view, static_cast<Bits>(high >> (64 - 8 * sizeof(Bits))),
               view.roots[view.partitions[high >> (64 - kBits)]]);
  }
  bool more;
  do {
    more = false;
#pragma GCC unroll 32
    for (size_t i = 0; i < kLanes; ++i) more |= searches[i].Step();
  } while (more);
  for (size_t i = 0; i < kLanes; ++i) {
    const uint64_t low = Reader::Read(in + i * Reader::kBytes).low;
    WriteNextHop(view.lower->Resolve(searches[i].Value(view), low),
                 out + 4 * i);
  }
}

template <typename Bits, typename Search, size_t kLanes>
void LookupAll(const View<Bits>& view, const void* addresses, size_t count,
               void* next_hops) {
  constexpr size_t kBytes = sizeof(Bits) == 4 ? 4 : 16;
  const auto* in = static_cast<const uint8_t*>(addresses);
  auto* out = static_cast<uint8_t*>(next_hops);
  for (; count >= kLanes; count -= kLanes) {
    LookupTogether<Bits, Search, kLanes>(view, in, out);
    in += kBytes * kLanes;
    out += 4 * kLanes;
  }
  for (; count > 0; --count) {
    LookupTogether<Bits, Search, 1>(view, in, out);
    in += kBytes;
    out += 4;
  }
}

template <typename Bits>
class RangeTree : public Baseline {
 public:
  RangeTree(const paper::Stages& stages, const RangePartitions& partitions,
            const RangeTreeOptions& options)
      : options_(options),
        partitions_(partitions.of_bins.size()),
        lower_(stages.second) {
    std::copy(partitions.of_bins.begin(), partitions.of_bins.end(),
              partitions_.begin());
    const auto ranges = Cut(stages.first, partitions);
    size_t size = 0;
    for (const auto& tree : ranges) size += Rounded(tree.size() + 1);
    ABSL_RAW_CHECK(size <= UINT32_MAX / 2, "too many ranges");
    if (options.implicit) {
      uppers_ = HugeArray<Bits>(size);
      values_ = HugeArray<uint32_t>(size);
    } else {
      ranges_ = HugeArray<Range<Bits>>(size);
    }
    size_t first = 0;
    for (const auto& tree : ranges) {
      roots_.push_back(
          {static_cast<uint32_t>(first), static_cast<uint32_t>(tree.size())});
      auto next = tree.begin();
      Place(1, roots_.back(), next);
      first += Rounded(tree.size() + 1);
    }
  }

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    const View<Bits> view = {partitions_.data(), roots_.data(),  uppers_.data(),
                             values_.data(),     ranges_.data(), &lower_};
    const bool single = options_.turns == Turns::kSingle;
    const auto lookup = options_.implicit
                            ? (single ? LookupAll<Bits, Implicit<Bits>, 1>
                                      : LookupAll<Bits, Implicit<Bits>, 32>)
                            : (single ? LookupAll<Bits, Explicit<Bits>, 1>
                                      : LookupAll<Bits, Explicit<Bits>, 32>);
    lookup(view, addresses, count, next_hops);
  }

  size_t bytes() const override {
    return sizeof(*this) + partitions_.bytes() + roots_.size() * sizeof(Root) +
           uppers_.bytes() + values_.bytes() + ranges_.bytes() + lower_.bytes();
  }

 private:
  using Ranges = std::vector<Range<Bits>>;

  // Node 1, where all searches of a partition begin, does not share its line.
  static size_t Rounded(size_t nodes) { return (nodes + 7) / 8 * 8; }

  // The ranges of each partition, ascending; of a bin's own, cut at its ends.
  std::vector<Ranges> Cut(const paper::Entries& entries,
                          const RangePartitions& partitions) const {
    constexpr int kWidth = 8 * sizeof(Bits);
    std::vector<Ranges> ranges(partitions.sizes.size() + 1);
    const auto start = [&](size_t i) {
      return i == 0 ? Bits{0}
                    : static_cast<Bits>(entries[i].start >> (64 - kWidth));
    };
    ranges[kNoPartition].push_back({0, static_cast<Bits>(~Bits{0}), kNoRoute});
    size_t at = 0;
    for (size_t bin = 0; bin < partitions.of_bins.size(); ++bin) {
      const auto first = static_cast<Bits>(Bits(bin) << (kWidth - kBits));
      const auto last = static_cast<Bits>(first | (~Bits{0} >> kBits));
      while (at + 1 < entries.size() && start(at + 1) <= first) ++at;
      const uint32_t partition = partitions.of_bins[bin];
      if (partition == kNoPartition) continue;
      Bits lower = first;
      for (; at + 1 < entries.size() && start(at + 1) <= last; ++at) {
        const Bits next = start(at + 1);
        ranges[partition].push_back(
            {lower, static_cast<Bits>(next - 1), entries[at].value});
        lower = next;
      }
      ranges[partition].push_back({lower, last, entries[at].value});
    }
    return ranges;
  }

  // Puts ranges in their order under `node`.
  void Place(uint32_t node, Root root, typename Ranges::const_iterator& next) {
    if (node > root.size) return;
    Place(2 * node, root, next);
    const size_t at = root.first + node;
    if (options_.implicit) {
      uppers_[at] = next->upper;
      values_[at] = next->value;
    } else {
      ranges_[at] = *next;
    }
    ++next;
    Place(2 * node + 1, root, next);
  }

  const RangeTreeOptions options_;
  HugeArray<uint32_t> partitions_;
  std::vector<Root> roots_;
  HugeArray<Bits> uppers_;
  HugeArray<uint32_t> values_;
  HugeArray<Range<Bits>> ranges_;
  const LowerHalves lower_;
};

}  // namespace

RangePartitions PartitionRoutes(absl::Span<const Route> routes, int bits) {
  RangePartitions partitions;
  std::vector<uint32_t> sizes(size_t{1} << bits);
  for (const Route& route : routes) {
    const auto bin = static_cast<size_t>(
        absl::Uint128High64(route.prefix.first()) >> (64 - bits));
    const int shorter = std::max(0, bits - route.prefix.length());
    for (size_t i = 0; i < size_t{1} << shorter; ++i) ++sizes[bin + i];
  }
  // Bins with prefixes, the smallest first.
  std::vector<uint32_t> initial;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 0) initial.push_back(static_cast<uint32_t>(i));
  }
  std::stable_sort(initial.begin(), initial.end(),
                   [&](uint32_t a, uint32_t b) { return sizes[a] < sizes[b]; });
  partitions.initial = initial.size();
  partitions.of_bins.assign(sizes.size(), kNoPartition);
  const size_t max_size = initial.empty() ? 0 : sizes[initial.back()];
  size_t begin = 0;
  for (size_t end = initial.size(); begin < end;) {
    const uint32_t largest = initial[--end];  // step 3
    size_t size = sizes[largest];
    const auto partition = static_cast<uint32_t>(partitions.sizes.size() + 1);
    partitions.of_bins[largest] = partition;
    while (size < max_size && begin < end) {  // step 6
      const uint32_t smallest = initial[begin++];
      size += sizes[smallest];
      partitions.of_bins[smallest] = partition;
    }
    partitions.sizes.push_back(size);
  }
  return partitions;
}

absl::StatusOr<std::unique_ptr<const Baseline>> BuildRangeTree(
    Family family, absl::Span<const Route> routes,
    const RangeTreeOptions& options) {
  const absl::Status status = CheckNextHops(routes);
  if (!status.ok()) return status;
  const paper::Stages stages =
      paper::SplitStages(paper::Sweep(routes, paper::Boundaries::kMerged));
  const RangePartitions partitions = PartitionRoutes(routes, kBits);
  if (family == Family::kIpv6) {
    return std::make_unique<RangeTree<uint64_t>>(stages, partitions, options);
  }
  return std::make_unique<RangeTree<uint32_t>>(stages, partitions, options);
}

}  // namespace planb
