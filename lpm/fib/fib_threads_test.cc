// SPDX-License-Identifier: Apache-2.0

// One FIB, many threads, all kernels: lookups only read. Mostly for TSan.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"

namespace planb {
namespace {

TEST(FibThreads, AllReadTheSameAnswers) {
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 2000});
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  const std::vector<Address> trace =
      SyntheticTrace(routes, Family::kIpv6, 1000, 1);
  const Oracle oracle(routes);
  std::string packed;
  std::vector<NextHopId> expected;
  for (const Address& address : trace) {
    packed += address.ToPacked();
    const auto route = oracle.Lookup(address);
    expected.push_back(route.has_value() ? route->next_hop : kNoRoute);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const auto kernels = AvailableKernels();
      const Kernel& kernel = *kernels[static_cast<size_t>(t) % kernels.size()];
      std::vector<NextHopId> found(trace.size());
      for (int round = 0; round < 20; ++round) {
        fib->Lookup(packed.data(), trace.size(), found.data(), kernel);
        ASSERT_EQ(found, expected) << KernelName(kernel);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace planb
