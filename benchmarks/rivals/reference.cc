#include "benchmarks/rivals/reference.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/rivals/huge_array.h"
#include "benchmarks/rivals/reference_search.h"
#include "benchmarks/rivals/sweep.h"

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
    Family family, absl::Span<const Route> routes, ReferenceKernel kernel) {
  if (family != Family::kIpv6) return absl::UnimplementedError("IPv6 only");
  for (const Route& route : routes) {
    if (route.prefix.length() > 64) {
      return absl::UnimplementedError(
          absl::StrCat("up to /64 only, not ", route.prefix.ToString()));
    }
  }
  const bool scalar =
      kernel == ReferenceKernel::kScalar || !reference::HasAvx512();
  return std::make_unique<ReferenceTree>(
      paper::Sweep(routes, Boundaries::kAll),
      scalar ? reference::LookupScalar : reference::LookupAvx512);
}

}  // namespace planb
