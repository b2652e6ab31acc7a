// SPDX-License-Identifier: Apache-2.0

// Tables that change: one as the server holds it, and random histories of
// changes to it.

#ifndef PLANB_LPM_TESTING_HISTORIES_H_
#define PLANB_LPM_TESTING_HISTORIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"

namespace planb {

// An announcement or, where next_hop is kNoRoute, a withdrawal. Announcing what
// is there, and withdrawing what is not, is allowed and changes nothing.
using Change = Route;

// "2001:db8::/32 -> 7, withdraw ::/0".
std::string ChangesText(absl::Span<const Change> changes);

// The routes of a table, the compiler that follows them, and a plain copy of
// the routes to judge both by. Thread-compatible.
class LiveTable {
 public:
  explicit LiveTable(Family family, absl::Span<const Route> routes = {});

  // Makes the changes, one after the other, and compiles the next version,
  // naming to the compiler each change's prefix and those of `also_named`.
  std::shared_ptr<const Fib> Apply(absl::Span<const Change> changes,
                                   absl::Span<const Prefix> also_named = {});

  // Compiles the routes from scratch by the same compiler.
  std::shared_ptr<const Fib> Recompile();

  // The version last compiled; never null.
  const std::shared_ptr<const Fib>& fib() const { return fib_; }
  const RouteSet& routes() const { return routes_; }

  // The plain copy, ascending.
  const std::map<Prefix, NextHopId>& model() const { return model_; }
  std::vector<Route> ModelRoutes() const;

 private:
  RouteSet routes_;
  FibCompiler compiler_;
  std::shared_ptr<const Fib> fib_;
  std::map<Prefix, NextHopId> model_;
};

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
  // Of ten changes so many are withdrawals, now.
  uint64_t withdrawals_ = 3;
  // Where the last change was: the next is often near.
  size_t last_ = 0;
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_HISTORIES_H_
