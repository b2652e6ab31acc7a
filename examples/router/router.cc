// SPDX-License-Identifier: Apache-2.0

// A router that forwards by a table of PlanB Lookup: README.md.

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/cpu_list.h"
#include "base/process_setup.h"
#include "base/target.h"
#include "client/channel.h"
#include "client/local_table.h"
#include "client/next_hop_directory.h"
#include "examples/router/dpdk.h"
#include "examples/router/fib.h"
#include "examples/router/kernel.h"
#include "examples/router/next_hops.h"
#include "examples/router/pipeline.h"
#include "examples/router/rival_routes.h"
#include "examples/router/rpc_fib.h"

ABSL_FLAG(std::string, server, "unix:///run/planb/planb.sock",
          "address of the server");
ABSL_FLAG(std::string, table, "default", "name of the table");
ABSL_FLAG(std::string, fib, "local",
          "local: a table in this process that follows the server's; rpc: a "
          "stream of lookups for each LPM core; constant:ID: every packet has "
          "this next hop; dpdk, poptrie, cp-trie, hbs, neurotrie, paper: as "
          "local, with DPDK's FIBs or a scheme that is measured beside");
ABSL_FLAG(uint32_t, in_flight, 32, "rpc: bursts of a core that wait");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(10),
          "rpc: how long the last answers stand while the server is away");
ABSL_FLAG(std::vector<std::string>, interfaces, {},
          "the ports: names of interfaces, as next-hop objects name them");
ABSL_FLAG(std::string, devices, "",
          "DPDK's virtual devices of the ports, with semicolons between them. "
          "Empty: net_af_packet on each interface");
ABSL_FLAG(bool, kernel, true,
          "addresses of this router and neighbours are those of the kernel, "
          "with --interfaces that it has");
ABSL_FLAG(std::vector<std::string>, addresses, {},
          "more addresses of this router, each as INTERFACE=ADDRESS");
ABSL_FLAG(std::vector<std::string>, neighbors, {},
          "neighbours without --kernel, each as INTERFACE=ADDRESS=MAC");
ABSL_FLAG(std::string, rx, "0", "cores of the threads that receive");
ABSL_FLAG(std::string, lpm, "0", "cores of the threads that look up");
ABSL_FLAG(std::string, tx, "0", "cores of the threads that send");
ABSL_FLAG(bool, fused, false, "the threads that look up send; without --tx");
ABSL_FLAG(uint32_t, burst, 32, "most packets that are looked up at once");
ABSL_FLAG(uint32_t, ring, 1024, "packets between two threads, a power of two");
ABSL_FLAG(double, icmp_rate, 100, "ICMP errors a second of each LPM thread");
ABSL_FLAG(absl::Duration, idle_sleep, absl::ZeroDuration(),
          "pause of a thread without packets; 0 polls on");
ABSL_FLAG(absl::Duration, drain, absl::Seconds(1),
          "how long packets are forwarded after SIGTERM");
ABSL_FLAG(absl::Duration, report, absl::InfiniteDuration(),
          "prints the counters each time");
ABSL_FLAG(std::string, health_address, "",
          "address of a health service of gRPC, as probes ask it, that serves "
          "while packets are forwarded; empty: none");
ABSL_FLAG(bool, huge_pages, false, "memory in huge pages");
ABSL_FLAG(int32_t, memory_megabytes, 512, "memory without huge pages");

namespace planb::router {
namespace {

constexpr size_t kHeldOfNeighbor = 16;

// "INTERFACE=REST" to the index of the port and the rest.
absl::StatusOr<std::pair<size_t, std::string>> OfPort(
    const std::string& text, const std::vector<Port>& ports) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].interface == parts.first) return {{i, parts.second}};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" begins with no name of --interfaces and ="));
}

absl::Status ReadAddresses(std::vector<Port>& ports) {
  for (const std::string& text : absl::GetFlag(FLAGS_addresses)) {
    const auto of = OfPort(text, ports);
    if (!of.ok()) return of.status();
    const auto address = Address::Parse(of->second);
    if (!address.ok()) return address.status();
    ports[of->first].addresses.push_back(*address);
  }
  return absl::OkStatus();
}

absl::Status ReadNeighbors(const std::vector<Port>& ports,
                           Neighbors& neighbors) {
  for (const std::string& text : absl::GetFlag(FLAGS_neighbors)) {
    const auto of = OfPort(text, ports);
    if (!of.ok()) return of.status();
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(of->second, absl::MaxSplits('=', 1));
    const auto address = Address::Parse(parts.first);
    if (!address.ok()) return address.status();
    const auto mac = ParseMac(parts.second);
    if (!mac.ok()) return mac.status();
    neighbors.Set(of->first, *address, *mac);
  }
  return absl::OkStatus();
}

absl::StatusOr<PipelineOptions> ReadOptions() {
  PipelineOptions options;
  options.fused = absl::GetFlag(FLAGS_fused);
  for (const auto& [flag, cores] :
       {std::pair(&FLAGS_rx, &options.rx), std::pair(&FLAGS_lpm, &options.lpm),
        std::pair(&FLAGS_tx, &options.tx)}) {
    auto list = ParseCpuList(absl::GetFlag(*flag));
    if (!list.ok()) return list.status();
    absl::Status usable = CheckCpus(*list);
    if (!usable.ok()) return usable;
    *cores = *std::move(list);
  }
  options.burst = absl::GetFlag(FLAGS_burst);
  options.ring = absl::GetFlag(FLAGS_ring);
  options.icmp_rate = absl::GetFlag(FLAGS_icmp_rate);
  options.idle_sleep = absl::GetFlag(FLAGS_idle_sleep);
  return options;
}

// What --fib names.
struct Table {
  std::unique_ptr<client::LocalTable> local;
  std::unique_ptr<RivalTable> rival;
  std::unique_ptr<Objects> objects;  // may use these
  MakeLookups lookups;
  size_t capacity = 1;  // bursts of each core that may wait
};

template <typename Routes>
void UseLocal(const Routes& routes, Table& table) {
  table.objects = std::make_unique<LocalObjects<Routes>>(routes);
  table.lookups = LocalLookups(routes);
}

// REQUIRES: DPDK's environment has started.
absl::StatusOr<Table> OpenTable() {
  const std::string fib = absl::GetFlag(FLAGS_fib);
  const std::string server = absl::GetFlag(FLAGS_server);
  const std::string name = absl::GetFlag(FLAGS_table);
  const auto channel = client::MakeChannel(server);
  if (!channel.ok()) return channel.status();
  Table table;
  if (fib == "local") {
    auto local = client::LocalTable::Follow(*channel, {.table = name});
    if (!local.ok()) return local.status();
    table.local = *std::move(local);
    UseLocal(table.local->routes(), table);
    return table;
  }
  if (IsRival(fib)) {
    auto rival = RivalTable::Follow(*channel, name, fib);
    if (!rival.ok()) return rival.status();
    table.rival = *std::move(rival);
    UseLocal(table.rival->routes(), table);
    return table;
  }
  absl::string_view constant = fib;
  if (fib == "rpc") {
    auto open = client::ChannelsTo(server);
    if (!open.ok()) return open.status();
    table.capacity = absl::GetFlag(FLAGS_in_flight);
    auto lookups =
        RpcLookups(*std::move(open), {.table = name,
                                      .in_flight = table.capacity,
                                      .grace = absl::GetFlag(FLAGS_grace)});
    if (!lookups.ok()) return lookups.status();
    table.lookups = *std::move(lookups);
  } else if (absl::ConsumePrefix(&constant, "constant:")) {
    const auto id = ParseNextHopId(constant);
    if (!id.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(fib, ": no next hop"));
    }
    table.lookups = ConstantLookups(*id);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--fib=", fib, ": not local, rpc, constant:ID, ",
                     absl::StrJoin(RivalKinds(), ", ")));
  }
  auto directory = client::NextHopDirectory::Follow(*channel, {.table = name});
  if (!directory.ok()) return directory.status();
  table.objects = std::make_unique<FollowedObjects>(*std::move(directory));
  return table;
}

// Set by SIGTERM and SIGINT, which end the process at once before it forwards.
absl::Notification stop;
std::atomic<bool> forwarding = false;

// REQUIRES: called before any other thread starts, which then all leave the
// signals to the one of this.
void AwaitSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    sigwait(&signals, &signal);
    if (!forwarding) _exit(0);
    stop.Notify();
  }).detach();
}

// A server of nothing but health: SERVING. Null if there is no
// --health_address.
absl::StatusOr<std::unique_ptr<grpc::Server>> ServeHealth() {
  const std::string address = absl::GetFlag(FLAGS_health_address);
  if (address.empty()) return nullptr;
  grpc::EnableDefaultHealthCheckService(true);
  // Answers that all else is not implemented: with no service but that of
  // health, gRPC starts no server.
  static auto& other = *new grpc::CallbackGenericService;
  int port = 0;
  auto server =
      grpc::ServerBuilder()
          .RegisterCallbackGenericService(&other)
          .AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0)
          .AddListeningPort(address, grpc::InsecureServerCredentials(), &port)
          .BuildAndStart();
  if (server != nullptr && port != 0) return server;
  return absl::UnavailableError(
      absl::StrCat("--health_address=", address, ": cannot listen"));
}

absl::Status Run() {
  if (absl::GetFlag(FLAGS_interfaces).empty()) {
    return absl::InvalidArgumentError("--interfaces names no port");
  }
  if (absl::GetFlag(FLAGS_report) <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--report is more than 0");
  }
  if (const std::string address = absl::GetFlag(FLAGS_health_address);
      !address.empty()) {
    const absl::Status status = CheckTarget("--health_address", address);
    if (!status.ok()) return status;
  }
  auto options = ReadOptions();
  if (!options.ok()) return options.status();
  EnvironmentOptions environment = {
      .huge_pages = absl::GetFlag(FLAGS_huge_pages),
      .megabytes = absl::GetFlag(FLAGS_memory_megabytes),
      .widest_vectors = absl::GetFlag(FLAGS_fib) == "dpdk",
      .devices =
          absl::StrSplit(absl::GetFlag(FLAGS_devices), ';', absl::SkipEmpty())};
  const bool devices_given = !environment.devices.empty();
  for (const std::string& name : absl::GetFlag(FLAGS_interfaces)) {
    for (const Port& port : options->ports) {
      if (port.interface != name) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--interfaces names ", name, " twice"));
    }
    if (!devices_given) {
      environment.devices.push_back(
          absl::StrCat("net_af_packet", options->ports.size(), ",iface=", name,
                       ",qpairs=", options->tx_queues()));
    }
    options->ports.push_back(
        {.interface = name,
         .device = static_cast<uint16_t>(options->ports.size())});
  }
  if (environment.devices.size() != options->ports.size()) {
    return absl::InvalidArgumentError("as many --devices as --interfaces");
  }
  const bool kernel = absl::GetFlag(FLAGS_kernel);
  absl::Status status = ReadAddresses(options->ports);
  Neighbors neighbors;
  status.Update(ReadNeighbors(options->ports, neighbors));
  if (kernel) status.Update(AddKernelAddresses(options->ports));
  if (!status.ok()) return status;
  if (kernel) options->hold_neighbor = kHeldOfNeighbor;
  status = StartEnvironment(environment);
  if (!status.ok()) return status;
  auto table = OpenTable();
  if (!table.ok()) return table.status();
  const auto pool = MakePool(options->buffers(table->capacity));
  if (!pool.ok()) return pool.status();
  for (Port& port : options->ports) {
    // net_af_packet has as many queues of each kind.
    if (!devices_given) port.rx_queues = options->tx_queues();
    status = StartDevice(port.device, port.rx_queues, options->tx_queues(),
                         *pool, port.mac, port.mtu);
    if (!status.ok()) return status;
  }
  std::unique_ptr<KernelNeighbors> followed;
  if (kernel) {
    auto follow = KernelNeighbors::Follow(options->ports, neighbors);
    if (!follow.ok()) return follow.status();
    followed = *std::move(follow);
  }
  const auto pipeline =
      Pipeline::Create(*options, table->lookups, *table->objects, neighbors);
  if (!pipeline.ok()) return pipeline.status();
  status = (*pipeline)->Start();
  if (!status.ok()) return status;
  const auto health = ServeHealth();
  if (!health.ok()) return health.status();
  forwarding = true;
  std::printf("forwarding\n");
  std::fflush(stdout);
  while (!stop.WaitForNotificationWithTimeout(absl::GetFlag(FLAGS_report))) {
    std::printf("%s\n", (*pipeline)->counts().Text().c_str());
    std::fflush(stdout);
  }
  if (*health != nullptr) {
    (*health)->GetHealthCheckService()->SetServingStatus(false);
  }
  (*pipeline)->Stop(absl::GetFlag(FLAGS_drain));
  const Counts counts = (*pipeline)->counts();
  std::printf("%sheld %lu\n", counts.Text().c_str(),
              static_cast<unsigned long>(counts.held()));
  return absl::OkStatus();
}

}  // namespace
}  // namespace planb::router

int main(int argc, char** argv) {
  planb::SetUpProcess();
  absl::SetProgramUsageMessage(
      "router --interfaces=eth0,eth1 [flags]\n"
      "Forwards packets between ports by a table of PlanB Lookup, until "
      "SIGTERM.");
  absl::ParseCommandLine(argc, argv);
  planb::router::AwaitSignals();
  const absl::Status status = planb::router::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "router: %s\n", status.ToString().c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
