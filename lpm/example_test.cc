// SPDX-License-Identifier: Apache-2.0

// How to use the engine: an example for each public header, to copy from.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/kernels/kernel.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {
namespace {

// address.h, prefix.h: from text, strictly, and back.
TEST(Example, Parse) {
  const absl::StatusOr<Prefix> prefix = Prefix::Parse("2001:db8::/32");
  ASSERT_TRUE(prefix.ok()) << prefix.status();
  EXPECT_EQ(prefix->length(), 32);
  EXPECT_EQ(prefix->ToString(), "2001:db8::/32");

  const absl::StatusOr<Address> address = Address::Parse("2001:db8:0:0::1");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->ToString(), "2001:db8::1");
  EXPECT_TRUE(prefix->Contains(*address));

  const absl::StatusOr<Prefix> wrong = Prefix::Parse("2001:db8::1/32");
  EXPECT_EQ(wrong.status().message(),
            "prefix 2001:db8::1/32 has host bits set; did you mean "
            "2001:db8::/32?");
}

// fib.h: a table that does not change. Routes ascend by prefix; next hops are
// numbers of your own, 0 is no route.
TEST(Example, BuildAndLookUp) {
  const std::vector<Route> routes = {
      {Prefix::Parse("2001:db8::/32").value(), 1},
      {Prefix::Parse("2001:db8:1::/48").value(), 2},
  };
  const std::unique_ptr<const Fib> fib =
      Fib::Build(Family::kIpv6, routes).value();

  EXPECT_EQ(fib->Lookup(Address::Parse("2001:db8:1::5").value()), 2U);
  EXPECT_EQ(fib->Lookup(Address::Parse("2001:db8:2::5").value()), 1U);
  EXPECT_EQ(fib->Lookup(Address::Parse("2001:db9::").value()), kNoRoute);
}

// fib.h, kernel.h: upper halves, where prefixes are hardly ever longer than
// /64. Half an address is undecided where its other half would decide.
TEST(Example, LookUpUpperHalves) {
  const std::vector<Route> routes = {
      {Prefix::Parse("2001:db8:0:1::/64").value(), 1},
      {Prefix::Parse("2001:db8:0:2::/64").value(), 2},
      {Prefix::Parse("2001:db8:0:2::5/128").value(), 3},
  };
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  constexpr char kUpperHalves[] =
      "\x20\x01\x0d\xb8\0\0\0\1"
      "\x20\x01\x0d\xb8\0\0\0\2"
      "\x20\x01\x0d\xb8\0\0\0\3";
  std::array<uint32_t, 3> next_hops;
  fib->LookupUpper(kUpperHalves, next_hops.size(), next_hops.data(),
                   **SelectKernel("auto"));
  EXPECT_EQ(next_hops, (std::array<uint32_t, 3>{1, kUndecided, kNoRoute}));
  EXPECT_EQ(CountNoRoute(next_hops.data(), next_hops.size()), 1U);
}

// kernel.h, fib.h: a batch, as the addresses lie in packets. Choose a kernel
// once; any number of threads may look up at the same time.
TEST(Example, LookUpABatch) {
  const std::vector<Route> routes = {{Prefix::Parse("::/0").value(), 3},
                                     {Prefix::Parse("fc00::/7").value(), 4}};
  const auto fib = Fib::Build(Family::kIpv6, routes).value();

  std::array<in6_addr, 3> addresses;
  inet_pton(AF_INET6, "fd00::1", &addresses[0]);
  inet_pton(AF_INET6, "2001:db8::1", &addresses[1]);
  inet_pton(AF_INET6, "fbff::", &addresses[2]);
  std::array<NextHopId, 3> next_hops;  // as they are on little-endian machines

  const absl::StatusOr<const Kernel*> kernel = SelectKernel("auto");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  fib->Lookup(addresses.data(), addresses.size(), next_hops.data(), **kernel);
  EXPECT_EQ(next_hops, (std::array<NextHopId, 3>{4, 3, 3}));
}

// fib.h: the length of the prefix beside each next hop, of a FIB that was made
// for it.
TEST(Example, LookUpWithPrefixLengths) {
  const std::vector<Route> routes = {{Prefix::Parse("10.0.0.0/8").value(), 1},
                                     {Prefix::Parse("10.1.0.0/16").value(), 1}};
  const auto fib =
      Fib::Build(Family::kIpv4, routes, {.prefix_lengths = true}).value();
  constexpr char kAddresses[] =
      "\x0a\0\0\1"
      "\x0a\1\0\1"
      "\x0b\0\0\1";
  std::array<uint32_t, 3> next_hops;
  std::array<uint8_t, 3> lengths;
  fib->LookupWithLengths(kAddresses, next_hops.size(), next_hops.data(),
                         lengths.data(), **SelectKernel("auto"));
  EXPECT_EQ(next_hops, (std::array<uint32_t, 3>{1, 1, kNoRoute}));
  EXPECT_EQ(lengths, (std::array<uint8_t, 3>{8, 16, kNoPrefixLength}));
}

// kernel.h: which there are, here. They differ in speed alone.
TEST(Example, Kernels) {
  const std::vector<Route> routes = {{Prefix::Parse("10.0.0.0/8").value(), 1}};
  const auto fib = Fib::Build(Family::kIpv4, routes).value();
  for (const Kernel* kernel : AvailableKernels()) {
    EXPECT_EQ(fib->Lookup(Address::Parse("10.1.2.3").value(), *kernel), 1U)
        << KernelName(*kernel);
  }
  EXPECT_FALSE(SelectKernel("abacus").ok());
}

// route_set.h: the routes themselves; why an address goes where it goes.
TEST(Example, Explain) {
  RouteSet routes(Family::kIpv4);
  routes.Announce(Prefix::Parse("10.0.0.0/8").value(), 1);
  routes.Announce(Prefix::Parse("10.1.0.0/16").value(), 2);

  const std::optional<Route> route =
      routes.Match(Address::Parse("10.1.2.3").value());
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->prefix.ToString(), "10.1.0.0/16");
  EXPECT_EQ(route->next_hop, 2U);

  const std::optional<Route> above = routes.Cover(route->prefix);
  ASSERT_TRUE(above.has_value());
  EXPECT_EQ(above->prefix.ToString(), "10.0.0.0/8");
  EXPECT_FALSE(routes.Match(Address::Parse("11.0.0.0").value()).has_value());
}

// fib_compiler.h: a table that changes. Each version is a FIB of its own: give
// it to the readers by a pointer, and destroy it when none of them holds it.
TEST(Example, Update) {
  RouteSet routes(Family::kIpv6);
  FibCompiler compiler(Family::kIpv6);
  const Prefix net = Prefix::Parse("2001:db8::/32").value();
  const Prefix part = Prefix::Parse("2001:db8:1::/48").value();
  const Address host = Address::Parse("2001:db8:1::1").value();

  routes.Announce(net, 1);
  const std::unique_ptr<const Fib> before = compiler.Compile(routes).value();

  routes.Announce(part, 2);
  routes.Announce(net, 3);
  const std::unique_ptr<const Fib> after =
      compiler.Update(routes, {net, part}).value();

  EXPECT_EQ(after->Lookup(host), 2U);
  EXPECT_EQ(before->Lookup(host), 1U) << "a version never changes";
}

}  // namespace
}  // namespace planb
