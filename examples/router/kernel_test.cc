// SPDX-License-Identifier: Apache-2.0

// In a network namespace of this process, with a second one behind a veth pair.

#include "examples/router/kernel.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/server_process.h"

namespace planb::router {
namespace {

constexpr int kNeighbors = 1000, kChanging = 10, kEvents = 8000, kRounds = 2;

bool Shell(const std::string& command) {
  return std::system(("PATH=$PATH:/usr/sbin:/sbin; " + command).c_str()) == 0;
}

TEST(KernelNeighbors, AreFollowedAskedForAndForgotten) {
  if (unshare(CLONE_NEWNET) != 0) {
    GTEST_SKIP() << "network namespaces need root";
  }
  const pid_t peer = fork();
  ASSERT_GE(peer, 0);
  const absl::Cleanup end = [peer] {
    kill(peer, SIGKILL);
    waitpid(peer, nullptr, 0);
  };
  if (peer == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(1);
    for (;;) pause();
  }
  const std::string there = absl::StrCat("nsenter -t ", peer, " -n ");
  // The namespace of the child may not be there yet.
  const absl::Time ready = absl::Now() + absl::Seconds(20);
  while (!Shell(absl::StrCat("[ $(readlink /proc/", peer,
                             "/ns/net) != $(readlink /proc/self/ns/net) ]"))) {
    ASSERT_LT(absl::Now(), ready);
    absl::SleepFor(absl::Milliseconds(5));
  }
  ASSERT_TRUE(Shell(absl::StrCat(
      "ip link add r0 type veth peer name h0 netns ", peer,
      " && ip link set r0 up && ip address add 192.0.2.1/24 dev r0"
      " && ip address add 2001:db8::1/64 dev r0 nodad && ",
      there, "ip link set h0 address 02:00:00:00:00:07 up && ", there,
      "ip address add 192.0.2.2/24 dev h0 && ", there,
      "ip address add 2001:db8::2/64 dev h0 nodad"
      " && ip neighbour add 192.0.2.9 lladdr 02:00:00:00:00:09 dev r0"
      " && ip neighbour add 192.0.2.255 lladdr ff:ff:ff:ff:ff:ff nud noarp"
      " dev r0")));

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
  // Of all of a subnet, as the kernel has it where a program sends to it.
  EXPECT_FALSE(neighbors.Find(0, *Address::Parse("192.0.2.255")).has_value());
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
}

// More events than the socket holds, while lists run: those that no event is
// about stay, and the last event counts.
TEST(KernelNeighbors, AreListedAgainAfterEventsWereLost) {
  if (unshare(CLONE_NEWNET) != 0) {
    GTEST_SKIP() << "network namespaces need root";
  }
  ASSERT_TRUE(
      Shell("ip link add r0 type veth peer name h0 && ip link set r0 up"));
  const auto address = [](int i) {
    return absl::StrCat("10.0.", i / 256, ".", i % 256);
  };
  const auto mac = [](int i) {
    return absl::StrCat("02:00:00:00:0", i / 10, ":0", i % 10);
  };
  const std::string batch = TempPath("neighbors");
  const auto change = [&](int events, int neighbors) {
    std::ofstream file(batch);
    for (int i = 0; i < events; ++i) {
      file << "neighbour replace " << address(i % neighbors) << " lladdr "
           << mac(i / neighbors % 100) << " dev r0\n";
    }
    file.close();
    return Shell(absl::StrCat("ip -batch ", batch));
  };
  ASSERT_TRUE(change(kNeighbors, kNeighbors));
  const std::vector<Port> ports = {{.interface = "r0"}};
  Neighbors neighbors;
  const auto kernel = KernelNeighbors::Follow(ports, neighbors);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(change(kEvents, kChanging));
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    int wrong = 0;
    do {
      absl::SleepFor(absl::Milliseconds(20));
      wrong = 0;
      for (int i = 0; i < kNeighbors; ++i) {
        const std::string expected =
            mac(i < kChanging ? (kEvents / kChanging - 1) % 100 : 0);
        const auto found = neighbors.Find(0, *Address::Parse(address(i)));
        wrong += found == *ParseMac(expected) ? 0 : 1;
      }
    } while (wrong > 0 && absl::Now() < deadline);
    ASSERT_EQ(wrong, 0) << "in round " << round;
  }
}

TEST(KernelNeighbors, AreOfInterfacesThatExist) {
  const std::vector<Port> ports = {{.interface = "nothing0"}};
  Neighbors neighbors;
  EXPECT_FALSE(KernelNeighbors::Follow(ports, neighbors).ok());
}

}  // namespace
}  // namespace planb::router
