// SPDX-License-Identifier: Apache-2.0

// In a network namespace of this process, with a second one behind a veth pair.

#include "examples/router/kernel.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace planb::router {
namespace {

bool Shell(const std::string& command) {
  return std::system(("PATH=$PATH:/usr/sbin:/sbin; " + command).c_str()) == 0;
}

TEST(KernelNeighbors, AreFollowedAskedForAndForgotten) {
  if (unshare(CLONE_NEWNET) != 0) {
    GTEST_SKIP() << "network namespaces need root";
  }
  const pid_t peer = fork();
  if (peer == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(1);
    for (;;) pause();
  }
  const std::string there = absl::StrCat("nsenter -t ", peer, " -n ");
  // The namespace of the child may not be there yet.
  while (!Shell(absl::StrCat("[ $(readlink /proc/", peer,
                             "/ns/net) != $(readlink /proc/self/ns/net) ]"))) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  ASSERT_TRUE(Shell(absl::StrCat(
      "ip link add r0 type veth peer name h0 netns ", peer,
      " && ip link set r0 up && ip address add 192.0.2.1/24 dev r0"
      " && ip address add 2001:db8::1/64 dev r0 nodad && ",
      there, "ip link set h0 address 02:00:00:00:00:07 up && ", there,
      "ip address add 192.0.2.2/24 dev h0 && ", there,
      "ip address add 2001:db8::2/64 dev h0 nodad"
      " && ip neighbour add 192.0.2.9 lladdr 02:00:00:00:00:09 dev r0")));

  std::vector<Port> ports = {{.interface = "r0"}};
  ASSERT_TRUE(AddKernelAddresses(ports).ok());
  EXPECT_EQ(ports[0].addresses.size(), 2U);
  Neighbors neighbors;
  const auto kernel = KernelNeighbors::Follow(ports, neighbors);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto await = [&](const char* address, const char* mac) {
    const std::optional<Mac> expected =
        *mac == '\0' ? std::nullopt : std::optional(*ParseMac(mac));
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (neighbors.Find(0, *Address::Parse(address)) != expected) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return true;
  };
  // What was there before, without an event.
  EXPECT_TRUE(neighbors.Find(0, *Address::Parse("192.0.2.9")).has_value());
  // The kernel did not look for these.
  for (const char* address : {"192.0.2.2", "2001:db8::2"}) {
    EXPECT_FALSE(neighbors.Find(0, *Address::Parse(address)).has_value());
    neighbors.Want({0, *Address::Parse(address)});
    EXPECT_TRUE(await(address, "02:00:00:00:00:07")) << address;
  }
  // Another MAC address, and none.
  const uint64_t version = neighbors.version();
  ASSERT_TRUE(
      Shell("ip neighbour change 192.0.2.9 lladdr 02:00:00:00:00:0a "
            "dev r0"));
  EXPECT_TRUE(await("192.0.2.9", "02:00:00:00:00:0a"));
  EXPECT_GT(neighbors.version(), version);
  ASSERT_TRUE(Shell("ip neighbour del 192.0.2.9 dev r0"));
  EXPECT_TRUE(await("192.0.2.9", ""));
  // A host whose MAC address changes and that says nothing: the kernel sends it
  // nothing itself, and would keep the old one.
  ASSERT_TRUE(Shell(
      absl::StrCat("sysctl -qw net.ipv4.neigh.r0.base_reachable_time_ms=200"
                   " net.ipv4.neigh.r0.delay_first_probe_time=0"
                   " net.ipv4.neigh.r0.retrans_time_ms=50 && ",
                   there, "sysctl -qw net.ipv4.conf.h0.arp_notify=0 && ", there,
                   "ip link set h0 address 02:00:00:00:00:08")));
  ASSERT_TRUE(
      Shell("ip neighbour change 192.0.2.2 lladdr 02:00:00:00:00:07 "
            "nud stale dev r0"));
  EXPECT_TRUE(await("192.0.2.2", ""));
  neighbors.Want({0, *Address::Parse("192.0.2.2")});
  EXPECT_TRUE(await("192.0.2.2", "02:00:00:00:00:08"));
  kill(peer, SIGKILL);
  waitpid(peer, nullptr, 0);
}

TEST(KernelNeighbors, AreOfInterfacesThatExist) {
  const std::vector<Port> ports = {{.interface = "nothing0"}};
  Neighbors neighbors;
  EXPECT_FALSE(KernelNeighbors::Follow(ports, neighbors).ok());
}

}  // namespace
}  // namespace planb::router
