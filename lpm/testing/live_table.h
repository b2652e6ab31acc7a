// A table that changes, as the server holds one: its routes, the compiler that
// follows them, and a plain copy of the routes to judge both by.

#ifndef PLANB_LPM_TESTING_LIVE_TABLE_H_
#define PLANB_LPM_TESTING_LIVE_TABLE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lpm/fib.h"
#include "lpm/fib_compiler.h"
#include "lpm/prefix.h"
#include "lpm/route_set.h"

namespace planb {

// An announcement or, where next_hop is kNoRoute, a withdrawal. Announcing what
// is there, and withdrawing what is not, is allowed and changes nothing.
using Change = Route;

// "2001:db8::/32 -> 7, withdraw ::/0".
std::string ChangesText(absl::Span<const Change> changes);

// Thread-compatible.
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

  // The copy that knows nothing of RouteSet, ascending.
  const std::map<Prefix, NextHopId>& model() const { return model_; }
  std::vector<Route> ModelRoutes() const;

 private:
  RouteSet routes_;
  FibCompiler compiler_;
  std::shared_ptr<const Fib> fib_;
  std::map<Prefix, NextHopId> model_;
};

}  // namespace planb

#endif  // PLANB_LPM_TESTING_LIVE_TABLE_H_
