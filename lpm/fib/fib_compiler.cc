// SPDX-License-Identifier: Apache-2.0

#include "lpm/fib/fib_compiler.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/fib/table_packer.h"
#include "lpm/fib/table_updater.h"
#include "lpm/kernels/layout.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {
namespace {

// Changes of the root that are remembered, to bring older roots up to date.
constexpr size_t kRootChanges = 256;

// Routes that an update packs for each of its changes, beside those that it
// packs anyway: a quarter of what a change takes.
constexpr size_t kPackedPerChange = 32;

}  // namespace

class FibCompiler::Impl {
 public:
  Impl(Family family, const FibOptions& options, const FibLimits& limits,
       const FibPacking& packing)
      : family_(family),
        options_(options),
        limits_(limits),
        packing_(packing) {}

  absl::StatusOr<std::unique_ptr<const Fib>> Compile(const RouteSet& routes) {
    ABSL_RAW_CHECK(routes.family() == family_, "routes of another family");
    called_ = true;
    published_ = false;  // unless this comes to its end
    packer_ = nullptr;
    absl::StatusOr<std::unique_ptr<TableCompiler>> table =
        CompileTable(family_, routes, options_, limits_);
    if (!table.ok()) return table.status();
    updater_ = nullptr;  // before its table
    table_ = *std::move(table);
    updater_ = std::make_unique<TableUpdater>(*table_);
    retired_.clear();
    LinePool& lines = table_->lines();
    DescriptorPool& descriptors = table_->descriptors();
    SetCompact(routes, lines.used(), descriptors.used());
    lines.SetLimit(std::min(limits_.lines, MostUpdatedLines(compact_lines_)));
    descriptors.SetLimit(std::min(
        limits_.descriptors, MostUpdatedDescriptors(compact_descriptors_)));
    // The address space is all that updates may use: nothing moves.
    auto arena =
        std::make_shared<FibArena>(lines.limit(), descriptors.limit(),
                                   lines.used(), FibArena::Memory::kLater);
    lines.MoveTo(arena->lines(), arena->line_capacity());
    descriptors.MoveTo(arena->descriptors(), arena->descriptor_capacity());
    // Not before both have moved: it may be the last to hold the old one.
    arena_ = std::move(arena);
    return PublishAnother();
  }

  absl::StatusOr<std::unique_ptr<const Fib>> Update(
      const RouteSet& routes, absl::Span<const Prefix> changed) {
    ABSL_RAW_CHECK(called_, "Compile comes first");
    if (!std::exchange(published_, false)) {
      // It may have failed for want of the memory that these take.
      packer_ = nullptr;
      updater_ = nullptr;
      table_ = nullptr;
      ++counters_.full;
      return Compile(routes);
    }
    // First of all: what waits for readers alone is no reason to pack.
    const uint64_t oldest = arena_->Oldest(/*none=*/generation_ + 1);
    Reclaim(oldest);
    if (BadlyPacked(routes.size(), /*share=*/1) ||
        TooLargeToUpdate(routes.size())) {
      ++counters_.compacted;
      return Compile(routes);
    }
    if (changed.size() > MostChanges(routes.size())) {
      ++counters_.full;
      return Compile(routes);
    }
    changed_.assign(changed.begin(), changed.end());
    if (changed_.size() > 1) {
      std::sort(changed_.begin(), changed_.end());
      changed_.erase(std::unique(changed_.begin(), changed_.end()),
                     changed_.end());
    }
    if (packer_ == nullptr && routes.size() > packing_.routes &&
        (packing_.always || BadlyPacked(routes.size(), /*share=*/2))) {
      packer_ =
          std::make_unique<TablePacker>(*table_, limits_, packing_.routes);
    }
    if (packer_ != nullptr &&
        packer_->Step(*table_, routes, changed_,
                      packing_.routes + kPackedPerChange * changed_.size())) {
      return PublishPacked(routes);
    }
    updater_->Update(routes, changed_, generation_ + 1, oldest);
    if (table_->failed()) {
      // Values must become wider, or blocks be packed.
      ++counters_.full;
      return Compile(routes);
    }
    ++counters_.incremental;
    retired_.push_back({generation_ + 1, std::move(updater_->garbage())});
    for (const uint32_t index : updater_->roots()) {
      root_changes_.push_back({generation_ + 1, index});
    }
    for (; root_changes_.size() > kRootChanges; root_changes_.pop_front()) {
      roots_since_ = root_changes_.front().generation;
    }
    return Publish();
  }

  const Counters& counters() const { return counters_; }
  size_t packing_bytes() const {
    return packer_ == nullptr ? 0 : packer_->bytes();
  }

 private:
  // What a generation left unused, and no younger one will read.
  struct Retired {
    uint64_t generation;
    Garbage garbage;
  };

  void SetCompact(const RouteSet& routes, size_t lines, size_t descriptors) {
    compact_routes_ = routes.size();
    compact_lines_ = lines;
    compact_descriptors_ = descriptors;
    compact_next_hops_ = table_->values().next_hop_count();
  }

  // What the packer made of the routes takes the place of the table in use.
  absl::StatusOr<std::unique_ptr<const Fib>> PublishPacked(
      const RouteSet& routes) {
    if (packer_->failed()) {
      // As the table in use would soon: values must become wider, or there is
      // less room than is needed.
      ++counters_.full;
      return Compile(routes);
    }
    TablePacker::Packed packed = std::move(*packer_).Take();
    packer_ = nullptr;
    updater_ = std::move(packed.updater);
    table_ = std::move(packed.table);
    arena_ = std::move(packed.arena);
    retired_.clear();
    SetCompact(routes, packed.compiled_lines, packed.compiled_descriptors);
    table_->lines().SetLimit(
        std::min(arena_->line_capacity(), MostUpdatedLines(compact_lines_)));
    table_->descriptors().SetLimit(
        std::min(arena_->descriptor_capacity(),
                 MostUpdatedDescriptors(compact_descriptors_)));
    ++counters_.packed;
    return PublishAnother();
  }

  // Publishes a table that shares nothing with the one before.
  std::unique_ptr<const Fib> PublishAnother() {
    root_changes_.clear();
    roots_since_ = generation_ + 1;
    return Publish();
  }

  std::unique_ptr<const Fib> Publish() {
    ++generation_;
    LinePool& lines = table_->lines();
    DescriptorPool& descriptors = table_->descriptors();
    updater_->garbage() = {};
    updater_->roots().clear();
    lines.Settle();
    descriptors.Settle();
    arena_->SetUsed(lines.used(), descriptors.used());
    std::unique_ptr<const Fib> fib =
        FibBuilder::Make(*table_, arena_, generation_, Root());
    published_ = true;
    return fib;
  }

  // The table's root. One of a generation that is gone needs no more than what
  // changed since: the rest of it, which readers may have in their caches, is
  // not written.
  std::unique_ptr<FibRoot> Root() {
    FibArena::SpareRoot spare = arena_->TakeRoot();
    if (spare.root == nullptr) return std::make_unique<FibRoot>(table_->root());
    if (spare.generation < roots_since_) {
      *spare.root = table_->root();
      return std::move(spare.root);
    }
    for (auto change = root_changes_.rbegin();
         change != root_changes_.rend() &&
         change->generation > spare.generation;
         ++change) {
      spare.root->entries[change->index] =
          table_->root().entries[change->index];
    }
    return std::move(spare.root);
  }

  // What fib_bound.h takes for granted of the memory that an Update begins
  // with. Free lines count in the end, too: they are of use only to blocks of
  // their size.
  // With a `share` of 2, whether it is halfway there.
  bool BadlyPacked(size_t routes, size_t share) const {
    const auto exceeds = [share](size_t now, size_t compact, size_t times) {
      return now > compact + times * (compact + kUpdateAside) / share;
    };
    const LinePool& lines = table_->lines();
    return exceeds(lines.live(), compact_lines_, 1) ||
           exceeds(lines.used(), compact_lines_, 2) ||
           exceeds(table_->descriptors().live(), compact_descriptors_, 1) ||
           exceeds(table_->values().next_hop_count(), compact_next_hops_, 1) ||
           routes < compact_routes_ - compact_routes_ / (2 * share);
  }

  // True if lines without a name might be needed: an update takes 2 lines a
  // route and 140,000 at most, and as many for tables as there are.
  bool TooLargeToUpdate(size_t routes) const {
    return table_->lines().used() > kMaxPayload / 4 || routes > kMaxPayload / 5;
  }

  void Reclaim(uint64_t oldest) {
    while (!retired_.empty() && retired_.front().generation <= oldest) {
      Free(retired_.front().garbage);
      retired_.pop_front();
    }
  }

  void Free(const Garbage& garbage) {
    for (uint32_t first : garbage.lines) table_->lines().Free(first);
    for (uint32_t first : garbage.descriptors) {
      table_->descriptors().Free(first);
    }
  }

  const Family family_;
  const FibOptions options_;
  const FibLimits limits_;
  const FibPacking packing_;
  bool called_ = false;  // Compile
  // The table is that of the last call's routes: nothing failed since.
  bool published_ = false;
  std::unique_ptr<TableCompiler> table_;
  std::unique_ptr<TableUpdater> updater_;
  std::unique_ptr<TablePacker> packer_;  // while it has not ended
  std::shared_ptr<FibArena> arena_;
  uint64_t generation_ = 0;
  std::deque<Retired> retired_;  // oldest first
  // Entries of the root that changed, oldest first: all that did so after
  // generation roots_since_.
  struct RootChange {
    uint64_t generation;
    uint32_t index;
  };
  std::deque<RootChange> root_changes_;
  uint64_t roots_since_ = 0;
  // The last full compilation, or the last one in steps, and what it took.
  size_t compact_routes_ = 0;
  size_t compact_lines_ = 0;
  size_t compact_descriptors_ = 0;
  size_t compact_next_hops_ = 0;
  std::vector<Prefix> changed_;
  Counters counters_;
};

FibCompiler::FibCompiler(Family family, const FibOptions& options)
    : FibCompiler(family, options, FibLimits(), FibPacking()) {}

FibCompiler::FibCompiler(Family family, const FibOptions& options,
                         const FibLimits& limits, const FibPacking& packing)
    : impl_(std::make_unique<Impl>(family, options, limits, packing)) {}

FibCompiler::~FibCompiler() = default;

absl::StatusOr<std::unique_ptr<const Fib>> FibCompiler::Compile(
    const RouteSet& routes) {
  return impl_->Compile(routes);
}

absl::StatusOr<std::unique_ptr<const Fib>> FibCompiler::Update(
    const RouteSet& routes, absl::Span<const Prefix> changed) {
  return impl_->Update(routes, changed);
}

const FibCompiler::Counters& FibCompiler::counters() const {
  return impl_->counters();
}

size_t FibCompiler::packing_bytes() const { return impl_->packing_bytes(); }

}  // namespace planb
