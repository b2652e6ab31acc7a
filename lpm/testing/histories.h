// Random histories of a routing table: batch after batch of changes as a hard
// day brings them, the same ones for the same seed.

#ifndef PLANB_LPM_TESTING_HISTORIES_H_
#define PLANB_LPM_TESTING_HISTORIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/live_table.h"

namespace planb {

struct HistoryOptions {
  Family family = Family::kIpv6;
  // How many prefixes there are to choose from, about. The table grows to
  // nearly all of them and shrinks to nearly none.
  size_t prefixes = 60;
  // The usual size of a batch is up to this; bursts are larger.
  size_t changes = 6;
  // Next hops are drawn from first_next_hop and as many after it, wrapping
  // past those that are reserved.
  uint32_t next_hops = 4;
  NextHopId first_next_hop = 1;
  uint64_t seed = 1;
};

// Thread-compatible.
class History {
 public:
  explicit History(const HistoryOptions& options);

  // The next batch, never empty. Its changes may repeat prefixes, announce
  // what is there and withdraw what is not.
  std::vector<Change> NextBatch();

  // Prefixes to name beside those that change: some that the table has, some
  // that it has not, most of the time none.
  std::vector<Prefix> AlsoNamed();

 private:
  const Prefix& AnyPrefix();
  NextHopId AnyNextHop();
  Change AnyChange();
  std::vector<Change> Few();
  std::vector<Change> Flaps();
  std::vector<Change> Burst();
  std::vector<Change> Everything();
  std::vector<Change> Below();
  std::vector<Change> OtherPrefixes();

  const HistoryOptions options_;
  Random random_;
  std::vector<Prefix> pool_;
  // Of ten changes so many are withdrawals, now.
  uint64_t withdrawals_ = 3;
  // Where the last change was: the next is often near.
  size_t last_ = 0;
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_HISTORIES_H_
