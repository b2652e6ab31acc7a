// SPDX-License-Identifier: Apache-2.0

// The forwarding rate of the pipeline with one table after the other, in turns:
// the PlanB paper's Figure 7. Packets of 64 bytes go around in a port of one
// ring; what it receives gets the next destination of a trace and a full hop
// limit, which stands for a NIC that wrote both into the cache.

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/cpu_list.h"
#include "base/monotonic_time.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "client/channel.h"
#include "client/local_table.h"
#include "client/whole_table.h"
#include "examples/router/dpdk.h"
#include "examples/router/fib.h"
#include "examples/router/pipeline.h"
#include "examples/router/rival_routes.h"
#include "examples/router/rpc_fib.h"
#include "examples/router/testing/frames.h"

ABSL_FLAG(std::string, table, "real", "a table of benchmarks/engine/inputs.h");
ABSL_FLAG(std::string, trace, "match", "match, uniform or zipf");
ABSL_FLAG(std::vector<std::string>, fibs,
          std::vector<std::string>({"constant", "local", "dpdk", "paper",
                                    "poptrie", "cp-trie", "hbs", "neurotrie"}),
          "the tables: also rpc");
ABSL_FLAG(std::string, server, "",
          "rpc: a server whose table is replaced by this one");
ABSL_FLAG(std::string, rx, "0", "cores that receive");
ABSL_FLAG(std::string, lpm, "0", "cores that look up and send");
ABSL_FLAG(uint32_t, burst, 32, "packets looked up at once");
ABSL_FLAG(uint32_t, packets, 512, "packets that go around");
ABSL_FLAG(uint32_t, in_flight, 16, "rpc: bursts of a core in flight");
ABSL_FLAG(uint32_t, repeats, 7, "turns of each table");
ABSL_FLAG(absl::Duration, time, absl::Seconds(1), "length of a turn");

namespace planb::router {
namespace {

constexpr size_t kTraceAddresses = 1 << 20;

// Every next hop is the port itself.
class Around : public Objects {
 public:
  static Address Gateway() { return *Address::Parse("2001:db8::1"); }
  std::optional<NextHop> Find(NextHopId id) const override {
    return NextHop{.id = id, .gateway = Gateway(), .interface = "around"};
  }
  uint64_t version() const override { return 0; }
};

struct Feed {
  const Trace* trace;
  size_t next = 0;
};

uint16_t Renew(uint16_t, uint16_t, rte_mbuf** packets, uint16_t count, uint16_t,
               void* user) {
  auto* const feed = static_cast<Feed*>(user);
  for (uint16_t i = 0; i < count; ++i) {
    auto* const ip = rte_pktmbuf_mtod(packets[i], uint8_t*) + kEthernetBytes;
    std::memcpy(ip + 24, feed->trace->at(feed->next), 16);
    ip[7] = 64;
    feed->next = (feed->next + 1) % kTraceAddresses;
  }
  return count;
}

absl::Status Load(absl::Span<const Route> routes, const std::string& server) {
  const auto channel = client::MakeChannel(server);
  if (!channel.ok()) return channel.status();
  client::RouteReplacer replacer(*channel);
  for (const Route& route : routes) {
    absl::Status added = replacer.Add(route);
    if (!added.ok()) return added;
  }
  return replacer.Finish().status();
}

absl::Status Measure() {
  const auto rx = ParseCpuList(absl::GetFlag(FLAGS_rx));
  const auto lpm = ParseCpuList(absl::GetFlag(FLAGS_lpm));
  if (!rx.ok() || !lpm.ok()) return rx.ok() ? lpm.status() : rx.status();
  absl::Status status = CheckCpus(*rx);
  status.Update(CheckCpus(*lpm));
  if (!status.ok()) return status;
  if (absl::GetFlag(FLAGS_repeats) == 0) {
    return absl::InvalidArgumentError("--repeats=0 measures nothing");
  }
  const auto table = MakeTable(absl::GetFlag(FLAGS_table));
  if (!table.ok()) return table.status();
  const auto kind = ParseTraceKind(absl::GetFlag(FLAGS_trace));
  if (!kind.ok()) return kind.status();
  const auto trace =
      MakeTrace(*kind, Family::kIpv6, table->routes, kTraceAddresses);
  if (!trace.ok()) return trace.status();
  PipelineOptions options = {.rx = *rx,
                             .lpm = *lpm,
                             .fused = true,
                             .burst = absl::GetFlag(FLAGS_burst)};

  status = StartEnvironment({.megabytes = 6144, .widest_vectors = true});
  if (!status.ok()) return status;
  const auto pool = MakePool(4095);
  if (!pool.ok()) return pool.status();
  // Each core that looks up sends.
  rte_ring* ring = rte_ring_create("around", 4096, SOCKET_ID_ANY,
                                   RING_F_MP_HTS_ENQ | RING_F_SC_DEQ);
  std::vector<rte_ring*> tx(lpm->size(), ring);
  const int device = rte_eth_from_rings("around", &ring, 1, tx.data(),
                                        static_cast<unsigned>(tx.size()), 0);
  if (device < 0) return absl::InternalError("no port of a ring");
  options.ports = {
      {.interface = "around", .device = static_cast<uint16_t>(device)}};
  Port& port = options.ports[0];
  status = StartDevice(port.device, 1, options.tx_queues(), *pool, port.mac,
                       port.mtu);
  if (!status.ok()) return status;
  port.mac = kStation;
  Feed feed = {&*trace};
  rte_eth_add_rx_callback(port.device, 0, Renew, &feed);
  Around objects;
  Neighbors neighbors;
  neighbors.Set(0, Around::Gateway(), kStation);

  const GenerationChanges changes = {
      .generation = 1, .reset = true, .routes = table->routes};
  client::LocalRoutes local;
  std::map<std::string, std::unique_ptr<RivalRoutes>> rivals;
  std::vector<std::pair<std::string, MakeLookups>> fibs;
  for (const std::string& name : absl::GetFlag(FLAGS_fibs)) {
    if (name == "constant") {
      fibs.emplace_back(name, ConstantLookups(1));
    } else if (name == "local") {
      status = local.Apply(changes);
      fibs.emplace_back(name, LocalLookups(local));
    } else if (name == "rpc") {
      const std::string target = absl::GetFlag(FLAGS_server);
      status = Load(table->routes, target);
      if (!status.ok()) return status;
      auto lookups = RpcLookups(*client::ChannelsTo(target),
                                {.in_flight = absl::GetFlag(FLAGS_in_flight),
                                 .patience = absl::Seconds(10)});
      if (!lookups.ok()) return lookups.status();
      fibs.emplace_back(name, *std::move(lookups));
    } else if (IsRival(name)) {
      auto& rival = rivals[name] = std::make_unique<RivalRoutes>(name);
      rival->Take(changes);
      status = rival->Build();
      fibs.emplace_back(name, LocalLookups(*rival));
    } else {
      status = absl::InvalidArgumentError(absl::StrCat("no table ", name));
    }
    if (!status.ok()) return status;
  }

  std::map<std::string, std::vector<double>> rates;
  for (uint32_t turn = 0; turn < absl::GetFlag(FLAGS_repeats); ++turn) {
    for (const auto& [name, lookups] : fibs) {
      FrameOptions frame_options = {.bytes = 6};  // 64 with the checksum
      for (uint32_t i = rte_ring_count(ring); i < absl::GetFlag(FLAGS_packets);
           ++i) {
        // Of many flows, for the cores.
        frame_options.source = absl::StrCat("2001:db8::", absl::Hex(i + 1));
        const Frame frame = MakeFrame(frame_options);
        rte_mbuf* const packet = rte_pktmbuf_alloc(*pool);
        if (packet == nullptr) return absl::InternalError("no buffer");
        std::memcpy(
            rte_pktmbuf_append(packet, static_cast<uint16_t>(frame.size())),
            frame.data(), frame.size());
        rte_ring_enqueue(ring, packet);
      }
      const auto pipeline =
          Pipeline::Create(options, lookups, objects, neighbors);
      if (!pipeline.ok()) return pipeline.status();
      status = (*pipeline)->Start();
      if (!status.ok()) return status;
      absl::SleepFor(absl::GetFlag(FLAGS_time) / 5);  // caches fill
      const uint64_t before = (*pipeline)->counts().sent();
      const SteadyInstant begin = SteadyNow();
      absl::SleepFor(absl::GetFlag(FLAGS_time));
      const uint64_t sent = (*pipeline)->counts().sent() - before;
      rates[name].push_back(static_cast<double>(sent) /
                            absl::ToDoubleMicroseconds(ElapsedSince(begin)));
      (*pipeline)->Stop(absl::Seconds(1));
      const Counts counts = (*pipeline)->counts();
      if (counts.sent() != counts.received()) {
        std::fprintf(stderr, "%s lost packets:\n%s", name.c_str(),
                     counts.Text().c_str());
      }
    }
  }
  std::printf("table,routes,trace,burst,rx,lpm,fib,mpps,least,most,ns\n");
  for (auto& [name, lookups] : fibs) {
    const std::vector<double>& all = rates[name];
    const double median = Median(all);
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    std::printf(
        "%s,%zu,%s,%zu,%s,%s,%s,%.2f,%.2f,%.2f,%.1f\n", table->name.c_str(),
        table->routes.size(), absl::GetFlag(FLAGS_trace).c_str(), options.burst,
        absl::GetFlag(FLAGS_rx).c_str(), absl::GetFlag(FLAGS_lpm).c_str(),
        name.c_str(), median, *least, *most, 1e3 / median);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace planb::router

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = planb::router::Measure();
  if (status.ok()) return 0;
  std::fprintf(stderr, "measure: %s\n", status.ToString().c_str());
  return 1;
}
