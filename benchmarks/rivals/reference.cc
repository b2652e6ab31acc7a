// SPDX-License-Identifier: Apache-2.0

#include <endian.h>
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/paper.h"
#include "benchmarks/rivals/rivals.h"

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

namespace {
namespace scalar {

#include "benchmarks/rivals/reference.inc"

struct Scalar {
  // A sum of comparisons: no branch.
  static uint64_t Rank(const uint64_t* node, uint64_t key) {
    uint64_t rank = 0;
    for (size_t i = 0; i < kNodeKeys; ++i) rank += key > node[i] ? 1 : 0;
    return rank;
  }
};

}  // namespace scalar
}  // namespace
}  // namespace planb::reference

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,popcnt")

namespace planb::reference {
namespace {
namespace avx512 {

#include "benchmarks/rivals/reference.inc"

struct Avx512 {
  static uint64_t Rank(const uint64_t* node, uint64_t key) {
    const __mmask8 below = _mm512_cmpgt_epu64_mask(
        _mm512_set1_epi64(static_cast<int64_t>(key)), _mm512_load_si512(node));
    return static_cast<uint64_t>(_mm_popcnt_u64(below));
  }
};

}  // namespace avx512
}  // namespace
}  // namespace planb::reference

#pragma GCC pop_options

namespace planb {
namespace {

using paper::Boundaries;
using paper::Interval;
using reference::kBranches;
using reference::kNodeKeys;
using reference::kPadding;
using reference::View;

class ReferenceTree : public Baseline {
 public:
  ReferenceTree(absl::Span<const Interval> intervals,
                reference::LookupFunction lookup)
      : lookup_(lookup) {
    size_t nodes = 0;
    size_t leaves = 1;
    for (view_.depth = 1; leaves * kNodeKeys < intervals.size() - 1;
         ++view_.depth) {
      ABSL_RAW_CHECK(view_.depth < reference::kMaxDepth, "too many intervals");
      view_.level_begin[view_.depth - 1] = nodes * kNodeKeys;
      nodes += leaves;
      leaves *= kBranches;
    }
    view_.level_begin[view_.depth - 1] = nodes * kNodeKeys;
    nodes += leaves;
    keys_ = HugeArray<uint64_t>(nodes * kNodeKeys);
    std::fill(keys_.begin(), keys_.end(), kPadding);
    values_ = HugeArray<uint32_t>(intervals.size());
    Fill(intervals);
    view_.keys = keys_.data();
    view_.values = values_.data();
  }

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    lookup_(view_, addresses, count, next_hops);
  }

  size_t bytes() const override {
    return sizeof(*this) + keys_.bytes() + values_.bytes();
  }

 private:
  // Leaf key i is boundary i + 1; key j of an inner node is the least key of
  // its child j + 1.
  void Fill(absl::Span<const Interval> intervals) {
    uint64_t* leaf = &keys_[view_.level_begin[view_.depth - 1]];
    for (size_t i = 0; i < intervals.size(); ++i) {
      if (i > 0) leaf[i - 1] = absl::Uint128High64(intervals[i].start) - 1;
      values_[i] = intervals[i].next_hop;
    }
    size_t child_keys = kNodeKeys;  // in the leaves below one child
    for (size_t level = view_.depth - 1; level-- > 0;) {
      uint64_t* const begin = &keys_[view_.level_begin[level]];
      const size_t nodes =
          (view_.level_begin[level + 1] - view_.level_begin[level]) / kNodeKeys;
      for (size_t n = 0; n < nodes; ++n) {
        for (size_t j = 0; j < kNodeKeys; ++j) {
          begin[n * kNodeKeys + j] = leaf[(n * kBranches + j + 1) * child_keys];
        }
      }
      child_keys *= kBranches;
    }
  }

  const reference::LookupFunction lookup_;
  View view_;
  HugeArray<uint64_t> keys_;
  HugeArray<uint32_t> values_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildReference(
    Family family, absl::Span<const Route> routes, RivalKernel kernel) {
  if (family != Family::kIpv6) return absl::UnimplementedError("IPv6 only");
  for (const Route& route : routes) {
    if (route.prefix.length() > 64) {
      return absl::UnimplementedError(
          absl::StrCat("up to /64 only, not ", route.prefix.ToString()));
    }
  }
  // The paper's kernel needs the same instructions.
  const bool scalar =
      kernel == RivalKernel::kScalar || paper::FindKernel("avx512") == nullptr;
  return std::make_unique<ReferenceTree>(
      paper::Sweep(routes, Boundaries::kAll),
      scalar ? reference::scalar::Search<reference::scalar::Scalar>::Lookup
             : reference::avx512::Search<reference::avx512::Avx512>::Lookup);
}

}  // namespace planb
