// SPDX-License-Identifier: Apache-2.0

// The pipeline between ports that are files (net_pcap), so that a sanitizer
// sees every byte of a frame from the file to the file.

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/local_table.h"
#include "examples/router/dpdk.h"
#include "examples/router/pipeline.h"
#include "examples/router/testing/frames.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"

namespace planb::router {
namespace {

constexpr size_t kPorts = 2;
constexpr NextHopId kHops = 8;

// Files of libpcap: a header, then each frame behind times and lengths.
struct FileHeader {
  uint32_t magic = 0xa1b2c3d4;
  uint16_t major = 2, minor = 4;
  uint32_t zone = 0, accuracy = 0, most = 65535, ethernet = 1;
};
struct FrameHeader {
  uint32_t seconds = 0, microseconds = 0, kept = 0, bytes = 0;
};

void WritePcap(const std::string& path, const std::vector<Frame>& frames) {
  std::string out;
  const FileHeader header;
  out.append(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const Frame& frame : frames) {
    const auto size = static_cast<uint32_t>(frame.size());
    const FrameHeader of_frame = {.kept = size, .bytes = size};
    out.append(reinterpret_cast<const char*>(&of_frame), sizeof(of_frame));
    out.append(frame.begin(), frame.end());
  }
  std::ofstream(path, std::ios::binary) << out;
}

std::vector<Frame> ReadPcap(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string in((std::istreambuf_iterator<char>(file)), {});
  std::vector<Frame> frames;
  size_t at = sizeof(FileHeader);
  while (at + sizeof(FrameHeader) <= in.size()) {
    FrameHeader header;
    std::memcpy(&header, &in[at], sizeof(header));
    at += sizeof(header);
    if (header.kept > in.size() - at) {
      ADD_FAILURE() << path << " ends within a frame";
      break;
    }
    const auto begin = in.begin() + static_cast<ptrdiff_t>(at);
    frames.emplace_back(begin, begin + header.kept);
    at += header.kept;
  }
  return frames;
}

Address GatewayOf(NextHopId id) {
  return Address::V6(absl::MakeUint128(0x20010db8ffff0000, id));
}
Mac MacOf(NextHopId id) { return {2, 1, 0, 0, 0, static_cast<uint8_t>(id)}; }

TEST(Pcap, EveryPacketOfAFileLeavesAsTheOracleSays) {
  const std::vector<Route> table = SyntheticTable(
      {.ipv6_routes = 500, .ipv4_routes = 300, .next_hops = kHops});
  std::vector<Address> trace = SyntheticTrace(table, Family::kIpv6, 600, 1);
  for (const Address& to : SyntheticTrace(table, Family::kIpv4, 400, 2)) {
    const auto top = static_cast<uint8_t>(to.ToPacked()[0]);
    // Some others are never forwarded.
    if (top > 0 && top < 127) trace.push_back(to);
  }
  const std::vector<NextHopId> right = RightAnswers(table, trace);
  std::mt19937 random(1);
  std::vector<std::vector<Frame>> in(kPorts);
  std::map<uint32_t, std::pair<size_t, Frame>> expected;  // by its number
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const bool v6 = trace[i].family() == Family::kIpv6;
    // A jumbo frame is in several buffers, the last of them of few bytes.
    const size_t bytes = i % 50 == 0 ? 1930 + i : 8 + random() % 1400;
    const size_t padding = i % 50 == 0 ? 0 : i % 7;
    const auto hops = static_cast<uint8_t>(1 + random() % 20);
    Frame frame = MakeFrame({.source = v6 ? "2001:db8::1" : "192.0.2.1",
                             .destination = trace[i].ToString(),
                             .hops = hops,
                             .port = static_cast<uint16_t>(random()),
                             .number = i,
                             .bytes = bytes,
                             .padding = padding});
    in[random() % kPorts].push_back(frame);
    // Beside it one that is cut or changed anywhere in its headers.
    Frame bad = frame;
    if (random() % 2 == 0) {
      bad.resize(1 + random() % 60);
    } else {
      bad[random() % 54] ^= static_cast<uint8_t>(1 + random() % 255);
    }
    const size_t at = v6 ? 58 : 38;  // of the number
    if (bad.size() >= at + 4) std::memset(&bad[at], 0xff, 4);
    in[random() % kPorts].push_back(bad);
    if (right[i] == kNoRoute || hops == 1) continue;
    // The oracle: other MAC addresses, one hop less, the rest as it was.
    std::memcpy(&frame[0], MacOf(right[i]).data(), 6);
    std::memcpy(&frame[6], kStation.data(), 6);
    --frame[kEthernetBytes + (v6 ? 7 : 8)];
    if (!v6) SetIpv4Checksum(frame);
    frame.resize(frame.size() - padding);
    expected[i] = {right[i] % kPorts, frame};
  }

  const std::string folder = testing::TempDir();
  EnvironmentOptions environment = {.megabytes = 256};
  for (size_t i = 0; i < kPorts; ++i) {
    const std::string path = absl::StrCat(folder, "/", i);
    WritePcap(absl::StrCat(path, ".in"), in[i]);
    environment.devices.push_back(absl::StrCat("net_pcap", i, ",rx_pcap=", path,
                                               ".in,tx_pcap=", path, ".out"));
  }
  ASSERT_TRUE(StartEnvironment(environment).ok());
  PipelineOptions options;
  rte_mempool* const pool = MakePool(4095).value();
  for (size_t i = 0; i < kPorts; ++i) {
    Port port = {.interface = absl::StrCat("eth", i),
                 .device = static_cast<uint16_t>(i)};
    const absl::Status started =
        StartDevice(port.device, 1, 1, pool, port.mac, port.mtu);
    ASSERT_TRUE(started.ok()) << started;
    port.mac = kStation;
    port.mtu = 9000;
    options.ports.push_back(port);
  }
  GenerationChanges changes = {.generation = 1, .reset = true, .routes = table};
  Neighbors neighbors;
  for (NextHopId id = 1; id <= kHops; ++id) {
    changes.next_hops.push_back(
        {.id = id,
         .gateway = GatewayOf(id),
         .interface = absl::StrCat("eth", id % kPorts)});
    neighbors.Set(id % kPorts, GatewayOf(id), MacOf(id));
  }
  client::LocalRoutes routes;
  ASSERT_TRUE(routes.Apply(changes).ok());
  const LocalObjects<client::LocalRoutes> objects(routes);
  {
    const auto pipeline =
        Pipeline::Create(options, LocalLookups(routes), objects, neighbors);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    while ((*pipeline)->PollOnce() > 0) {
    }
    EXPECT_EQ((*pipeline)->counts().received(), 2 * trace.size());
    EXPECT_EQ((*pipeline)->counts().held(), 0U);
  }
  for (const Port& port : options.ports) {
    EXPECT_EQ(rte_eth_dev_stop(port.device), 0);
    EXPECT_EQ(rte_eth_dev_close(port.device), 0);
  }
  EXPECT_EQ(rte_mempool_in_use_count(pool), 0U);

  const size_t forwarded = expected.size();
  EXPECT_GT(forwarded, 500U);
  for (size_t port = 0; port < kPorts; ++port) {
    for (const Frame& frame :
         ReadPcap(absl::StrCat(folder, "/", port, ".out"))) {
      ASSERT_GE(frame.size(), 34U);
      uint32_t number = UINT32_MAX;
      const size_t at = frame[12] == 0x86 ? 58 : 38;
      if (frame.size() >= at + 4) std::memcpy(&number, &frame[at], 4);
      const auto found = expected.find(number);
      if (found == expected.end()) continue;  // one of the bad ones
      EXPECT_EQ(port, found->second.first) << trace[number].ToString();
      EXPECT_EQ(frame, found->second.second) << trace[number].ToString();
      expected.erase(found);
    }
  }
  EXPECT_TRUE(expected.empty())
      << expected.size() << " of " << forwarded << " packets missing";
}

}  // namespace
}  // namespace planb::router
