// SPDX-License-Identifier: Apache-2.0

// The forwarding rate of the pipeline with one table after the other, in turns:
// the PlanB paper's Figure 7. Packets of 64 bytes go around in a port of one
// ring; what it receives gets the next destination of a trace and a full hop
// limit, which stands for a NIC that wrote both into the cache. Before, the MAC
// address says which next hop the packet went to, which is compared with what
// lpm/synthetic/reference_table.h has for its destination. Or they go around by
// a wire, a veth pair, and get all that at its far end, by the same thread.

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/cpu_list.h"
#include "base/monotonic_time.h"
#include "base/process_setup.h"
#include "base/testing/server_process.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "client/channel.h"
#include "client/local_table.h"
#include "client/table_client.h"
#include "client/whole_table.h"
#include "examples/router/dpdk.h"
#include "examples/router/fib.h"
#include "examples/router/measure_traffic.h"
#include "examples/router/pipeline.h"
#include "examples/router/rival_routes.h"
#include "examples/router/rpc_fib.h"

ABSL_FLAG(std::string, table, "real", "a table of benchmarks/engine/inputs.h");
ABSL_FLAG(std::string, trace, "match", "match, uniform or zipf");
ABSL_FLAG(std::vector<std::string>, fibs,
          std::vector<std::string>({"constant", "local", "dpdk", "paper",
                                    "poptrie", "cp-trie", "hbs", "neurotrie"}),
          "the tables: also rpc");
ABSL_FLAG(std::string, rx, "0", "cores that receive");
ABSL_FLAG(std::string, lpm, "0", "cores that look up");
ABSL_FLAG(std::string, tx, "", "cores that send; without, those of --lpm do");
ABSL_FLAG(uint32_t, burst, 32, "packets looked up at once");
ABSL_FLAG(uint32_t, packets, 512, "packets that go around");
ABSL_FLAG(uint32_t, in_flight, 32, "rpc: bursts of a core in flight");
ABSL_FLAG(
    std::string, server_cpus, "1",
    "cores of the server's lookups. There is a server for rpc, and for "
    "all that follows one: with --changes or --restart, each but constant");
ABSL_FLAG(absl::Duration, server_spin, absl::Microseconds(500),
          "how long these poll for more work before they sleep");
ABSL_FLAG(uint32_t, addresses, planb::router::kMostAddresses,
          "length of the trace");
ABSL_FLAG(uint32_t, changes, 0, "changes of routes a second, in hundreds");
ABSL_FLAG(
    bool, restart, false,
    "a third into a turn the server is killed, and started a second later");
ABSL_FLAG(std::vector<std::string>, wire, {},
          "two interfaces, the router's and the far one: packets go between "
          "them by net_af_packet instead of in a ring");
ABSL_FLAG(bool, stages, false,
          "each turn again, in which the cycles of each stage are counted");
ABSL_FLAG(bool, latency, false,
          "then all again at half the rate of the slowest: its time in the "
          "router, from when a packet should have come");
ABSL_FLAG(uint32_t, repeats, 7, "turns of each table");
ABSL_FLAG(absl::Duration, time, absl::Seconds(1), "length of a turn");

namespace planb::router {
namespace {

// planb_server beside this program, at one core.
class Server {
 public:
  ~Server() {
    process_.reset();
    std::filesystem::remove_all(store_);
  }
  absl::Status Start() {
    process_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        absl::StrCat("--listen=", target),
        absl::StrCat("--store=",
                     absl::GetFlag(FLAGS_restart) ? store_ : "none"),
        absl::StrCat("--lookup_cpus=", absl::GetFlag(FLAGS_server_cpus)),
        absl::StrCat("--lookup_spin=",
                     absl::FormatDuration(absl::GetFlag(FLAGS_server_spin))),
        "--lookup_threads=1", "--metrics_address="});
    return process_->AwaitServing() ? absl::OkStatus()
                                    : absl::InternalError(process_->Log());
  }
  void Kill() {
    process_->Kill(SIGKILL);
    process_->Wait();
  }
  // Returns the generation of the table that now has these routes.
  absl::StatusOr<uint64_t> Load(absl::Span<const Route> routes) const {
    v1::ReplaceRoutesRequest first;
    first.set_ack(v1::ACK_VISIBLE);
    client::RouteReplacer replacer(Channel(), first);
    for (const Route& route : routes) {
      absl::Status added = replacer.Add(route);
      if (!added.ok()) return added;
    }
    const auto loaded = replacer.Finish();
    if (!loaded.ok()) return loaded.status();
    return loaded->generation();
  }
  std::shared_ptr<grpc::Channel> Channel() const {
    return *client::MakeChannel(target, {.own_connection = true});
  }

  const std::string target = absl::StrCat("unix://", TempPath("router.sock"));

 private:
  const std::string store_ = TempPath("router_store");
  std::unique_ptr<ServerProcess> process_;
};

// A table during a turn.
struct Opened {
  MakeLookups lookups;
  std::function<uint64_t()> generation = nullptr;  // of one that follows
  std::shared_ptr<const void> owner = nullptr;
};
using Open = std::function<absl::StatusOr<Opened>()>;

template <typename Followed>
absl::StatusOr<Opened> Follow(
    absl::StatusOr<std::unique_ptr<Followed>> follow) {
  if (!follow.ok()) return follow.status();
  const std::shared_ptr<Followed> table = *std::move(follow);
  const auto& routes = table->routes();
  return Opened{LocalLookups(routes), [&routes] { return routes.generation(); },
                table};
}

struct Turn {
  double mpps = 0, changes = 0, p50 = 0, p99 = 0;
  // Of a packet: those of each Part, and of what stands for its network.
  std::array<double, kParts + 1> cycles = {};
  uint64_t lost = 0, wrong = 0;
};
using Turns = std::map<std::string, std::vector<Turn>>;

class Measurement {
 public:
  Measurement(const Table& table, const Trace& trace, PipelineOptions options)
      : table_(table),
        options_(std::move(options)),
        changes_(absl::GetFlag(FLAGS_changes) / 100),
        answers_(table.routes, trace, changes_),
        traffic_(trace, answers_) {}

  absl::Status Run() {
    const std::vector<std::string> names = absl::GetFlag(FLAGS_fibs);
    const auto has = [&](const char* name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (!answers_.has_all_places()) {
      return absl::InvalidArgumentError("--changes: too many for the trace");
    }
    absl::Status status;
    if (has("rpc") || changes_ > 0 || absl::GetFlag(FLAGS_restart)) {
      status = server_.Start();
      if (!status.ok()) return status;
      const auto loaded = server_.Load(table_.routes);
      if (!loaded.ok()) return loaded.status();
      loaded_ = *loaded;
    }
    EnvironmentOptions environment = {.megabytes = has("dpdk") ? 6144 : 512,
                                      .widest_vectors = true};
    for (const std::string& interface : absl::GetFlag(FLAGS_wire)) {
      environment.devices.push_back(absl::StrCat(
          "net_af_packet", environment.devices.size(), ",iface=", interface));
    }
    status = StartEnvironment(environment);
    if (status.ok()) status = MakePort();
    for (const std::string& name : names) {
      if (!status.ok()) return status;
      auto open = OpenTable(name);
      status = open.status();
      if (open.ok()) fibs_.emplace_back(name, *std::move(open));
    }
    Turns turns, paced, timed;
    if (status.ok()) status = TakeTurns(0, turns, timed);
    if (status.ok() && absl::GetFlag(FLAGS_latency)) {
      double slowest = std::numeric_limits<double>::infinity();
      for (const auto& [name, all] : turns) {
        slowest = std::min(slowest, MedianOf(all, &Turn::mpps));
      }
      status = TakeTurns(2e3 * TicksPerNanosecond() / slowest, paced, timed);
    }
    if (!status.ok()) return status;
    std::printf(
        "table,routes,trace,burst,rx_cores,lpm_cores,tx_cores,changes,restart,"
        "fib,mpps,least,most,ns,to_first,lost,wrong,paced_mpps,p50_us,p99_us,"
        "wire,reception,lookup,lpm,sending,network,timed_mpps\n");
    for (const std::string& name : names) {
      Print(name, turns[name], turns[names[0]], paced[name], timed[name]);
    }
    return status;
  }

 private:
  absl::Status MakePort() {
    const auto pool = MakePool(8191);
    if (!pool.ok()) return pool.status();
    pool_ = *pool;
    Port port = {.interface = "around"};
    absl::Status status;
    if (absl::GetFlag(FLAGS_wire).empty()) {
      ring_ = rte_ring_create("around", 4096, SOCKET_ID_ANY,
                              RING_F_MP_HTS_ENQ | RING_F_SC_DEQ);
      std::vector<rte_ring*> tx(options_.tx_queues(), ring_);
      const int device = rte_eth_from_rings(
          "around", &ring_, 1, tx.data(), static_cast<unsigned>(tx.size()), 0);
      if (device < 0) return absl::InternalError("no port of a ring");
      port.device = static_cast<uint16_t>(device);
    } else {
      traffic_.far = 1;  // the second of the environment's
      status = StartDevice(*traffic_.far, 1, 1, pool_, port.mac, port.mtu);
    }
    status.Update(StartDevice(port.device, 1, options_.tx_queues(), pool_,
                              port.mac, port.mtu));
    port.mac = kStation;
    options_.ports = {port};
    rte_eth_add_rx_callback(port.device, 0, Traffic::Take, &traffic_);
    std::set<NextHopId> hops;
    for (const Route& route : table_.routes) hops.insert(route.next_hop);
    for (NextHopId id = 1; id <= Answers::kHops; ++id) hops.insert(id);
    for (const NextHopId id : hops) {
      neighbors_.Set(0, Around::Gateway(id), Around::MacOf(id));
    }
    return status;
  }

  absl::StatusOr<Open> OpenTable(const std::string& name) {
    const auto always = [](MakeLookups lookups) -> Open {
      return [lookups = std::move(lookups)] { return Opened{lookups}; };
    };
    if (name == "constant") return always(ConstantLookups(1));
    if (name == "rpc") {
      RpcOptions options = {.in_flight = absl::GetFlag(FLAGS_in_flight)};
      // A processor that others use makes no server go away.
      if (!absl::GetFlag(FLAGS_restart)) options.patience = absl::Seconds(10);
      auto lookups = RpcLookups(*client::ChannelsTo(server_.target), options);
      if (!lookups.ok()) return lookups.status();
      return always(*std::move(lookups));
    }
    if (name != "local" && !IsRival(name)) {
      return absl::InvalidArgumentError(absl::StrCat("no table ", name));
    }
    if (changes_ > 0 || absl::GetFlag(FLAGS_restart)) {
      return [this, name] {
        const auto channel = server_.Channel();
        return name == "local"
                   ? Follow(client::LocalTable::Follow(channel))
                   : Follow(RivalTable::Follow(channel, "default", name));
      };
    }
    const GenerationChanges changes = {
        .generation = 1, .reset = true, .routes = table_.routes};
    if (name == "local") {
      absl::Status applied = local_.Apply(changes);
      if (!applied.ok()) return applied;
      return always(LocalLookups(local_));
    }
    rivals_.push_back(std::make_unique<RivalRoutes>(name));
    rivals_.back()->Take(changes);
    absl::Status built = rivals_.back()->Build();
    if (!built.ok()) return built;
    return always(LocalLookups(*rivals_.back()));
  }

  // With an interval: for the latency. Else, with --stages, each also timed.
  absl::Status TakeTurns(double interval, Turns& turns, Turns& timed) {
    for (uint32_t i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) {
      for (const auto& [name, open] : fibs_) {
        for (Turns* const into : {&turns, &timed}) {
          options_.timed = traffic_.timed = into == &timed;
          if (options_.timed && (interval > 0 || !absl::GetFlag(FLAGS_stages)))
            continue;
          Turn turn;
          absl::Status status = TakeTurn(name, open, interval, turn);
          if (!status.ok()) return status;
          (*into)[name].push_back(turn);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status TakeTurn(const std::string& name, const Open& open,
                        double interval, Turn& turn) {
    const absl::Duration time = absl::GetFlag(FLAGS_time);
    const double cycles = CyclesPerTick();
    const auto opened = open();
    if (!opened.ok()) return opened.status();
    absl::Status status = traffic_.Begin(
        pool_, absl::GetFlag(FLAGS_packets), interval, [&]() -> uint64_t {
          return opened->generation ? opened->generation() - loaded_
                                    : answers_.visible.load();
        });
    if (!status.ok()) return status;
    const auto pipeline =
        Pipeline::Create(options_, opened->lookups, objects_, neighbors_);
    if (!pipeline.ok()) return pipeline.status();
    status = (*pipeline)->Start();
    if (!status.ok()) return status;
    std::atomic<bool> stop = false;
    absl::Status changed;
    std::thread writer([&] { changed = ChangeRoutes(stop); });
    absl::SleepFor(time / 5);  // caches fill
    traffic_.sampling = true;
    const uint64_t sent = (*pipeline)->counts().sent();
    const uint64_t visible = answers_.visible;
    const SteadyInstant begin = SteadyNow();
    if (absl::GetFlag(FLAGS_restart)) {
      absl::SleepFor(time / 3);
      server_.Kill();
      absl::SleepFor(absl::Seconds(1));
      status = server_.Start();
    }
    absl::SleepFor(time - ElapsedSince(begin));
    const double us = absl::ToDoubleMicroseconds(ElapsedSince(begin));
    turn.mpps = static_cast<double>((*pipeline)->counts().sent() - sent) / us;
    turn.changes =
        1e6 / us * static_cast<double>((answers_.visible - visible) * changes_);
    traffic_.sampling = false;
    stop = true;
    writer.join();
    status.Update(changed);
    traffic_.ending = true;
    for (int i = 0; traffic_.around > 0 && i < 2000; ++i) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    (*pipeline)->Stop(absl::Seconds(1));
    traffic_.End(ring_);
    const Counts counts = (*pipeline)->counts();
    turn.lost = traffic_.given - traffic_.checked;
    if (turn.lost > 0) {
      std::fprintf(stderr, "%s: given %lu, came back %lu\n%s", name.c_str(),
                   traffic_.given, traffic_.checked, counts.Text().c_str());
    }
    if (ring_ != nullptr && traffic_.checked != counts.sent()) {
      status.Update(absl::InternalError("packets went by unchecked"));
    }
    turn.wrong = traffic_.wrong;
    if (options_.timed) turn.cycles = CyclesOf(counts, cycles);
    const Percentiles took = PercentilesOf(std::move(traffic_.microseconds));
    turn.p50 = took.median;
    turn.p99 = took.p99;
    return status;
  }

  // Of a packet, with so many cycles in a tick.
  std::array<double, kParts + 1> CyclesOf(const Counts& counts,
                                          double cycles) const {
    std::array<double, kParts + 1> all = {};
    const auto of = [&](uint64_t ticks, uint64_t packets) {
      return cycles * static_cast<double>(ticks) / static_cast<double>(packets);
    };
    for (size_t i = 0; i < kParts; ++i) {
      all[i] = of(counts.parts[i].ticks, counts.parts[i].packets);
    }
    // Which reception called.
    all[kParts] = of(traffic_.ticks, counts.received());
    all[static_cast<size_t>(Part::kReception)] -= all[kParts];
    return all;
  }

  // A hundred batches a second.
  absl::Status ChangeRoutes(const std::atomic<bool>& stop) {
    const client::TableClient table(server_.Channel());
    const SteadyInstant begin = SteadyNow();
    for (int64_t batch = 0; changes_ > 0 && !stop; ++batch) {
      absl::SleepFor(batch * absl::Milliseconds(10) - ElapsedSince(begin));
      const auto updated = table.UpdateRoutes(answers_.NextBatch());
      if (!updated.ok()) return updated.status();
      if (updated->generation() != loaded_ + answers_.sent) {
        return absl::InternalError("a batch is not one generation");
      }
      answers_.visible = answers_.sent.load();
    }
    return absl::OkStatus();
  }

  static double MedianOf(const std::vector<Turn>& turns, double Turn::*what) {
    std::vector<double> all;
    for (const Turn& turn : turns) all.push_back(turn.*what);
    return Median(all);
  }

  // `first`: the turns of the first table. A turn is compared with the one of
  // the first table beside it, as the machine's speed changes with time.
  void Print(const std::string& name, std::vector<Turn> turns,
             const std::vector<Turn>& first, const std::vector<Turn>& paced,
             const std::vector<Turn>& timed) const {
    std::vector<double> to_first;
    for (size_t i = 0; i < turns.size(); ++i) {
      to_first.push_back(turns[i].mpps / first[i].mpps);
    }
    const double median = MedianOf(turns, &Turn::mpps);
    const auto [least, most] = std::minmax_element(
        turns.begin(), turns.end(),
        [](const Turn& a, const Turn& b) { return a.mpps < b.mpps; });
    std::printf(
        "%s,%zu,%s,%zu,%s,%s,%s,%.0f,%d,%s,%.3f,%.3f,%.3f,%.1f,%.3f,",
        table_.name.c_str(), table_.routes.size(),
        absl::GetFlag(FLAGS_trace).c_str(), options_.burst,
        absl::GetFlag(FLAGS_rx).c_str(), absl::GetFlag(FLAGS_lpm).c_str(),
        absl::GetFlag(FLAGS_tx).c_str(), MedianOf(turns, &Turn::changes),
        absl::GetFlag(FLAGS_restart) ? 1 : 0, name.c_str(), median, least->mpps,
        most->mpps, 1e3 / median, Median(to_first));
    turns.insert(turns.end(), paced.begin(), paced.end());
    turns.insert(turns.end(), timed.begin(), timed.end());
    uint64_t lost = 0, wrong = 0;
    for (const Turn& turn : turns) {
      lost += turn.lost;
      wrong += turn.wrong;
    }
    std::printf("%lu,%lu,", lost, wrong);
    if (paced.empty()) {
      std::printf(",,");
    } else {
      std::printf("%.3f,%.1f,%.1f", MedianOf(paced, &Turn::mpps),
                  MedianOf(paced, &Turn::p50), MedianOf(paced, &Turn::p99));
    }
    std::printf(",%d,", ring_ == nullptr ? 1 : 0);
    if (timed.empty()) {
      std::printf(",,,,,\n");
      return;
    }
    for (size_t part = 0; part <= kParts; ++part) {
      std::vector<double> all;
      for (const Turn& turn : timed) all.push_back(turn.cycles[part]);
      std::printf("%.1f,", Median(all));
    }
    std::printf("%.3f\n", MedianOf(timed, &Turn::mpps));
  }

  const Table& table_;
  PipelineOptions options_;
  const size_t changes_;  // of a batch
  Answers answers_;
  Traffic traffic_;
  rte_ring* ring_ = nullptr;
  rte_mempool* pool_ = nullptr;
  Around objects_;
  Neighbors neighbors_;
  Server server_;
  uint64_t loaded_ = 0;  // the server's generation before changes
  client::LocalRoutes local_;
  std::vector<std::unique_ptr<RivalRoutes>> rivals_;
  std::vector<std::pair<std::string, Open>> fibs_;
};

absl::Status Measure() {
  const auto rx = ParseCpuList(absl::GetFlag(FLAGS_rx));
  const auto lpm = ParseCpuList(absl::GetFlag(FLAGS_lpm));
  const std::string tx_flag = absl::GetFlag(FLAGS_tx);
  const auto tx = tx_flag.empty() ? std::vector<int>() : ParseCpuList(tx_flag);
  absl::Status status;
  for (const auto* const cpus : {&rx, &lpm, &tx}) {
    status.Update(cpus->ok() ? CheckCpus(**cpus) : cpus->status());
  }
  if (!status.ok()) return status;
  const uint32_t packets = absl::GetFlag(FLAGS_packets);
  const uint32_t addresses = absl::GetFlag(FLAGS_addresses);
  if (absl::GetFlag(FLAGS_repeats) == 0 || addresses == 0 ||
      addresses > kMostAddresses || packets == 0 || packets > 4000) {
    return absl::InvalidArgumentError(
        "--repeats, --addresses up to 1048576, --packets up to 4000: not 0");
  }
  if (absl::GetFlag(FLAGS_changes) > 0 &&
      (absl::GetFlag(FLAGS_restart) || absl::GetFlag(FLAGS_latency))) {
    return absl::InvalidArgumentError("--changes without others");
  }
  const size_t ends = absl::GetFlag(FLAGS_wire).size();
  if (ends != 0 && (ends != 2 || lpm->size() != 1 || packets > 500)) {
    return absl::InvalidArgumentError(
        "--wire: two interfaces, for one core of --lpm and up to 500 packets, "
        "which their sockets have room for");
  }
  const auto table = MakeTable(absl::GetFlag(FLAGS_table));
  if (!table.ok()) return table.status();
  const auto kind = ParseTraceKind(absl::GetFlag(FLAGS_trace));
  if (!kind.ok()) return kind.status();
  const auto trace = MakeTrace(*kind, Family::kIpv6, table->routes, addresses);
  if (!trace.ok()) return trace.status();
  Measurement measurement(*table, *trace,
                          {.rx = *rx,
                           .lpm = *lpm,
                           .tx = *tx,
                           .fused = tx->empty(),
                           .burst = absl::GetFlag(FLAGS_burst),
                           .ring = std::bit_ceil(packets + 1)});
  return measurement.Run();
}

}  // namespace
}  // namespace planb::router

int main(int argc, char** argv) {
  planb::SetUpProcess();
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = planb::router::Measure();
  if (status.ok()) return 0;
  std::fprintf(stderr, "measure: %s\n", status.ToString().c_str());
  return 1;
}
