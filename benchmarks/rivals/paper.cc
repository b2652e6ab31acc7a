// SPDX-License-Identifier: Apache-2.0

// The PlanB paper's engine: intervals, tree, search. The templates of paper.inc
// are included anew for each instruction set, after a #pragma that lets the
// compiler use it.

#include "benchmarks/rivals/paper.h"

#include <endian.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/rivals/parts.h"

namespace planb::paper {
namespace {

// The last of the 128-bit values that begin with the prefix's bits, so that
// what follows starts right after it in either family.
absl::uint128 LastBits(const Prefix& prefix) {
  return prefix.length() == 128
             ? prefix.first()
             : prefix.first() | (absl::Uint128Max() >> prefix.length());
}

class Cutter {
 public:
  Cutter(size_t routes, Boundaries boundaries) : boundaries_(boundaries) {
    intervals_.reserve(2 * routes + 1);
    intervals_.push_back({0, kNoRoute});
  }

  // REQUIRES: starts do not descend from call to call.
  void Cut(absl::uint128 start, NextHopId next_hop) {
    Interval& last = intervals_.back();
    if (start == last.start &&
        (boundaries_ != Boundaries::kAll || start == 0)) {
      last.next_hop = next_hop;
      const size_t n = intervals_.size();
      if (boundaries_ == Boundaries::kMerged && n > 1 &&
          intervals_[n - 2].next_hop == next_hop) {
        intervals_.pop_back();
      }
    } else if (boundaries_ != Boundaries::kMerged ||
               last.next_hop != next_hop) {
      intervals_.push_back({start, next_hop});
    }
  }

  std::vector<Interval> Take() && { return std::move(intervals_); }

 private:
  const Boundaries boundaries_;
  std::vector<Interval> intervals_;
};

// A prefix the sweep is inside of.
struct Open {
  absl::uint128 last;
  NextHopId next_hop;
};

}  // namespace

std::vector<Interval> Sweep(absl::Span<const Route> routes,
                            Boundaries boundaries) {
  Cutter cutter(routes.size(), boundaries);
  // The open prefixes nest: one for each length at most, on top of the whole
  // space without a route, which never closes.
  std::array<Open, 130> open;
  size_t depth = 0;
  open[depth++] = {absl::Uint128Max(), kNoRoute};
  const auto close_before = [&](absl::uint128 start) {
    while (depth > 1 && open[depth - 1].last < start) {
      const absl::uint128 last = open[--depth].last;
      cutter.Cut(last + 1, open[depth - 1].next_hop);
    }
  };
  const Route* previous = nullptr;
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(previous == nullptr || previous->prefix < route.prefix,
                   "routes must ascend strictly by prefix");
    previous = &route;
    close_before(route.prefix.first());
    cutter.Cut(route.prefix.first(), route.next_hop);
    open[depth++] = {LastBits(route.prefix), route.next_hop};
  }
  close_before(absl::Uint128Max());
  return std::move(cutter).Take();
}

namespace {

// Several entries at 0 (the upper half's first address) count as one, for a
// key of 0 minus one would be padding.
void AddLower(uint64_t lower, uint32_t value, Entries& entries) {
  if (lower == 0 && !entries.empty()) {
    entries.back().value = value;
  } else {
    entries.push_back({lower, value});
  }
}

}  // namespace

Stages SplitStages(absl::Span<const Interval> intervals) {
  Stages stages;
  stages.first.reserve(intervals.size());
  uint32_t before = kNoRoute;  // in force so far
  for (size_t i = 0; i < intervals.size();) {
    const size_t begin = i;
    const uint64_t upper = absl::Uint128High64(intervals[i].start);
    const auto here = [&] {
      return i < intervals.size() &&
             absl::Uint128High64(intervals[i].start) == upper;
    };
    // All that begins at the very start of this /64.
    for (; here() && absl::Uint128Low64(intervals[i].start) == 0; ++i) {
      before = intervals[i].next_hop;
      stages.first.push_back({upper, before});
    }
    if (!here()) continue;
    // The /64 before may have pushed what goes on here.
    if (i == begin &&
        (stages.first.empty() || stages.first.back().start != upper)) {
      stages.first.push_back({upper, before});
    }
    stages.first.back().value =
        kSecondStage | static_cast<uint32_t>(stages.second.size());
    Entries& second = stages.second.emplace_back();
    AddLower(0, before, second);
    for (; here(); ++i) {
      before = intervals[i].next_hop;
      AddLower(absl::Uint128Low64(intervals[i].start), before, second);
    }
    // What is in force at the end of this /64 goes on behind it, unless the
    // next interval starts right there.
    if (upper != UINT64_MAX &&
        (i == intervals.size() ||
         intervals[i].start != absl::MakeUint128(upper + 1, 0))) {
      stages.first.push_back({upper + 1, before});
    }
  }
  return stages;
}

namespace {

// Number of nodes of each level, root first: inner levels are complete.
std::vector<size_t> LevelSizes(size_t entries, int min_levels) {
  const size_t leaves =
      std::max<size_t>(1, (entries - 1 + kNodeKeys - 1) / kNodeKeys);
  std::vector<size_t> sizes = {1};
  while (sizes.back() < leaves ||
         sizes.size() < static_cast<size_t>(min_levels)) {
    sizes.push_back(sizes.back() * kNodeChildren);
  }
  sizes.back() = leaves;
  ABSL_RAW_CHECK(sizes.size() <= kMaxLevels, "too many intervals");
  return sizes;
}

}  // namespace

// Lays trees out one after the other: first counts, then allocates, then fills.
class Tree::Builder {
 public:
  Builder(Tree& tree, const Stages& stages, int min_levels) : tree_(tree) {
    size_t nodes = 0;
    size_t values = 0;
    const auto count = [&](const Entries& entries, int levels) {
      for (size_t size : LevelSizes(entries.size(), levels)) nodes += size;
      values += entries.size();
    };
    count(stages.first, min_levels);
    for (const Entries& entries : stages.second) count(entries, 1);
    ABSL_RAW_CHECK(nodes <= UINT32_MAX, "too many tree nodes");
    tree.nodes_ = HugeArray<TreeNode>(nodes);
    tree.values_ = HugeArray<uint32_t>(values);
  }

  TreeRoot Append(absl::Span<const Entry> entries, int min_levels) {
    const std::vector<size_t> sizes = LevelSizes(entries.size(), min_levels);
    TreeRoot root;
    root.levels = static_cast<uint32_t>(sizes.size());
    root.first_value = static_cast<uint32_t>(values_);
    for (size_t level = 0; level < sizes.size(); ++level) {
      root.level_begin[level] = static_cast<uint32_t>(nodes_);
      nodes_ += sizes[level];
    }
    const absl::Span<const Entry> keyed = entries.subspan(1);
    size_t leaves_below = 0;  // of one child; 0 for the leaf level
    for (size_t level = sizes.size(); level-- > 0;) {
      FillLevel(keyed, leaves_below,
                {&tree_.nodes_[root.level_begin[level]], sizes[level]});
      leaves_below = leaves_below == 0 ? 1 : leaves_below * kNodeChildren;
    }
    for (const Entry& entry : entries) tree_.values_[values_++] = entry.value;
    return root;
  }

 private:
  // Fills one level. A leaf's keys are the next eight; an inner node's key j
  // is the least key below its child j + 1.
  static void FillLevel(absl::Span<const Entry> keyed, size_t leaves_below,
                        absl::Span<TreeNode> nodes) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (size_t j = 0; j < kNodeKeys; ++j) {
        const size_t rank = leaves_below == 0 ? n * kNodeKeys + j
                                              : (n * kNodeChildren + j + 1) *
                                                    leaves_below * kNodeKeys;
        nodes[n].keys[j] =
            rank < keyed.size() ? Biased(keyed[rank].start - 1) : kPadding;
      }
    }
  }

  Tree& tree_;
  size_t nodes_ = 0;   // used so far
  size_t values_ = 0;  // used so far
};

Tree Tree::Build(absl::Span<const Interval> intervals, int min_levels) {
  Tree tree;
  const Stages stages = SplitStages(intervals);
  Builder builder(tree, stages, min_levels);
  tree.first_ = builder.Append(stages.first, min_levels);
  tree.second_.reserve(stages.second.size());
  for (const Entries& entries : stages.second) {
    tree.second_.push_back(builder.Append(entries, 1));
  }
  return tree;
}

size_t Tree::bytes() const {
  return sizeof(*this) + nodes_.bytes() + values_.bytes() +
         second_.size() * sizeof(TreeRoot);
}

namespace {

// In portable C++, for any 64-bit machine.
namespace scalar {

#include "benchmarks/rivals/paper.inc"

struct Scalar {
  // The sum of the comparisons: no branch, and compilers vectorize it as far
  // as the baseline instruction set allows.
  static int Rank(const TreeNode& node, int64_t key) {
    int rank = 0;
    for (int64_t bound : node.keys) rank += key > bound ? 1 : 0;
    return rank;
  }
};

}  // namespace scalar

// Sixteen together: more does not help without vectors.
const Kernel kScalarKernel = {"scalar", [] { return true; },
                              scalar::Search<scalar::Scalar, 16>::Lookup};

// Rungs of the ladder of section 4.5, one address at a time. This one compares
// key after key: the paper's branch-free scalar code.
struct OneKeyAtATime {
  static int Rank(const TreeNode& node, int64_t key) {
    int rank = 0;
    for (int64_t bound : node.keys) {
      rank += key > bound ? 1 : 0;
      asm("" : "+r"(rank));  // the compiler would use vectors otherwise
    }
    return rank;
  }
};
const Kernel kBranchFreeKernel = {"branchfree", [] { return true; },
                                  scalar::Search<OneKeyAtATime, 1>::Lookup};

}  // namespace
}  // namespace planb::paper

#pragma GCC push_options
#pragma GCC target("avx2,popcnt")

namespace planb::paper {
namespace {

// A node is two vectors of four keys.
namespace avx2 {

#include "benchmarks/rivals/paper.inc"

struct Avx2 {
  static int Rank(const TreeNode& node, int64_t key) {
    const __m256i wanted = _mm256_set1_epi64x(key);
    const auto* const keys = reinterpret_cast<const __m256i*>(node.keys);
    const int low = Below(wanted, _mm256_load_si256(keys));
    const int high = Below(wanted, _mm256_load_si256(keys + 1));
    return _mm_popcnt_u32(static_cast<unsigned>(low | high << 4));
  }

 private:
  static int Below(__m256i wanted, __m256i keys) {
    return _mm256_movemask_pd(
        _mm256_castsi256_pd(_mm256_cmpgt_epi64(wanted, keys)));
  }
};

}  // namespace avx2
}  // namespace
}  // namespace planb::paper

#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,popcnt")

namespace planb::paper {
namespace {

// A node is one vector, a rank one compare and one popcount (PlanB paper,
// Listing 1).
namespace avx512 {

#include "benchmarks/rivals/paper.inc"

struct Avx512 {
  static int Rank(const TreeNode& node, int64_t key) {
    const __mmask8 below = _mm512_cmpgt_epi64_mask(
        _mm512_set1_epi64(key), _mm512_load_si512(node.keys));
    return _mm_popcnt_u32(below);
  }
};

// What the compiler makes of a loop, with the same instructions at hand. It
// uses vectors only for a loop that it may not unroll.
struct ByCompiler {
  static int Rank(const TreeNode& node, int64_t key) {
    int64_t rank = 0;
#pragma GCC unroll 1
    for (int64_t bound : node.keys) rank += key > bound ? 1 : 0;
    return static_cast<int>(rank);
  }
};

}  // namespace avx512
}  // namespace
}  // namespace planb::paper

#pragma GCC pop_options

namespace planb::paper {
namespace {

// __builtin_cpu_supports also asks whether the operating system saves the
// wider registers.
const Kernel kAvx2Kernel = {"avx2",
                            [] {
                              return __builtin_cpu_supports("avx2") &&
                                     __builtin_cpu_supports("popcnt");
                            },
                            avx2::Search<avx2::Avx2, 32>::Lookup};

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("popcnt");
}

const Kernel kAvx512Kernel = {"avx512", HasAvx512,
                              avx512::Search<avx512::Avx512, 32>::Lookup};

// More rungs of the ladder.
const Kernel kAutoVectorKernel = {
    "autovector", HasAvx512, avx512::Search<avx512::ByCompiler, 1>::Lookup};
const Kernel kUnbatchedKernel = {"unbatched", HasAvx512,
                                 avx512::Search<avx512::Avx512, 1>::Lookup};

}  // namespace

absl::Span<const Kernel* const> AvailableKernels() {
  static const auto* const kernels = [] {
    auto* found = new std::vector<const Kernel*>;
    for (const Kernel* kernel :
         {&kAvx512Kernel, &kAvx2Kernel, &kScalarKernel, &kUnbatchedKernel,
          &kAutoVectorKernel, &kBranchFreeKernel}) {
      if (kernel->runs_here()) found->push_back(kernel);
    }
    return found;
  }();
  return *kernels;
}

const Kernel* FindKernel(absl::string_view name) {
  for (const Kernel* kernel : AvailableKernels()) {
    if (name == "auto" || name == kernel->name) return kernel;
  }
  return nullptr;
}

namespace {

class Paper : public Baseline {
 public:
  Paper(Family family, LookupFunction lookup, Tree tree)
      : family_(family),
        lookup_(lookup),
        tree_(std::move(tree)),
        view_(tree_.view()) {}

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    lookup_(view_, family_, addresses, count, next_hops);
  }

  size_t bytes() const override { return sizeof(*this) + tree_.bytes(); }

 private:
  const Family family_;
  const LookupFunction lookup_;
  const Tree tree_;
  const TreeView view_;  // of tree_
};

#include "benchmarks/rivals/turns.inc"

// Sorted starts and their values: those of the first stage, and behind them
// those of each tree of the second.
class Sorted : public Baseline {
 public:
  Sorted(Family family, const Stages& stages) : family_(family) {
    size_t size = stages.first.size();
    for (const Entries& entries : stages.second) size += entries.size();
    starts_ = HugeArray<uint64_t>(size);
    values_ = HugeArray<uint32_t>(size);
    Append(stages.first);
    for (const Entries& entries : stages.second) Append(entries);
  }

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    LookupInTurns(Turns::kSingle, family_, Search{this}, addresses, count,
                  next_hops);
  }

  size_t bytes() const override {
    return sizeof(*this) + starts_.bytes() + values_.bytes() +
           ends_.size() * sizeof(size_t);
  }

 private:
  // For LookupInTurns: all at once.
  struct Search {
    const Sorted* sorted;

    using State = NextHopId;
    bool Start(Key key, State& next_hop) const {
      next_hop = sorted->ValueOf(0, key.high);
      if (next_hop & kSecondStage) {
        next_hop = sorted->ValueOf(1 + (next_hop & ~kSecondStage), key.low);
      }
      return false;
    }
    bool Step(uint32_t, State&) const { return false; }
    NextHopId Result(const State& next_hop) const { return next_hop; }
  };

  void Append(const Entries& entries) {
    size_t at = ends_.back();
    for (const Entry& entry : entries) {
      starts_[at] = entry.start;
      values_[at++] = entry.value;
    }
    ends_.push_back(at);
  }

  // The value for `key` in a part: 0 is the first stage. It starts at 0.
  uint32_t ValueOf(size_t part, uint64_t key) const {
    const uint64_t* const starts = starts_.data();
    const uint64_t* const after =
        std::upper_bound(starts + ends_[part], starts + ends_[part + 1], key);
    return values_[static_cast<size_t>(after - starts) - 1];
  }

  const Family family_;
  HugeArray<uint64_t> starts_;
  HugeArray<uint32_t> values_;
  std::vector<size_t> ends_ = {0};  // of the part before
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildPaper(
    Family family, absl::Span<const Route> routes,
    const PaperOptions& options) {
  const Kernel* const kernel = FindKernel(options.kernel);
  if (kernel == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("no kernel \"", options.kernel, "\" on this machine"));
  }
  if (absl::Status status = CheckNextHops(routes); !status.ok()) return status;
  return std::make_unique<Paper>(
      family, kernel->lookup, Tree::Build(Sweep(routes, options.boundaries)));
}

absl::StatusOr<std::unique_ptr<const Baseline>> BuildUpperBound(
    Family family, absl::Span<const Route> routes, Boundaries boundaries) {
  if (absl::Status status = CheckNextHops(routes); !status.ok()) return status;
  return std::make_unique<Sorted>(family,
                                  SplitStages(Sweep(routes, boundaries)));
}

}  // namespace planb::paper
