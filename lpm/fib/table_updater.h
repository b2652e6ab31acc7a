// SPDX-License-Identifier: Apache-2.0

// Changes a compiled table in part: writes anew what changed and the tables on
// the way to it, and lists what that leaves unused.

#ifndef PLANB_LPM_FIB_TABLE_UPDATER_H_
#define PLANB_LPM_FIB_TABLE_UPDATER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/kernels/layout.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// Thread-compatible.
class TableUpdater {
 public:
  // Blocks, by their first element.
  struct Garbage {
    std::vector<uint32_t> lines;
    std::vector<uint32_t> descriptors;
  };

  explicit TableUpdater(TableCompiler& table) : table_(table) {}

  // Makes the table that of `routes`, which differ from what it was compiled
  // from at most at `changed`. Writes to the root, and to lines and descriptors
  // that were not in use, but to none that were. If the table failed(), it is
  // of no use. REQUIRES: `changed` ascends, no prefix is shorter than
  // kRootBits.
  void Update(const RouteSet& routes, absl::Span<const Prefix> changed);

  // What Update left unused since this was last emptied.
  Garbage& garbage() { return garbage_; }

 private:
  using Changes = absl::Span<const Prefix>;

  void UpdateSlot(const RouteSet& routes, Changes changed, uint32_t entry,
                  const MainSlot& slot, Position position);
  uint32_t CopyTable(uint32_t entry, uint32_t first_key, int bits,
                     Position position);

  // All that hangs on an entry goes. `key` is the first of its slot, and
  // `width` the number of bits it leaves open.
  void RetireRootEntry(uint32_t entry, uint32_t slot);
  void RetireEntry(uint32_t entry, uint32_t key, int width);
  void RetirePartition(uint32_t first, bool narrow);
  void RetireValue(uint32_t value);

  TableCompiler& table_;
  Garbage garbage_;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_TABLE_UPDATER_H_
