// SPDX-License-Identifier: Apache-2.0

// A port that is an interface of the kernel, in a network namespace of this
// process.

#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/time/clock.h"
#include "examples/router/dpdk.h"
#include "examples/router/next_hops.h"
#include "examples/router/testing/frames.h"

namespace planb::router {
namespace {

// With net_af_packet the kernel keeps a fragment until it has them all.
TEST(Device, HasItsInterfacesMtuAndByPcapReceivesFragmentsAsTheyCome) {
  if (unshare(CLONE_NEWNET) != 0) {
    GTEST_SKIP() << "network namespaces need root";
  }
  ASSERT_EQ(std::system("PATH=$PATH:/usr/sbin:/sbin"
                        " && ip link add r0 type veth peer name h0"
                        " && ip link set dev r0 mtu 1400 up"
                        " && ip link set dev h0 mtu 1400 up"),
            0);
  ASSERT_TRUE(StartEnvironment({.megabytes = 64,
                                .devices = {"net_af_packet0,iface=r0",
                                            "net_pcap1,iface=r0"}})
                  .ok());
  rte_mempool* const pool = MakePool(4095).value();
  for (uint16_t device = 0; device < 2; ++device) {
    Port port;
    const absl::Status started =
        StartDevice(device, 1, 1, pool, port.mac, port.mtu);
    ASSERT_TRUE(started.ok()) << started;
    EXPECT_EQ(port.mtu, 1400) << device;
  }

  Frame fragment = MakeFrame(
      {.source = "192.0.2.1", .destination = "198.51.100.1", .bytes = 16});
  fragment[kEthernetBytes + 6] = 0x20;  // more follow
  SetIpv4Checksum(fragment);
  const int wire = socket(AF_PACKET, SOCK_RAW, 0);
  ASSERT_GE(wire, 0);
  sockaddr_ll to = {};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(if_nametoindex("h0"));
  ASSERT_EQ(sendto(wire, fragment.data(), fragment.size(), 0,
                   reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
            static_cast<ssize_t>(fragment.size()));
  close(wire);
  bool came = false;
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (!came && absl::Now() < deadline) {
    rte_mbuf* packet = nullptr;
    if (rte_eth_rx_burst(1, 0, &packet, 1) == 0) continue;
    const uint8_t* const bytes = rte_pktmbuf_mtod(packet, uint8_t*);
    came = Frame(bytes, bytes + packet->data_len) == fragment;
    rte_pktmbuf_free(packet);
  }
  EXPECT_TRUE(came);
}

}  // namespace
}  // namespace planb::router
