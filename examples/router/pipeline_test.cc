// SPDX-License-Identifier: Apache-2.0

#include "examples/router/pipeline.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
extern "C" {  // which the header leaves out
#include <rte_vect.h>
}

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/testing/server_process.h"
#include "client/channel.h"
#include "client/local_table.h"
#include "client/table_client.h"
#include "examples/router/rpc_fib.h"
#include "examples/router/testing/ring_ports.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/table/group_table.h"
#include "lpm/testing/oracle.h"

namespace planb::router {
namespace {

constexpr size_t kPorts = 3;

// Of the gateway of a next hop.
Address GatewayOf(NextHopId id) {
  return Address::V6(absl::MakeUint128(0x20010db8ffff0000, id));
}
Mac MacOf(NextHopId id) {
  return {2, 1, 0, 0, static_cast<uint8_t>(id >> 8), static_cast<uint8_t>(id)};
}
NextHop ObjectOf(NextHopId id) {
  return {.id = id,
          .gateway = GatewayOf(id),
          .interface = absl::StrCat("eth", id % kPorts)};
}

// A table, ports of rings and a pipeline between them.
// What MakeFrame() had as the number.
uint32_t NumberOf(const Sent& sent) {
  uint32_t number = 0;
  std::memcpy(&number, &sent.frame[58], sizeof(number));
  return number;
}

class PipelineTest : public testing::Test {
 protected:
  void TearDown() override {
    pipeline.reset();
    ports.reset();
    EXPECT_EQ(RingPorts::Missing(), 0U);
  }

  void Open(PipelineOptions options = {}) {
    ports = std::make_unique<RingPorts>(kPorts, options.tx_queues());
    for (size_t i = 0; i < kPorts; ++i) {
      ports->ports[i].addresses = {
          *Address::Parse(absl::StrCat("2001:db8:fffe::", i)),
          *Address::Parse(absl::StrCat("203.0.113.", i))};
    }
    options.ports = ports->ports;
    pipeline =
        Pipeline::Create(options, LocalLookups(routes), objects, neighbors)
            .value();
  }

  // Holds 4 packets for a neighbour, and 6 for all of them.
  void OpenWithSmallHold() {
    PipelineOptions options;
    options.hold_neighbor = 4;
    options.hold_total = 6;
    options.hold_seconds = 3600;
    Open(options);
  }

  void Know(NextHopId id) {
    neighbors.Set(id % kPorts, GatewayOf(id), MacOf(id));
  }

  void Apply(std::vector<Route> changes, std::vector<NextHop> hops = {},
             std::vector<NextHopGroup> groups = {}) {
    GenerationChanges generation;
    generation.generation = routes.generation() + 1;
    generation.routes = std::move(changes);
    generation.next_hops = std::move(hops);
    generation.groups = std::move(groups);
    ASSERT_TRUE(routes.Apply(generation).ok());
  }

  void PollAll() {
    while (pipeline->PollOnce() > 0) {
    }
  }
  uint64_t Dropped(Verdict why) const {
    return pipeline->counts().dropped[static_cast<size_t>(why)];
  }

  client::LocalRoutes routes;
  LocalObjects<client::LocalRoutes> objects{routes};
  Neighbors neighbors;
  std::unique_ptr<RingPorts> ports;
  std::unique_ptr<Pipeline> pipeline;
};

class EachForm : public PipelineTest,
                 public testing::WithParamInterface<std::tuple<bool, int>> {
 protected:
  PipelineOptions Options() const {
    PipelineOptions options;
    options.fused = std::get<0>(GetParam());
    options.lpm.assign(static_cast<size_t>(std::get<1>(GetParam())), 0);
    options.rx = {0, 0};
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, EachForm,
                         testing::Combine(testing::Bool(),
                                          testing::Values(1, 2)));

// The table changes between bursts: routes, objects, groups, neighbours.
TEST_P(EachForm, EveryPacketOfATraceLeavesAsTheOracleSays) {
  constexpr NextHopId kHops = 20, kGroup = 21;
  Open(Options());
  std::vector<Route> table = SyntheticTable(
      {.ipv6_routes = 1000, .ipv4_routes = 500, .next_hops = kGroup});
  std::map<NextHopId, Mac> macs;
  std::map<NextHopId, size_t> port_of;
  std::vector<NextHop> hops;
  for (NextHopId id = 1; id <= kHops; ++id) {
    hops.push_back(ObjectOf(id));
    Know(id);
    macs[id] = MacOf(id);
    port_of[id] = id % kPorts;
  }
  NextHopGroup group = {.id = kGroup, .members = {{1, 1}, {2, 2}, {3, 1}}};
  Apply(table, hops, {group});
  std::mt19937 random(1);
  size_t forwarded = 0;
  std::set<size_t> members;
  for (int round = 0; round < 20; ++round) {
    const auto groups = GroupTable::Make({group}, nullptr);
    std::vector<Address> trace =
        SyntheticTrace(table, Family::kIpv6, 200, random());
    for (const Address& a :
         SyntheticTrace(table, Family::kIpv4, 100, random())) {
      trace.push_back(a);
    }
    const std::vector<NextHopId> right = RightAnswers(table, trace);
    // number -> the frame as it leaves, and its port
    std::map<uint32_t, std::pair<size_t, Frame>> expected;
    uint64_t without = 0;
    for (uint32_t i = 0; i < trace.size(); ++i) {
      const Frame frame = MakeFrame(
          {.source =
               trace[i].family() == Family::kIpv6 ? "2001:db8::1" : "192.0.2.1",
           .destination = trace[i].ToString(),
           .hops = static_cast<uint8_t>(2 + random() % 254),
           .port = static_cast<uint16_t>(random()),
           .number = i,
           .padding = random() % 10});
      Packet packet;
      const Verdict verdict =
          CheckPacket(frame, frame.size(), kStation, packet);
      ASSERT_TRUE(ports->Give(random() % kPorts, frame));
      if (verdict != Verdict::kForward) continue;
      const NextHopId id = groups->Choose(right[i], packet.flow_hash);
      if (id == kNoRoute) {
        ++without;
        continue;
      }
      if (right[i] == kGroup) members.insert(id);
      Frame out(frame.begin(), frame.begin() + packet.bytes);
      Rewrite(out.data(), packet.family, kStation, macs[id]);
      expected[i] = {port_of[id], out};
    }
    const uint64_t no_route = Dropped(Verdict::kNoRoute);
    PollAll();
    EXPECT_EQ(Dropped(Verdict::kNoRoute) - no_route, without);
    size_t errors = 0;
    for (const Sent& sent : ports->Take()) {
      uint32_t number = 0;
      std::memcpy(&number, &sent.frame[sent.frame.size() - 4], 4);
      const auto found = expected.find(number);
      if (found == expected.end()) {
        ++errors;  // of ICMP
        continue;
      }
      ASSERT_EQ(sent.port, found->second.first) << trace[number].ToString();
      ASSERT_EQ(sent.frame, found->second.second) << trace[number].ToString();
      expected.erase(found);
      ++forwarded;
    }
    EXPECT_TRUE(expected.empty()) << expected.size() << " packets missing";
    EXPECT_LE(errors, without);
    // Now other routes, another port and gateway of a hop, other members.
    std::vector<Route> changes;
    for (int i = 0; i < 30; ++i) {
      Route& route = table[random() % table.size()];
      route.next_hop = static_cast<NextHopId>(1 + random() % kGroup);
      changes.push_back(route);
    }
    const auto moved = static_cast<NextHopId>(1 + random() % kHops);
    port_of[moved] = (port_of[moved] + 1) % kPorts;
    NextHop object = ObjectOf(moved);
    object.interface = absl::StrCat("eth", port_of[moved]);
    macs[moved] = {2, 2, 0, 0, static_cast<uint8_t>(round), 1};
    neighbors.Set(port_of[moved], GatewayOf(moved), macs[moved]);
    if (round % 5 == 4) {
      group.members.push_back({static_cast<NextHopId>(4 + round), 2});
    }
    Apply(changes, {object}, {group});
    // A neighbour may change without a change of the table.
    const auto silent = static_cast<NextHopId>(1 + random() % kHops);
    macs[silent] = {2, 3, 0, 0, static_cast<uint8_t>(round), 2};
    neighbors.Set(port_of[silent], GatewayOf(silent), macs[silent]);
  }
  EXPECT_GT(forwarded, 5000U);
  EXPECT_GT(members.size(), 3U);
  EXPECT_EQ(pipeline->counts().held(), 0U);
}

// Threads, and a table that changes as fast as it can.
TEST_P(EachForm, FlowsStayInOrderWhileRoutesChange) {
  PipelineOptions options = Options();
  options.rx = {0};
  options.tx = {1};
  options.lpm.back() = 1;
  options.idle_sleep = absl::Microseconds(50);
  Open(options);
  const Prefix prefix = *Prefix::Parse("2001:db8:1::/48");
  // Both of one port.
  Know(3);
  Know(6);
  Apply({{prefix, 3}}, {ObjectOf(3), ObjectOf(6)});
  ASSERT_TRUE(pipeline->Start().ok());
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (NextHopId id = 3; !stop; id = 9 - id) Apply({{prefix, id}});
  });
  const absl::Cleanup end = [&] {
    stop = true;
    writer.join();
  };
  constexpr uint32_t kPackets = 20'000;
  constexpr uint16_t kFlows = 41;  // odd: of each core in turns
  std::map<uint16_t, uint32_t> last;
  std::map<Mac, size_t> macs;
  uint32_t arrived = 0;
  const auto take = [&] {
    for (const Sent& sent : ports->Take()) {
      ASSERT_EQ(sent.port, 0U);
      Mac mac;
      std::memcpy(mac.data(), sent.frame.data(), 6);
      ++macs[mac];
      const auto flow =
          static_cast<uint16_t>(sent.frame[54] << 8 | sent.frame[55]);
      const uint32_t number = NumberOf(sent);
      ASSERT_GT(number, last[flow]) << "flow " << flow;
      last[flow] = number;
      ++arrived;
    }
  };
  for (uint32_t i = 1; i <= kPackets; ++i) {
    const auto flow = static_cast<uint16_t>(i * 7 % kFlows);
    // A part of what a ring holds is under way: nothing is dropped.
    while (i - arrived > 400) {
      take();
      ASSERT_FALSE(HasFatalFailure());
    }
    ASSERT_TRUE(ports->Give(1, MakeFrame({.port = flow, .number = i})));
  }
  // A drain forwards what is there.
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (pipeline->counts().received() < kPackets && absl::Now() < deadline) {
    take();
  }
  pipeline->Stop(absl::Seconds(10));
  take();
  EXPECT_EQ(arrived, kPackets);
  EXPECT_EQ(macs.size(), 2U);
  EXPECT_EQ(macs[MacOf(3)] + macs[MacOf(6)], kPackets);
  const Counts counts = pipeline->counts();
  EXPECT_EQ(counts.held(), 0U);
  EXPECT_EQ(counts.next_hops.at(3) + counts.next_hops.at(6), kPackets);
}

// As if there were something to do for that long, which it counts.
struct Spin {
  void operator()() {
    constexpr uint64_t kTicks = 20'000;
    const uint64_t begin = rte_rdtsc();
    while (rte_rdtsc() - begin < kTicks) rte_pause();
    ticks += kTicks;
  }
  uint64_t ticks = 0;
};

// What LPM asks in each burst.
struct SlowObjects : Objects {
  std::optional<NextHop> Find(NextHopId id) const override {
    return ObjectOf(id);
  }
  uint64_t version() const override {
    spin();
    return 0;
  }
  mutable Spin spin;
};

TEST_P(EachForm, TimedPartsHaveEachPacketAndNoTimeTwice) {
  PipelineOptions options = Options();
  options.icmp_burst = 0;
  options.timed = true;
  Open(options);
  options.ports = ports->ports;
  Know(1);
  SlowObjects lpm;
  Spin reception, lookup, sending;
  rte_eth_add_rx_callback(
      ports->ports[0].device, 0,
      [](uint16_t, uint16_t, rte_mbuf**, uint16_t count, uint16_t, void* spin) {
        if (count > 0) (*static_cast<Spin*>(spin))();
        return count;
      },
      &reception);
  for (uint16_t queue = 0; queue < options.tx_queues(); ++queue) {
    rte_eth_add_tx_callback(
        ports->ports[1].device, queue,
        [](uint16_t, uint16_t, rte_mbuf**, uint16_t count, void* spin) {
          (*static_cast<Spin*>(spin))();
          return count;
        },
        &sending);
  }
  const MakeLookups slow = Direct([&lookup](Burst& burst) {
    lookup();
    burst.next_hops.fill(1);
    return true;
  });
  pipeline = Pipeline::Create(options, slow, lpm, neighbors).value();
  // Bursts of which each packet is sent, as soon as it is, come first.
  for (uint16_t i = 0; i < 115; ++i) {
    const Frame frame =
        MakeFrame({.hops = static_cast<uint8_t>(i < 100 ? 64 : 1), .port = i});
    ASSERT_TRUE(ports->Give(0, i < 110 ? frame : Frame(14)));
  }
  const uint64_t begin = rte_rdtsc();
  PollAll();
  const uint64_t took = rte_rdtsc() - begin;
  const Counts counts = pipeline->counts();
  EXPECT_EQ(counts.received(), 115U);
  EXPECT_EQ(counts.sent(), 100U);
  const std::array<uint64_t, kParts> packets = {115, 100, 110, 100};
  const std::array<uint64_t, kParts> spun = {reception.ticks, lookup.ticks,
                                             lpm.spin.ticks, sending.ticks};
  uint64_t sum = 0;
  for (size_t i = 0; i < kParts; ++i) {
    EXPECT_EQ(counts.parts[i].packets, packets[i]) << i;
    EXPECT_GT(spun[i], 0U) << i;
    EXPECT_GE(counts.parts[i].ticks, spun[i]) << i;
    sum += counts.parts[i].ticks;
  }
  EXPECT_LE(sum, took);
  PollAll();  // finds nothing
  uint64_t later = 0;
  for (const auto& part : pipeline->counts().parts) later += part.ticks;
  EXPECT_EQ(later, sum);

  options.timed = false;
  pipeline = Pipeline::Create(options, slow, lpm, neighbors).value();
  ASSERT_TRUE(ports->Give(0, MakeFrame({})));
  PollAll();
  EXPECT_EQ(pipeline->counts().sent(), 1U);
  for (const Counts::OfPart& part : pipeline->counts().parts) {
    EXPECT_EQ(part.packets + part.ticks, 0U);
  }
}

TEST_F(PipelineTest, CountsEveryDropByItsReason) {
  PipelineOptions options;
  options.icmp_burst = 0;
  Open(options);
  const auto route = [](const char* prefix, NextHopId id) {
    return Route{*Prefix::Parse(prefix), id};
  };
  Know(1);
  NextHop nowhere = ObjectOf(4);
  nowhere.interface = "eth9";
  Apply({route("2001:db8:1::/48", 1), route("2001:db8:2::/48", 2),
         route("2001:db8:3::/48", 3), route("2001:db8:4::/48", 4),
         route("2001:db8:5::/48", 5)},
        {ObjectOf(1), ObjectOf(2), nowhere, {.id = 5, .interface = "eth2"}});
  const auto to = [](const char* destination, uint8_t hops = 64) {
    return MakeFrame({.destination = destination, .hops = hops});
  };
  neighbors.Set(2, *Address::Parse("2001:db8:5::5"), kPeer);
  Frame arp = MakeFrame({});
  arp[12] = 8;
  arp[13] = 6;
  Frame cut = MakeFrame({});
  cut.resize(30);
  const std::vector<std::pair<Frame, Verdict>> frames = {
      {to("2001:db8:1::1"), Verdict::kForward},
      {to("2001:db8:5::5"), Verdict::kForward},  // on link
      {to("2001:db8:5::6"), Verdict::kUnresolved},
      {to("2001:db8:2::1"), Verdict::kUnresolved},
      {to("2001:db8:3::1"), Verdict::kUnknownObject},  // no object
      {to("2001:db8:4::1"), Verdict::kUnknownObject},  // no such port
      {to("2001:db8:6::1"), Verdict::kNoRoute},
      {to("2001:db8:1::1", 1), Verdict::kExpired},
      {to("2001:db8:fffe::2"), Verdict::kLocal},
      {to("2001:db8:fffe::2", 1), Verdict::kLocal},
      {MakeFrame({.bytes = 1460}), Verdict::kForward},
      {MakeFrame({.bytes = 1461}), Verdict::kTooBig},
      {arp, Verdict::kNotIp},
      {cut, Verdict::kTruncated},
  };
  std::map<Verdict, uint64_t> expected;
  for (const auto& [frame, verdict] : frames) {
    ASSERT_TRUE(ports->Give(0, frame));
    if (verdict != Verdict::kForward) ++expected[verdict];
  }
  PollAll();
  for (size_t i = 0; i < kVerdicts; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    EXPECT_EQ(Dropped(verdict), expected[verdict]) << VerdictName(verdict);
  }
  const Counts counts = pipeline->counts();
  EXPECT_EQ(counts.received(), frames.size());
  EXPECT_EQ(counts.sent(), 3U);
  EXPECT_EQ(ports->Take().size(), 3U);
  EXPECT_EQ(counts.next_hops.at(1), 2U);
}

TEST_F(PipelineTest, TellsSourcesByIcmpAtALimitedRate) {
  PipelineOptions options;
  options.icmp_rate = 0;
  options.icmp_burst = 5;
  Open(options);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(ports->Give(2, MakeFrame({.hops = 1})));
    ASSERT_TRUE(ports->Give(
        1, MakeFrame({.source = "192.0.2.1", .destination = "192.0.2.9"})));
  }
  PollAll();
  const std::vector<Sent> sent = ports->Take();
  EXPECT_EQ(sent.size(), 5U);
  for (const Sent& reply : sent) {
    const bool v6 = reply.frame[12] == 0x86;
    EXPECT_EQ(reply.port, v6 ? 2U : 1U);
    EXPECT_EQ(reply.frame[v6 ? 54 : 34], 3);  // expired; unreachable
    EXPECT_EQ(std::memcmp(&reply.frame[0], kPeer.data(), 6), 0);
  }
  EXPECT_EQ(Dropped(Verdict::kExpired), 4U);
  EXPECT_EQ(Dropped(Verdict::kNoRoute), 4U);
  EXPECT_EQ(pipeline->counts().icmp_errors, 5U);
  EXPECT_EQ(pipeline->counts().held(), 0U);
}

// Rings and a port that are full drop, count and leak nothing.
TEST_F(PipelineTest, DropsWhatALaterStageCannotTake) {
  PipelineOptions options;
  options.ring = 16;  // holds 15
  Open(options);
  Know(1);
  Apply({{*Prefix::Parse("2001:db8:1::/48"), 1}}, {ObjectOf(1)});
  uint64_t given = 0;
  for (int i = 0; i < 100; ++i) {
    for (int n = 0; n < 32; ++n) given += ports->Give(0, MakeFrame({})) ? 1 : 0;
    PollAll();
  }
  const Counts counts = pipeline->counts();
  EXPECT_EQ(counts.received(), given);
  EXPECT_EQ(counts.held(), 0U);
  EXPECT_GT(Dropped(Verdict::kQueueFull), 0U);
  EXPECT_GT(Dropped(Verdict::kPortFull), 0U);
  EXPECT_EQ(counts.sent(), RingPorts::kRing - 1);
}

// Held packets cannot take all buffers, nor let later ones of their flow pass.
TEST_F(PipelineTest, HoldsPacketsForANeighborWithinItsCaps) {
  OpenWithSmallHold();
  Apply({{*Prefix::Parse("2001:db8:1::/48"), 1},
         {*Prefix::Parse("2001:db8:2::/48"), 2}},
        {ObjectOf(1), ObjectOf(2)});
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(ports->Give(0, MakeFrame({.number = i})));
  }
  PollAll();
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(ports->Give(0, MakeFrame({.destination = "2001:db8:2::1"})));
  }
  PollAll();
  EXPECT_EQ(pipeline->counts().held(), 6U);
  EXPECT_EQ(Dropped(Verdict::kUnresolved), 4U);
  EXPECT_EQ(pipeline->counts().icmp_errors, 0U);
  EXPECT_EQ(neighbors.TakeWanted().size(), 2U);
  Know(1);
  ASSERT_TRUE(ports->Give(0, MakeFrame({.number = 100})));
  PollAll();
  std::vector<uint32_t> numbers;
  for (const Sent& sent : ports->Take()) {
    EXPECT_EQ(std::memcmp(sent.frame.data(), MacOf(1).data(), 6), 0);
    numbers.push_back(NumberOf(sent));
  }
  EXPECT_EQ(numbers, (std::vector<uint32_t>{0, 1, 2, 3, 100}));
  // The neighbour's end changes its state alone: packets wait again.
  neighbors.Set(1, GatewayOf(1), std::nullopt);
  ASSERT_TRUE(ports->Give(0, MakeFrame({})));
  PollAll();
  EXPECT_EQ(pipeline->counts().held(), 3U);
  EXPECT_EQ(neighbors.TakeWanted().size(), 1U);
}

// As where each address of a link is tried: the first of those that are not
// found give way to another next hop, and no more are asked for.
TEST_F(PipelineTest, UnknownNeighborsOfOneNextHopLeaveRoomForThoseOfOthers) {
  OpenWithSmallHold();
  Apply({{*Prefix::Parse("2001:db8:1::/48"), 1},
         {*Prefix::Parse("2001:db8:5::/48"), 5}},
        {ObjectOf(1), {.id = 5, .interface = "eth2"}});
  const auto give = [&](const std::string& to, uint32_t number = 0) {
    ASSERT_TRUE(
        ports->Give(0, MakeFrame({.destination = to, .number = number})));
  };
  const auto try_from = [&](int first) {
    for (int i = first; i < first + 10; ++i) {
      give(absl::StrCat("2001:db8:5::", i));
    }
    PollAll();
  };
  try_from(10);
  EXPECT_EQ(pipeline->counts().held(), 6U);
  for (uint32_t i = 0; i < 3; ++i) give("2001:db8:1::1", i);
  try_from(20);
  for (uint32_t i = 3; i < 9; ++i) give("2001:db8:1::1", i);
  try_from(30);
  EXPECT_EQ(pipeline->counts().held(), 6U);
  EXPECT_EQ(Dropped(Verdict::kUnresolved), 33U);
  EXPECT_EQ(pipeline->counts().icmp_errors, 0U);
  EXPECT_EQ(neighbors.TakeWanted().size(), 7U);
  Know(1);
  for (const int i : {13, 14, 15}) {  // of which two are held
    neighbors.Set(2, *Address::Parse(absl::StrCat("2001:db8:5::", i)), kPeer);
  }
  PollAll();
  std::vector<uint32_t> numbers;
  size_t others = 0;
  for (const Sent& sent : ports->Take()) {
    if (sent.port == 2) {
      ++others;
      continue;
    }
    numbers.push_back(NumberOf(sent));
  }
  EXPECT_EQ(numbers, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(others, 2U);
  EXPECT_EQ(pipeline->counts().held(), 0U);
}

TEST_F(PipelineTest, TellsSourcesThatANeighborIsNotFound) {
  PipelineOptions options;
  options.hold_neighbor = 4;
  options.hold_seconds = 0.02;
  Open(options);
  Apply({{*Prefix::Parse("2001:db8:1::/48"), 1},
         {*Prefix::Parse("2001:db8:2::/48"), 2}},
        {ObjectOf(1), ObjectOf(2)});
  ASSERT_TRUE(ports->Give(2, MakeFrame({})));
  PollAll();
  absl::SleepFor(absl::Milliseconds(5));  // the second one's wait ends later
  ASSERT_TRUE(ports->Give(2, MakeFrame({.destination = "2001:db8:2::1"})));
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (pipeline->counts().icmp_errors < 2 && absl::Now() < deadline) {
    pipeline->PollOnce();
  }
  PollAll();
  const std::vector<Sent> all = ports->Take();
  ASSERT_EQ(all.size(), 2U);
  for (const Sent& sent : all) {
    EXPECT_EQ(sent.port, 2U);
    EXPECT_EQ(sent.frame[54], 1);  // unreachable
    EXPECT_EQ(sent.frame[55], 3);  // the address
  }
  EXPECT_EQ(Dropped(Verdict::kUnresolved), 2U);
  EXPECT_EQ(pipeline->counts().held(), 0U);
}

// Never answers.
class NoLookups : public Lookups {
 public:
  size_t capacity() const override { return 2; }
  void Start(Burst&) override {}
  Burst* Finished() override { return nullptr; }
};

TEST_F(PipelineTest, EndsWithPacketsThatWaitAndOthersInItsRings) {
  Open();
  PipelineOptions options;
  options.ports = ports->ports;
  pipeline = Pipeline::Create(
                 options, [] { return std::make_unique<NoLookups>(); }, objects,
                 neighbors)
                 .value();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(ports->Give(0, MakeFrame({})));
  for (int i = 0; i < 10; ++i) pipeline->PollOnce();
  EXPECT_EQ(pipeline->counts().held(), 200U);
  pipeline->Stop(absl::ZeroDuration());
}

// Its answers come once `come` says so, after the last poll.
class LateLookups : public Lookups {
 public:
  explicit LateLookups(const bool& come) : come_(come) {}
  void Start(Burst& burst) override { burst_ = &burst; }
  Burst* Finished() override {
    return come_ ? std::exchange(burst_, nullptr) : nullptr;
  }

 private:
  const bool& come_;
  Burst* burst_ = nullptr;
};

// TearDown misses no buffer.
TEST_F(PipelineTest, EndsWithPacketsWhoseAnswersCameMeanwhile) {
  Open();
  PipelineOptions options;
  options.ports = ports->ports;
  bool come = false;
  pipeline = Pipeline::Create(
                 options, [&] { return std::make_unique<LateLookups>(come); },
                 objects, neighbors)
                 .value();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ports->Give(0, MakeFrame({})));
  for (int i = 0; i < 3; ++i) pipeline->PollOnce();
  EXPECT_EQ(pipeline->counts().held(), 20U);
  come = true;
  pipeline.reset();
}

// The pool that the program makes has a buffer for each packet that may wait at
// once: those of a server that stands still, those of unknown neighbours, those
// in the ring before and in the ports. Reception never lacks one.
TEST_F(PipelineTest, ReceivesWhileAServerAndNeighborsKeepAllTheyMay) {
  constexpr size_t kInFlight = 256, kDescriptors = 512;
  constexpr size_t kNeighbors = 512, kOfNeighbor = 16;
  const std::string target = absl::StrCat("unix://", TempPath("stalled.sock"));
  const ServerProcess server({absl::StrCat("--listen=", target), "--store=none",
                              "--metrics_address="});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  v1::UpdateRoutesRequest request;
  request.set_ack(v1::ACK_VISIBLE);
  std::vector<NextHop> hops;
  for (NextHopId id = 1; id <= kPorts; ++id) {
    Know(id);
    hops.push_back(ObjectOf(id));
  }
  const NextHopId on_link = kPorts + 1;
  hops.push_back({.id = on_link, .interface = "eth2"});
  for (const NextHop& hop : hops) {
    *request.add_updates() = client::ToUpdate(
        {*Prefix::Parse(absl::StrCat("2001:db8:", hop.id, "::/48")), hop.id});
  }
  const auto updated =
      client::TableClient(*client::MakeChannel(target)).UpdateRoutes(request);
  ASSERT_TRUE(updated.ok()) << updated.status();
  Apply({}, hops);

  PipelineOptions options;
  options.burst = kMaxBurst;
  options.hold_neighbor = kOfNeighbor;
  options.hold_total = kNeighbors * kOfNeighbor;
  options.hold_seconds = 3600;
  options.ports.resize(kPorts);
  ports = std::make_unique<RingPorts>(kPorts, options.tx_queues(),
                                      options.buffers(kInFlight));
  options.ports = ports->ports;
  pipeline = Pipeline::Create(options,
                              RpcLookups(*client::ChannelsTo(target),
                                         {.in_flight = kInFlight,
                                          .patience = absl::Minutes(5),
                                          .grace = absl::Minutes(5)})
                                  .value(),
                              objects, neighbors)
                 .value();
  const auto poll_until = [&](auto done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!done()) {
      if (absl::Now() > deadline) return false;
      pipeline->PollOnce();
    }
    return true;
  };
  const auto give = [&](const std::string& to, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const Frame frame =
          MakeFrame({.destination = to, .port = static_cast<uint16_t>(i)});
      ASSERT_TRUE(ports->Give(0, frame)) << pipeline->counts().Text();
    }
  };
  const auto place = [](size_t i) {
    return absl::StrCat("2001:db8:4:", absl::Hex(i), "::1");
  };

  // Neighbours that are not found, of which one would get more than its share.
  for (size_t i = 0; i < kNeighbors; ++i) {
    ASSERT_NO_FATAL_FAILURE(give(place(i), kOfNeighbor));
    ASSERT_TRUE(poll_until([&] { return !neighbors.TakeWanted().empty(); }));
  }
  ASSERT_NO_FATAL_FAILURE(give(place(0), 100));
  ASSERT_TRUE(poll_until([&] { return Dropped(Verdict::kUnresolved) == 100; }));
  const size_t held = pipeline->counts().held();
  EXPECT_EQ(held, kNeighbors * kOfNeighbor);
  // Ports that do not send what they took.
  for (NextHopId id = 1; id <= kPorts; ++id) {
    ASSERT_NO_FATAL_FAILURE(
        give(absl::StrCat("2001:db8:", id, "::1"), kDescriptors));
    ASSERT_TRUE(poll_until(
        [&] { return pipeline->counts().sent() == id * kDescriptors; }));
  }
  // The server, and the ring before.
  server.Kill(SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(server.pid(), &status, WUNTRACED), server.pid());
  while (Dropped(Verdict::kQueueFull) == 0) {
    ASSERT_NO_FATAL_FAILURE(give("2001:db8:1::1", kMaxBurst));
    pipeline->PollOnce();
  }
  EXPECT_EQ(pipeline->counts().held(),
            held + kInFlight * kMaxBurst + options.ring - 1);
  // And the ports still receive.
  for (size_t port = 0; port < kPorts; ++port) {
    for (size_t i = 0; i < kDescriptors; ++i) {
      ASSERT_TRUE(ports->Give(port, MakeFrame({}))) << i << " of " << port;
    }
  }

  server.Kill(SIGCONT);
  ASSERT_TRUE(poll_until([&] {
    ports->Discard();
    return ports->IsTaken(0) && ports->IsTaken(1) && ports->IsTaken(2) &&
           pipeline->counts().held() == held;
  })) << pipeline->counts().Text();
  const uint64_t sent = pipeline->counts().sent();
  for (size_t i = 0; i < kNeighbors; ++i) {
    neighbors.Set(2, *Address::Parse(place(i)), kPeer);
    PollAll();
    ports->Discard();
  }
  const Counts counts = pipeline->counts();
  EXPECT_EQ(counts.sent() - sent, held);
  EXPECT_EQ(counts.held(), 0U);
  EXPECT_EQ(Dropped(Verdict::kUnresolved), 100U);
  EXPECT_EQ(Dropped(Verdict::kNoAnswer), 0U);
}

// PLANB_ROUTER_PACKETS: how many. On one thread, and on two beside this one.
class Conserves : public PipelineTest,
                  public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Threads, Conserves, testing::Bool());

// On all paths that packets take, and when a pipeline ends with some.
TEST_P(Conserves, Buffers) {
  const bool threads = GetParam();
  const uint64_t packets = FromEnvironment("PLANB_ROUTER_PACKETS", 200'000);
  PipelineOptions options;
  options.rx = {0, 1};
  options.lpm = {1, 0};
  options.ring = 32;
  options.icmp_rate = 1e9;
  options.icmp_burst = 1e9;
  options.hold_neighbor = 16;
  options.hold_total = 40;
  options.hold_seconds = 0.0005;
  options.idle_sleep = absl::Microseconds(50);
  Open(options);
  options.ports = ports->ports;
  Know(1);
  std::vector<Route> table;
  for (NextHopId id = 1; id <= 5; ++id) {
    table.push_back(
        {*Prefix::Parse(absl::StrCat("2001:db8:", id, "::/48")), id});
  }
  NextHop nowhere = ObjectOf(4);
  nowhere.interface = "eth9";
  Apply(table,
        {ObjectOf(1), ObjectOf(2), nowhere, {.id = 5, .interface = "eth2"}});
  std::vector<Frame> frames;
  for (uint16_t flow = 0; flow < 100; ++flow) {
    // Most are forwarded, or would be.
    for (const char* const to : {"2001:db8:1::1", "2001:db8:2::1"}) {
      frames.push_back(MakeFrame({.destination = to, .port = flow}));
    }
  }
  for (const char* const to :
       {"2001:db8:3::1", "2001:db8:4::1", "2001:db8:5::1", "2001:db8:6::1",
        "2001:db8:fffe::2"}) {
    frames.push_back(MakeFrame({.destination = to}));
  }
  frames.push_back(MakeFrame({.hops = 1}));
  frames.push_back(MakeFrame({.bytes = 1461}));
  frames.push_back(MakeFrame({.padding = 10}));
  for (const size_t bytes : {10, 30}) {
    frames.push_back(MakeFrame({}));
    frames.back().resize(bytes);
  }
  for (const size_t byte : {0, 12, 14, 18}) {
    frames.push_back(MakeFrame({}));
    frames.back()[byte] ^= 0xff;
  }
  std::mt19937 random(1);
  std::array<uint64_t, kVerdicts> dropped = {};
  uint64_t given = 0, received = 0, sent = 0, errors = 0;
  // Beside other work, threads wait for a processor, and more is dropped.
  const auto enough = [&] { return given >= packets && sent > packets / 10; };
  for (uint64_t round = 1; !enough(); ++round) {
    // At times more than rings hold, and more than a port takes.
    for (size_t i = random() % 300; i > 0; --i) {
      const Frame& frame = frames[random() % frames.size()];
      given += ports->Give(random() % kPorts, frame) ? 1 : 0;
    }
    for (size_t i = random() % 20; !threads && i > 0; --i) {
      pipeline->PollOnce();
    }
    if (random() % 8 == 0) ports->Discard();
    if (round % 8 == 0) {
      neighbors.Set(2, GatewayOf(2),
                    round % 16 == 0 ? std::optional(MacOf(2)) : std::nullopt);
    }
    if (round % 64 == 0) {
      Apply({{table[0].prefix, static_cast<NextHopId>(1 + round / 64 % 3)}});
    }
    if (round % 256 != 1 && !enough()) continue;
    // The end, with what it has.
    pipeline->Stop(absl::ZeroDuration());
    const Counts counts = pipeline->counts();
    received += counts.received();
    sent += counts.sent();
    errors += counts.icmp_errors;
    for (size_t i = 0; i < kVerdicts; ++i) dropped[i] += counts.dropped[i];
    pipeline.reset();
    ports->DiscardAll();
    ASSERT_EQ(RingPorts::Missing(), 0U) << "after " << given << " packets";
    pipeline =
        Pipeline::Create(options, LocalLookups(routes), objects, neighbors)
            .value();
    if (threads) {
      ASSERT_TRUE(pipeline->Start().ok());
    }
  }
  std::printf("%lu packets given, %lu received, %lu sent, %lu ICMP errors\n",
              given, received, sent, errors);
  EXPECT_GT(received, packets / 3);
  EXPECT_GT(sent, packets / 10);
  EXPECT_GT(errors, 0U);
  for (const Verdict why :
       {Verdict::kOtherStation, Verdict::kNotIp, Verdict::kLocal,
        Verdict::kTruncated, Verdict::kBadVersion, Verdict::kBadLength,
        Verdict::kExpired, Verdict::kNoRoute, Verdict::kUnknownObject,
        Verdict::kUnresolved, Verdict::kTooBig, Verdict::kQueueFull,
        Verdict::kPortFull}) {
    // Slow threads may leave what comes after them idle.
    if (threads && why == Verdict::kPortFull) continue;
    EXPECT_GT(dropped[static_cast<size_t>(why)], 0U) << VerdictName(why);
  }
}

uint16_t TakeLong(uint16_t, uint16_t, rte_mbuf**, uint16_t count, uint16_t,
                  void*) {
  if (count > 0) absl::SleepFor(absl::Milliseconds(50));
  return count;
}

TEST_F(PipelineTest, StopForwardsABurstThatIsBeingReceived) {
  PipelineOptions options;
  options.lpm = options.tx = {1};
  Open(options);
  Know(1);
  Apply({{*Prefix::Parse("2001:db8:1::/48"), 1}}, {ObjectOf(1)});
  const uint16_t device = ports->ports[0].device;
  const auto* const callback =
      rte_eth_add_rx_callback(device, 0, TakeLong, nullptr);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ports->Give(0, MakeFrame({})));
  ASSERT_TRUE(pipeline->Start().ok());
  while (!ports->IsTaken(0)) {
  }
  pipeline->Stop(absl::Seconds(20));
  rte_eth_remove_rx_callback(device, 0, callback);
  EXPECT_EQ(pipeline->counts().sent(), 20U);
  EXPECT_EQ(pipeline->counts().held(), 0U);
}

// Both kinds of tables that follow a server. It comes back with what it had,
// and its changes are taken again.
TEST_F(PipelineTest, LosesNoPacketWhileTheServerIsKilledAndComesBack) {
  constexpr NextHopId kHops = 20;
  const std::string target = absl::StrCat("unix://", TempPath("router.sock"));
  const std::string store = TempPath("router_store");
  const absl::Cleanup remove = [&] { std::filesystem::remove_all(store); };
  std::unique_ptr<ServerProcess> server;
  const auto start = [&] {
    server = std::make_unique<ServerProcess>(std::vector<std::string>{
        absl::StrCat("--listen=", target), absl::StrCat("--store=", store),
        "--metrics_address="});
    ASSERT_TRUE(server->AwaitServing()) << server->Log();
  };
  start();
  const auto channel = [&] {
    return *client::MakeChannel(target, {.own_connection = true});
  };
  // Each place has the next hop of its number, but the first has `hop`.
  const auto update = [&](NextHopId hop) {
    v1::UpdateRoutesRequest request;
    request.set_ack(v1::ACK_PERSISTED);
    for (NextHopId place = 1; place <= kHops; ++place) {
      *request.add_updates() = client::ToUpdate(
          {*Prefix::Parse(absl::StrCat("2001:db8:", place, "::/48")),
           place == 1 ? hop : place});
    }
    const auto updated = client::TableClient(channel()).UpdateRoutes(request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  };
  std::vector<NextHop> hops;
  for (NextHopId id = 1; id <= kHops; ++id) {
    Know(id);
    hops.push_back(ObjectOf(id));
  }
  Apply({}, hops);
  for (const bool rpc : {false, true}) {
    update(1);
    const auto local = client::LocalTable::Follow(channel());
    ASSERT_TRUE(local.ok()) << local.status();
    PipelineOptions options;
    options.idle_sleep = absl::Microseconds(50);
    Open(options);
    options.ports = ports->ports;
    pipeline = Pipeline::Create(options,
                                rpc ? RpcLookups(*client::ChannelsTo(target),
                                                 {.patience = absl::Seconds(3),
                                                  .grace = absl::Minutes(5)})
                                          .value()
                                    : LocalLookups((*local)->routes()),
                                objects, neighbors)
                   .value();
    ASSERT_TRUE(pipeline->Start().ok());
    uint64_t given = 0, taken = 0, moved = 0;
    // One packet to each place, and each to its next hop; of the first, which
    // changes in the end, to either.
    const auto forward = [&] {
      for (NextHopId place = 1; place <= kHops; ++place) {
        const Frame frame =
            MakeFrame({.destination = absl::StrCat("2001:db8:", place, "::1"),
                       .number = place});
        given += ports->Give(place % kPorts, frame) ? 1 : 0;
      }
      const absl::Time deadline = absl::Now() + absl::Seconds(20);
      while (taken < given && absl::Now() < deadline) {
        for (const Sent& sent : ports->Take()) {
          const NextHopId place = NumberOf(sent);
          const bool other = place == 1 && std::memcmp(&sent.frame[0],
                                                       MacOf(2).data(), 6) == 0;
          moved += other ? 1 : 0;
          if (!other) {
            EXPECT_EQ(std::memcmp(&sent.frame[0], MacOf(place).data(), 6), 0)
                << place;
          }
          ++taken;
        }
      }
      ASSERT_EQ(taken, given) << pipeline->counts().Text();
    };
    const auto forward_for = [&](absl::Duration time) {
      const absl::Time end = absl::Now() + time;
      do {
        forward();
      } while (absl::Now() < end && moved == 0 && !HasFatalFailure());
    };
    forward_for(absl::Milliseconds(100));
    server->Kill(SIGKILL);
    server->Wait();
    forward_for(absl::Seconds(1));  // `rpc` waits for longer, once
    start();
    forward_for(absl::Milliseconds(100));
    EXPECT_EQ(moved, 0U);
    update(2);
    forward_for(absl::Seconds(30));
    EXPECT_EQ(moved, 1U);
    pipeline->Stop(absl::Seconds(20));
    const Counts counts = pipeline->counts();
    EXPECT_EQ(counts.received(), given);
    EXPECT_EQ(counts.sent(), given);
    pipeline.reset();
  }
}

// rte_fib6, which the router is measured with, takes no AVX-512 otherwise.
TEST_F(PipelineTest, MayUseTheWidestVectors) {
  Open();
  EXPECT_EQ(rte_vect_get_max_simd_bitwidth(), RTE_VECT_SIMD_512);
}

TEST_F(PipelineTest, RefusesOptionsThatDoNotFit) {
  Open();
  PipelineOptions options;
  options.ports = ports->ports;
  options.burst = kMaxBurst + 1;
  const auto code = [&] {
    return Pipeline::Create(options, LocalLookups(routes), objects, neighbors)
        .status()
        .code();
  };
  EXPECT_EQ(code(), absl::StatusCode::kInvalidArgument);
  options.burst = 32;
  options.tx = {};
  EXPECT_EQ(code(), absl::StatusCode::kInvalidArgument);
  options.tx = {0};
  for (const size_t ring : std::vector<size_t>{0, 1, 1000, 1 << 21}) {
    options.ring = ring;
    EXPECT_EQ(code(), absl::StatusCode::kInvalidArgument) << ring;
  }
  options.ring = 1024;
  for (const double rate : {-1.0, std::nan("")}) {
    options.icmp_rate = rate;
    EXPECT_EQ(code(), absl::StatusCode::kInvalidArgument) << rate;
  }
  options.icmp_rate = 0;
  EXPECT_EQ(code(), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace planb::router
