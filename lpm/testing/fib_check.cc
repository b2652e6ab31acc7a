#include "lpm/testing/fib_check.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "lpm/testing/oracle.h"
#include "lpm/testing/packed_probes.h"
#include "lpm/testing/probes.h"

namespace planb {

std::vector<NextHopId> LookupAll(Form form, const Fib& fib,
                                 absl::Span<const Address> addresses,
                                 const Kernel& kernel) {
  const std::vector<char> packed = PackAs(form, addresses);
  // Filled with what no lookup may leave behind: tests use smaller next hops,
  // or check these values themselves.
  std::vector<uint32_t> answers(addresses.size(), htole32(0xdeadbeef));
  LookupAs(form, fib, packed.data(), addresses.size(), answers.data(), kernel);
  for (uint32_t& answer : answers) answer = le32toh(answer);
  return answers;
}

void ExpectAnswers(const Fib& fib, absl::Span<const Address> addresses,
                   absl::Span<const NextHopId> expected) {
  ASSERT_EQ(addresses.size(), expected.size());
  for (const Kernel* kernel : AvailableKernels()) {
    const std::vector<NextHopId> answers =
        LookupAll(WholeForm(fib.family()), fib, addresses, *kernel);
    if (std::equal(answers.begin(), answers.end(), expected.begin())) continue;
    size_t wrong = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i] == expected[i] || ++wrong > 5) continue;
      ADD_FAILURE() << KernelName(*kernel) << ": " << addresses[i].ToString()
                    << " (number " << i << " of " << answers.size() << ") -> "
                    << answers[i] << ", not " << expected[i];
    }
    ADD_FAILURE() << KernelName(*kernel) << ": " << wrong << " wrong answers";
  }
}

void ExpectLikeOracle(Family family, std::vector<Route> routes,
                      absl::Span<const Address> probes) {
  std::sort(routes.begin(), routes.end());
  const auto fib = Fib::Build(family, routes).value();
  ASSERT_EQ(fib->family(), family);
  std::vector<Address> addresses = BoundaryProbes(routes);
  addresses.insert(addresses.end(), probes.begin(), probes.end());
  const Address zero = Address::FromBits(family, 0);
  addresses.insert(addresses.end(),
                   {zero, NextAddress(zero), PreviousAddress(zero),
                    PreviousAddress(PreviousAddress(zero))});
  EXPECT_EQ(UpperDifferences(*fib, routes, addresses), "");
  const Oracle oracle(std::move(routes));
  std::vector<NextHopId> expected;
  for (const Address& address : addresses) {
    const auto route = oracle.Lookup(address);
    expected.push_back(route ? route->next_hop : kNoRoute);
    EXPECT_EQ(fib->Lookup(address), expected.back()) << address.ToString();
  }
  ExpectAnswers(*fib, addresses, expected);
}

}  // namespace planb
