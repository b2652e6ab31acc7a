// SPDX-License-Identifier: Apache-2.0

// Random prefixes and routes that are hard: they share long beginnings, so that
// they nest deeply, touch each other, and crowd in few places. And random
// histories of changes to a table of them.

#ifndef PLANB_LPM_TESTING_RANDOM_TABLES_H_
#define PLANB_LPM_TESTING_RANDOM_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"

namespace planb {

// Makes a prefix from text, or from the first and the last 64 bits of an
// address.
inline Address A(absl::string_view text) {
  return Address::Parse(text).value();
}
inline Prefix P(absl::string_view text) { return Prefix::Parse(text).value(); }
inline Route R(absl::string_view prefix, NextHopId next_hop) {
  return {P(prefix), next_hop};
}
inline Prefix V6(uint64_t high, uint64_t low, int length) {
  return Prefix::Truncate(Address::V6(absl::MakeUint128(high, low)), length);
}

// Says how RandomRoutes draws.
struct RandomRoutesOptions {
  Family family = Family::kIpv6;
  size_t count = 100;
  // Lengths are drawn from here, evenly. -1 is as long as the family allows.
  int min_length = 0;
  int max_length = -1;
  // Next hops are drawn from 1..next_hops.
  uint32_t next_hops = 16;
  uint64_t seed = 1;
};

// Makes at most `count` routes (fewer where the lengths allow no more),
// distinct, sorted by prefix. Each is a random walk's next step: it takes
// another one's bits up to some point, then goes its own way, or follows right
// after it.
std::vector<Route> RandomRoutes(const RandomRoutesOptions& options);

// At most `count` prefixes inside `top` (itself possible), of all lengths that
// fit, nested and touching as RandomRoutes makes them. Ascending, distinct.
std::vector<Prefix> PrefixesBelow(const Prefix& top, size_t count,
                                  uint64_t seed);

// Returns the prefixes of `address` from /first to /last, each inside the one
// before.
std::vector<Prefix> Chain(const Address& address, int first, int last);

// Returns the neighbours of the chain: of each length the prefix that differs
// in its last bit.
std::vector<Prefix> Siblings(const Address& address, int first, int last);

// `count` neighbours of one length, starting with `first`; fewer at the end of
// the address space.
std::vector<Prefix> Row(const Prefix& first, size_t count);

// About `count` prefixes: a mixture, drawn at random, of the above in one place
// (one slot, one /48, one /64, hosts of one subnet, ...), of others all over
// the address space, and of /0, /3 and /8 above all of them. Ascending,
// distinct.
std::vector<Prefix> HardPrefixes(Family family, size_t count, uint64_t seed);

// The same with next hops 1..next_hops in turn.
std::vector<Route> HardRoutes(Family family, size_t count, uint64_t seed,
                              uint32_t next_hops);

// An announcement or, where next_hop is kNoRoute, a withdrawal. Announcing what
// is there, and withdrawing what is not, is allowed and changes nothing.
using Change = Route;

// "2001:db8::/32 -> 7, withdraw ::/0".
std::string ChangesText(absl::Span<const Change> changes);

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

// Batches of random changes, always the same for the same options.
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
  // So many of ten changes are withdrawals now.
  uint64_t withdrawals_ = 3;
  // Where the last change was: the next is often near.
  size_t last_ = 0;
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_RANDOM_TABLES_H_
