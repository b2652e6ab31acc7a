// A small world in motion: the table of a few prefixes, checked after every
// change against the oracle, as to whole addresses and to upper halves, while
// versions of long ago stay alive.

#ifndef PLANB_LPM_TESTING_WORLD_TABLE_H_
#define PLANB_LPM_TESTING_WORLD_TABLE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "lpm/prefix.h"
#include "lpm/testing/forms.h"
#include "lpm/testing/live_table.h"
#include "lpm/testing/old_versions.h"
#include "lpm/testing/packed_probes.h"
#include "lpm/testing/small_world.h"

namespace planb {

// Failures are gtest's. Thread-compatible.
class WorldTable {
 public:
  // Prefix number i of the world has next hop state[i]; kNoRoute is no route.
  using State = std::vector<NextHopId>;

  // `background` routes are always there, but for prefixes of the world.
  explicit WorldTable(const SmallWorld& world,
                      std::vector<Route> background = {});
  // Checks the old versions that are left.
  ~WorldTable();

  // Number of prefixes.
  size_t size() const { return prefixes_.size(); }

  // Goes on with a new compiler and none of the world's prefixes.
  void Restart();

  // Goes to `next` in one batch, which may be empty.
  void Go(const State& next);

  // Changes prefix number `i` alone.
  void Set(size_t i, NextHopId next_hop);

 private:
  void Check(absl::Span<const Change> changes);

  const Family family_;
  const std::vector<Prefix> prefixes_;
  std::vector<Route> background_;
  // Of each form of the family.
  std::vector<Form> forms_;
  std::vector<std::shared_ptr<const PackedProbes>> probes_;
  State state_;
  std::unique_ptr<LiveTable> table_;
  OldVersions old_;
};

// Counts up in base `values`; false where it comes back to zeros.
bool NextState(WorldTable::State& state, NextHopId values);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_WORLD_TABLE_H_
