// SPDX-License-Identifier: Apache-2.0

// From one generation of a table to the next: edits partitions and tables in
// copies, and lists what that leaves unused.

#ifndef PLANB_LPM_FIB_TABLE_UPDATER_H_
#define PLANB_LPM_FIB_TABLE_UPDATER_H_

#include <bitset>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lpm/fib/cover_editor.h"
#include "lpm/fib/elementary_intervals.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/partition_compiler.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/fib/table_garbage.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// Changes a compiled table in part: writes anew what changed and the tables on
// the way to it, and lists what that leaves unused. Thread-compatible.
class TableUpdater {
 public:
  explicit TableUpdater(TableCompiler& table)
      : table_(table),
        editor_(table.shape(), table.lines()),
        copier_(table, spares_, garbage_),
        cover_editor_(table, editor_, copier_, garbage_) {
    table_.slots().LogTo(&written_);
    table_.long_slots().slots().LogTo(&written_);
  }
  TableUpdater(const TableUpdater&) = delete;
  TableUpdater& operator=(const TableUpdater&) = delete;
  ~TableUpdater() {
    table_.slots().LogTo(nullptr);
    table_.long_slots().slots().LogTo(nullptr);
  }

  // Makes the table that of `routes`, which differ from what it was compiled
  // from at most at `changed`. Writes to the root, and to lines and descriptors
  // that were not in use, but to none that were. If the table failed(), it is
  // of no use. It becomes that of `generation`; `oldest` is the oldest one that
  // has readers. As long as only the addresses before `end`, by bits 0..47, are
  // compiled, the others do not matter. REQUIRES: `changed` ascends, and begins
  // before `end`.
  void Update(const RouteSet& routes, absl::Span<const Prefix> changed,
              uint64_t generation, uint64_t oldest,
              uint64_t end = uint64_t{1} << kMainBits);

  // What Update left unused, and the entries of the root that it wrote, since
  // these were last emptied.
  Garbage& garbage() { return garbage_; }
  std::vector<uint32_t>& roots() { return roots_; }

 private:
  using Changes = absl::Span<const Prefix>;

  // A slot with its place: its entry is at `position`, in a table of `entries`
  // entries from `table` on, if not apart. In the main walk, or in the key
  // space of a descriptor.
  struct Place {
    MainSlot slot;
    Position position;
    uint32_t table = 0;
    uint32_t entries = 0;
    bool below_descriptor = false;
  };

  void Prefetch(Changes changed);
  void UpdateWide(const RouteSet& routes, Changes changed);
  uint32_t CoverRoot(const RouteSet& routes, const Prefix& prefix, uint32_t i,
                     uint32_t end);
  void UpdateRootSlot(const RouteSet& routes, const Prefix* wide,
                      Changes changed, uint32_t root);
  void ListCovers(Changes changed, const MainSlot& slot, uint32_t entry);
  bool EditCover(const RouteSet& routes, const Prefix& prefix, Changes changed,
                 const MainSlot& slot, Position position);
  void UpdateSlot(const RouteSet& routes, Changes changed, const Place& place);
  void CompileAnew(const RouteSet& routes, const Place& place);
  void EditSlot(const RouteSet& routes, const Prefix& prefix,
                const Place& place);
  void EditIntervals(const Place& place, const IntervalChange& change);
  uint32_t EditLong(const RouteSet& routes, const Prefix& prefix,
                    uint32_t value, int length);
  void EditBelow(const Place& place, const IntervalChange& change);
  bool FindSharers(uint32_t entry, const Place& place);
  bool EditPartition(uint32_t entry, const Place& place,
                     const IntervalChange& change);
  void Repartition(uint32_t entry, const Place& place,
                   const IntervalChange& change);

  TableCompiler& table_;
  Garbage garbage_;
  SpareTables spares_;
  PartitionEditor editor_;
  TableCopier copier_;
  CoverEditor cover_editor_;
  std::vector<uint32_t> roots_;
  std::vector<uint32_t> written_;  // lines of tables, in this update
  uint64_t end_ = 0;
  // Changes that hold slots of the root, the longest first, and the slots that
  // are done with one of them.
  std::vector<Prefix> wide_;
  std::bitset<kRootEntries> done_;
  // Of a slot of the root: which of its changes cover slots of a table, and
  // then all others.
  std::vector<uint32_t> covers_;
  std::vector<Prefix> others_;
  // How far down the way of a change Prefetch is.
  struct Ahead {
    uint64_t low;
    MainSlot slot;
    uint32_t entry;
    uint32_t word = 0;  // where the next entry is, if in_table
    bool in_table = false;
  };
  std::vector<Ahead> ahead_;
  // Of the slot that is being edited: the entries that name its partition,
  // ascending; what changes in it; what it was and what it becomes.
  std::vector<uint32_t> sharers_;
  IntervalList<uint32_t> by_, old_, new_, part_;
  std::vector<uint32_t> dropped_;
  // One of those, if not 0: its descriptor goes, what is below it has another.
  uint32_t moved_ = 0;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_TABLE_UPDATER_H_
