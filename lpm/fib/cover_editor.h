// SPDX-License-Identifier: Apache-2.0

// Changes of a prefix that covers many slots: only the addresses of no longer
// route have another value then, and they keep their places.

#ifndef PLANB_LPM_FIB_COVER_EDITOR_H_
#define PLANB_LPM_FIB_COVER_EDITOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/partition_compiler.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/fib/table_garbage.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// Gives the addresses that a prefix decides another value, in copies of the
// tables and partitions on which that shows. Intervals stay as they are, so
// neighbours may have one value afterwards. Where an interval holds addresses
// of the prefix and of longer routes, which had one value, or where longer
// routes than a /48 are, what is left to be done is listed. Thread-compatible.
//
// Of several changes in one generation, each prefix takes part as its addresses
// that no longer route and no longer change holds. These had one value before
// all of the changes, have one after, and are no other change's: so the longest
// come first, and each finds its own as they were. To write elsewhere is right
// where a longer change is made later, from the routes alone.
class CoverEditor {
 public:
  CoverEditor(TableCompiler& table, PartitionEditor& editor,
              TableCopier& copier, Garbage& garbage)
      : table_(table),
        lines_(table.lines()),
        editor_(editor),
        copier_(copier),
        garbage_(garbage) {}

  // `table`, which no reader knows, is that of other routes than `routes`:
  // they differ at `prefix`, which covers some slots of it, and within the
  // table's slot and the prefix at most at those of `changed` that are longer.
  // Afterwards it is that of `routes` at all addresses of the prefix, but for
  // what left() has, for what these longer ones hold, and for addresses, by
  // bits 0..47, that are not before `end`. False if too much would be left:
  // then some of it has been done, and nothing is left.
  // O(bytes of what the prefix covers there + changed); and O(routes there) if
  // it decided these addresses before, or a shorter one did.
  // REQUIRES: `changed` ascends. No longer change than the prefix holds all of
  // the table's slot. Longer ones that cover slots of a table came before.
  bool Edit(const RouteSet& routes, const Prefix& prefix,
            const MainTable& table, absl::Span<const Prefix> changed,
            uint64_t end);

  // What is left after calls of Edit: prefixes within a slot that has no table,
  // to be edited as if they had changed.
  const std::vector<Prefix>& left() const { return left_; }
  void ClearLeft() { left_.clear(); }

 private:
  // Bits 0..47 of a first and a last address.
  struct Range {
    uint64_t first, last;
  };
  struct Sharer {
    uint32_t index;  // of its entry
    MainSlot slot;
  };
  // A partition of which not all sharers were met.
  struct Open {
    uint32_t entry = 0;
    std::vector<Sharer> sharers;  // ascending
  };
  enum class Share { kNone, kSome, kAll };

  using Changes = absl::Span<const Prefix>;

  void FindGaps(const RouteSet& routes, const Prefix& from, Changes changed,
                const Range& within, size_t most);
  Share ShareOfGaps(const Range& range);
  uint32_t ValueAt(uint64_t address);
  void Leave(const Range& range);
  void LeaveLongRoutes(const RouteSet& routes, uint64_t at);
  void Walk(const RouteSet& routes, const MainTable& table, uint32_t begin,
            uint32_t end);
  // Whether the prefix does not decide what has this value.
  bool IsOther(uint32_t value) const {
    return value != old_value_ && (value & flag_) == 0;
  }
  void EditValue(const RouteSet& routes, uint32_t value, const Sharer& at);
  void Meet(const RouteSet& routes, uint32_t entry, const Sharer& at);
  void EditPartition(const RouteSet& routes, const Open& partition);

  TableCompiler& table_;
  LinePool& lines_;
  PartitionEditor& editor_;
  TableCopier& copier_;
  Garbage& garbage_;

  // Of the present call.
  int length_ = 0;
  size_t most_left_ = 0;
  uint32_t old_value_ = 0, value_ = 0;
  uint32_t flag_ = 0;  // of values that may have to be left, if any
  // Where there is no longer route; where the old value is 0, which no route
  // has, the first of them only.
  std::vector<Range> gaps_;
  size_t next_gap_ = 0;
  std::vector<Open> open_;
  std::vector<PartitionEditor::Found> found_;
  std::vector<uint32_t> changed_;

  std::vector<Prefix> left_;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_COVER_EDITOR_H_
