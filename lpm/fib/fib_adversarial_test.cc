// SPDX-License-Identifier: Apache-2.0

// The worst tables: right answers at every boundary of every route, and memory
// within bounds, built at once and by updates.

#include <gtest/gtest.h>

#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/adversarial_tables.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/histories.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

// Changes tried one by one; in some tables each recompiles 100,000 routes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kSingles = 20;
#else
constexpr size_t kSingles = 200;
#endif

class FibAdversarial : public testing::TestWithParam<AdversarialTable> {
 protected:
  size_t MostBytes(size_t routes) const {
    return GetParam().most_bytes_aside +
           GetParam().most_bytes_per_route * routes;
  }
  const std::vector<Route> routes_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Tables, FibAdversarial,
                         testing::ValuesIn(AdversarialTables()),
                         [](const auto& param) { return param.param.name; });

TEST_P(FibAdversarial, BuiltAtOnce) {
  ASSERT_GT(routes_.size(), 100U);
  const auto fib = Fib::Build(GetParam().family, routes_).value();
  EXPECT_EQ(DifferencesAtBoundaries(*fib, routes_), "");
  // Where answers do not change, too.
  std::vector<Address> probes = InsideProbes(routes_, 1, 1);
  const std::vector<Address> uniform =
      UniformProbes(GetParam().family, 20'000, 1);
  probes.insert(probes.end(), uniform.begin(), uniform.end());
  const std::vector<NextHopId> expected =
      Reference(GetParam().family, routes_).Lookup(probes);
  EXPECT_EQ(PackedProbes(GetParam().family, probes).Differences(*fib, expected),
            "");
  EXPECT_LE(fib->bytes(), MostBytes(routes_.size()));
  RecordProperty("bytes", std::to_string(fib->bytes()));
  RecordProperty("routes", std::to_string(routes_.size()));
}

// From the empty table to the whole one in batches that grow, each of routes
// from all over it; then all of it away but a few.
TEST_P(FibAdversarial, ByUpdates) {
  std::vector<Change> changes = routes_;
  Random random(1);
  for (size_t n = changes.size(); n > 1; --n) {
    std::swap(changes[n - 1], changes[random.Below(n)]);
  }
  LiveTable table(GetParam().family);
  size_t batch = 1;
  for (size_t done = 0; done < changes.size(); done += batch, batch *= 3) {
    table.Apply(absl::MakeConstSpan(changes).subspan(done, batch));
  }
  ASSERT_EQ(table.ModelRoutes(), routes_);
  const auto whole = table.fib();
  ASSERT_EQ(DifferencesAtBoundaries(*whole, routes_), "");
  // Twice: updates may leave garbage until it is worth a new build.
  EXPECT_LE(whole->bytes(), 2 * MostBytes(routes_.size()));

  // One by one, with the whole table there.
  for (size_t i = 0; i < kSingles; ++i) {
    const Route& route = routes_[random.Below(routes_.size())];
    const std::vector<Change> change = {
        {route.prefix, i % 2 == 0 ? kNoRoute : static_cast<NextHopId>(5 + i)}};
    table.Apply(change);
    const std::vector<Address> probes = BoundaryProbes(change);
    std::vector<NextHopId> expected;
    for (const Address& probe : probes) {
      const auto match = table.routes().Match(probe);
      expected.push_back(match ? match->next_hop : kNoRoute);
    }
    ASSERT_EQ(PackedProbes(GetParam().family, probes)
                  .Differences(*table.fib(), expected),
              "")
        << ChangesText(change);
  }
  ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "");

  for (Change& change : changes) change.next_hop = kNoRoute;
  const size_t left = 20;
  table.Apply(absl::MakeConstSpan(changes).subspan(left));
  ASSERT_LE(table.model().size(), left);
  EXPECT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "");
  EXPECT_EQ(DifferencesAtBoundaries(*whole, routes_), "") << "as it was";
}

}  // namespace
}  // namespace planb
