// SPDX-License-Identifier: Apache-2.0

// Looks addresses up twice: in a table of this program, and in that of a
// server.
//
//   planb_example [SERVER ADDRESS]
//
// cmake -B build && cmake --build build, or
// g++ -std=c++20 example.cc $(pkg-config --cflags --libs planb)

#include <cstdio>
#include <string>
#include <vector>

#include "client/planb.h"
#include "lpm/fib/fib.h"

int main(int argc, char** argv) {
  const std::vector<planb::Route> routes = {
      {*planb::Prefix::Parse("2001:db8::/32"), 7},
      {*planb::Prefix::Parse("2001:db8:1::/48"), 8}};
  const auto fib = planb::Fib::Build(planb::Family::kIpv6, routes);
  if (!fib.ok()) return 1;
  const auto inside = *planb::Address::Parse("2001:db8:1::1");
  std::printf("next hop %u by the engine\n", (*fib)->Lookup(inside));
  if (argc < 3) return 0;

  const auto channel = planb::client::MakeChannel(argv[1]);
  const auto address = planb::Address::Parse(argv[2]);
  if (!channel.ok() || !address.ok()) return 2;
  planb::client::LookupOptions options;
  options.deadline = absl::Now() + absl::Seconds(5);
  const auto answers =
      planb::client::LookupClient(*channel).Lookup({*address}, options);
  if (!answers.ok()) {
    std::fprintf(stderr, "%s\n", answers.status().ToString().c_str());
    return 3;
  }
  std::printf("next hop %u by the server\n", answers->answers[0].next_hop);
  return 0;
}
