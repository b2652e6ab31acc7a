// SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/rivals/paper_tree.h"
#include "benchmarks/rivals/rivals.h"

namespace planb::paper {
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

}  // namespace

absl::StatusOr<std::unique_ptr<const Baseline>> BuildPaper(
    Family family, absl::Span<const Route> routes,
    const PaperOptions& options) {
  const Kernel* const kernel = FindKernel(options.kernel);
  if (kernel == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("no kernel \"", options.kernel, "\" on this machine"));
  }
  const LookupFunction lookup = LookupOf(*kernel, options.lanes);
  if (lookup == nullptr) {
    return absl::InvalidArgumentError("searches 8, 16 or 32 together");
  }
  for (const Route& route : routes) {
    if (route.next_hop >= kSecondStage) {
      return absl::UnimplementedError("a next hop of 2^31 or more");
    }
  }
  return std::make_unique<Paper>(
      family, lookup, Tree::Build(Sweep(routes, options.boundaries)));
}

}  // namespace planb::paper
