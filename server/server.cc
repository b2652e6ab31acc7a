// SPDX-License-Identifier: Apache-2.0

#include "server/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/cpu_list.h"
#include "base/monotonic_time.h"
#include "lpm/io/route_file.h"
#include "lpm/io/route_sink.h"
#include "lpm/synthetic/synthetic.h"
#include "server/base/grpc_time.h"
#include "server/base/log.h"
#include "server/base/periodic.h"
#include "server/base/tls_files.h"
#include "server/control/call_guard.h"
#include "server/control/control_metrics.h"
#include "server/control/stream_slots.h"
#include "server/control/table_service.h"
#include "server/lookup/lookup_context.h"
#include "server/lookup/lookup_service.h"
#include "server/net/acceptor.h"
#include "server/net/listen.h"
#include "server/observe/health_service.h"
#include "server/observe/health_state.h"
#include "server/observe/http_pages.h"
#include "server/observe/http_socket.h"
#include "server/observe/process_metrics.h"
#include "server/observe/reflection_service.h"
#include "server/security/authorized_credentials.h"
#include "server/security/tls.h"
#include "server/table/rebuild_log.h"
#include "server/table/table_metrics.h"
#include "server/table/tables.h"

namespace planb::server {
namespace {

// Logs what could not be used of the file. Errors, which name --routes: those
// of ReadRouteFile; DATA_LOSS for a damaged or cut file, unless
// `options.partial`.
absl::Status ReadRoutes(const InitialTableOptions& options, RouteSink& sink) {
  const absl::StatusOr<RouteFileReport> report =
      ReadRouteFile(options.routes_file,
                    {.allow_empty = options.allow_empty,
                     .path_encoder = EncoderOf(options.path_parts)},
                    sink);
  if (!report.ok()) {
    return {report.status().code(),
            absl::StrCat("--routes: ", report.status().message())};
  }
  for (const RouteFileProblem& problem : report->problems) {
    Log(LogLevel::kWarning, "skipped a part of the route file",
        {{"file", options.routes_file},
         {"offset", problem.offset},
         {"line", problem.line},
         {"problem", problem.message}});
  }
  const std::string problems = ProblemCounts(*report);
  Log(report->whole() ? LogLevel::kInfo : LogLevel::kWarning, "read routes",
      {{"file", options.routes_file},
       {"routes", report->routes},
       {"malformed", report->malformed},
       {"paths_skipped", report->paths_skipped},
       {"routes_lost", report->routes_lost},
       {"ignored", report->ignored},
       {"truncated", report->truncated ? 1 : 0},
       {problems.empty() ? "" : "problems", problems}});
  if (report->whole() || options.partial) return absl::OkStatus();
  const RouteFileProblem& first = report->problems.front();
  return absl::DataLossError(absl::StrCat(
      "--routes: ", PlaceIn(options.routes_file, {first.offset, first.line}),
      ": ", first.message, " (", problems,
      "); --routes_partial starts with the rest"));
}

// The request ids that each table remembers: those that may be on the way when
// connections break, so that a client can repeat them.
size_t RequestIdWindow(const ServerOptions& options) {
  return std::max(options.tables.table.request_id_window,
                  options.control.requests_on_the_way() +
                      static_cast<size_t>(options.transport.max_control_calls));
}

// Applies the initial routes to `table` as its first generation and waits until
// they are visible. A table that was restored from a store keeps its routes,
// and so does one that another server wrote while the initial routes were read.
// Errors: those of ReadRoutes and Table::Apply.
absl::Status LoadInitialTable(const InitialTableOptions& options,
                              Table& table) {
  if (table.state().accepted_generation() > 0) {
    Log(LogLevel::kInfo, "kept the stored table; no initial routes are read");
    return absl::OkStatus();
  }
  UpdateBatch batch;
  if (!options.routes_file.empty()) {
    RouteCollector collector;
    const absl::Status read = ReadRoutes(options, collector);
    if (!read.ok()) return read;
    batch.replacement = collector.TakeRoutes();
    batch.next_hops = collector.TakeNextHops();
    batch.groups = collector.TakeGroups();
  } else if (options.generate_v6 + options.generate_v4 > 0) {
    batch.replacement = SyntheticTable({.ipv6_routes = options.generate_v6,
                                        .ipv4_routes = options.generate_v4,
                                        .seed = options.seed});
  }
  if (!batch.replacement.has_value()) return absl::OkStatus();
  std::sort(batch.replacement->begin(), batch.replacement->end());
  // Reading took long. Others that share the store may have written meanwhile.
  batch.expected_generation = 0;
  const absl::StatusOr<UpdateOutcome> outcome = table.Apply(batch);
  const std::string reason = ErrorReason(outcome.status());
  if (reason == "GENERATION_MISMATCH" || reason == "WRITER_FENCED") {
    Log(LogLevel::kWarning,
        "kept what is stored; the initial routes are not used",
        {{"error", outcome.status().message()}});
    return table.AwaitVisible(table.state().accepted_generation());
  }
  if (!outcome.ok()) return outcome.status();
  return table.AwaitVisible(outcome->generation);
}

// Limits of the health port. The time is for calls that are being answered when
// the port closes.
constexpr absl::Duration kLastProbes = absl::Milliseconds(500);
// A request has only the name of a service.
constexpr int kMaxMessageBytes = 4096;
constexpr size_t kMemoryQuotaBytes = size_t{16} << 20;
// A thread for each Watch call, and some for Check calls.
constexpr int kMaxThreads = HealthService::kMaxWatchers + 16;
constexpr int kMaxConnectionStreams = HealthService::kMaxWatchers;
constexpr int kMaxConnections = 256;
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kMaxIdleMs = 300'000;

// Ends late calls of the server that `builder` makes.
void Guard(CallGuard& guard, grpc::ServerBuilder& builder) {
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(guard.Watch());
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
}

void Bound(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  grpc::ResourceQuota quota("planb_health");
  quota.Resize(kMemoryQuotaBytes);
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kMaxConnectionStreams);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxIdleMs);
}

// A port for probes: the health service in plaintext over TCP. It is a gRPC
// server of its own: lookups and route changes cannot be called there, and it
// answers before the tables are loaded. Serves until it is destroyed.
// Thread-safe.
class HealthListener {
 public:
  // `address` is HOST:PORT; port 0 picks a free one. `state` and `guard`
  // outlive this.
  // Errors: UNAVAILABLE (cannot be bound). REQUIRES: CheckHealthAddress().
  static absl::StatusOr<std::unique_ptr<HealthListener>> Start(
      const std::string& address, const HealthState& state, CallGuard& guard);

  // Ends all calls. If `state` was ended before, watchers are told so.
  ~HealthListener();

  int port() const { return port_; }

 private:
  explicit HealthListener(const HealthState& state);

  HealthService service_;
  Acceptor acceptor_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

absl::StatusOr<std::unique_ptr<HealthListener>> HealthListener::Start(
    const std::string& address, const HealthState& state, CallGuard& guard) {
  std::unique_ptr<HealthListener> listener(new HealthListener(state));
  grpc::ServerBuilder builder;
  const absl::StatusOr<int> port = listener->acceptor_.Listen(
      address, {}, grpc::InsecureServerCredentials(), builder);
  if (!port.ok()) return port.status();
  listener->port_ = *port;
  Bound(builder);
  Guard(guard, builder);
  builder.RegisterService(&listener->service_);
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve health on ", address));
  }
  listener->acceptor_.Start();
  return listener;
}

HealthListener::HealthListener(const HealthState& state)
    : service_(state),
      acceptor_({.limits = {.max_connections = kMaxConnections}}) {}

HealthListener::~HealthListener() {
  acceptor_.Stop();
  if (server_ == nullptr) return;
  server_->Shutdown(GrpcAfter(kLastProbes));
  server_->Wait();
}

absl::Status CheckHealthAddress(const std::string& address) {
  if (!IsUnixAddress(address)) return CheckAddress(address);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", address, "\" is no address for health; expected HOST:PORT"));
}

// Each call has a thread. Some are left for calls that are no streams, however
// many streams there are. Errors: INVALID_ARGUMENT.
absl::Status CheckThreads(const ServerOptions& options) {
  constexpr uint64_t kOthers = 64;  // Watch of Health and reflection included
  static_assert(HealthService::kMaxWatchers + ReflectionService::kMaxCalls <
                kOthers);
  const ControlLimits& control = options.control;
  const auto calls = static_cast<uint64_t>(options.transport.max_control_calls);
  uint64_t needed = kOthers;
  for (const uint64_t limit :
       {control.max_lists, control.max_watchers, control.max_replacements,
        control.max_update_streams, control.max_replicated_calls}) {
    needed += std::min(limit, calls);
  }
  if (needed <= calls) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--max_control_calls must be the sum of --max_lists, "
                   "--max_watchers, --max_replacements, --max_update_streams, "
                   "--max_replicated_calls and ",
                   kOthers, ", or more"));
}

// A copy of the tables may be so old when the process is killed.
constexpr absl::Duration kCachePeriod = absl::Seconds(10);

// Time for calls that arrive while streams drain, and for answers that are
// being written. Without it, a client could lose the answer to an accepted
// update.
constexpr absl::Duration kLastCalls = absl::Milliseconds(500);
constexpr absl::Duration kLastAnswers = absl::Milliseconds(100);

class ServerImpl final : public Server {
 public:
  ServerImpl(ServerOptions options, const Kernel& kernel)
      : options_(WithMetrics(std::move(options), *this)),
        authorizer_(std::make_shared<Authorizer>(options_.authorization)),
        tables_(options_.tables, options_.store.get()),
        lookup_metrics_(std::make_shared<LookupMetrics>()),
        table_metrics_(
            std::make_shared<TableMetrics>(tables_, KernelName(kernel))),
        slow_batches_(options_.slow_batch),
        context_{tables_,          kernel,        options_.lookup,
                 *lookup_metrics_, slow_batches_, TracerOf(options_)},
        lookup_service_(context_),
        control_context_(tables_, kernel, options_.control, control_metrics_,
                         TracerOf(options_), ReloadOf(*this)),
        call_guard_(options_.control.timeouts, control_metrics_),
        table_service_(control_context_),
        acceptor_(
            {.peers = options_.peers,
             .limits = options_.transport.connections,
             .sockets = options_.transport.sockets,
             .unacknowledged_timeout = options_.transport.keepalive_timeout}) {}

  ~ServerImpl() override {
    if (server_ != nullptr) Drain(absl::ZeroDuration());
    health_.End();
  }

  absl::Status Listen() {
    absl::Status status = StartTls();
    if (status.ok()) status = authorizer_->Start();
    // Before the tables are loaded, so that probes are answered meanwhile.
    if (status.ok()) status = ListenHealth();
    if (status.ok()) status = ListenMetrics();
    bool resumed = false;
    if (status.ok() && options_.store != nullptr) {
      status =
          options_.cache == nullptr ? tables_.Restore() : tables_.Restore([&] {
            resumed = true;
            return options_.cache->Load();
          });
    }
    if (status.ok() && !resumed) {
      status = LoadInitialTable(options_.initial, tables_.default_table());
    }
    if (status.ok()) status = ListenGrpc();
    if (status.ok() && options_.cache != nullptr) {
      write_cache_.emplace(kCachePeriod, [this] { WriteCache(); });
    }
    return status;
  }

  int port(size_t i) const override { return ports_[i]; }

  int control_port(size_t i) const override { return control_ports_[i]; }

  int health_port() const override {
    return health_listener_ == nullptr ? 0 : health_listener_->port();
  }

  int metrics_port() const override {
    return exposer_ == nullptr ? 0 : exposer_->port();
  }

  absl::StatusOr<CommitReload> PrepareReload() override {
    std::vector<CommitReload> adoptions;
    absl::Status status;
    const auto add = [&](absl::StatusOr<CommitReload> prepared) {
      status.Update(prepared.status());
      if (prepared.ok()) adoptions.push_back(*std::move(prepared));
    };
    for (TlsReloader* const files : TlsReloaders()) add(files->Prepare());
    if (authorizer_->enabled()) add(authorizer_->Prepare());
    if (!status.ok()) return status;
    return [adoptions = std::move(adoptions)] {
      for (const CommitReload& adopt : adoptions) adopt();
    };
  }

  void Drain(absl::Duration patience) override {
    health_.Drain();
    const SteadyInstant deadline = SteadyAfter(patience);
    tables_.Drain(deadline);
    if (write_cache_.has_value()) {
      write_cache_.reset();
      WriteCache();
    }
    lookup_service_.Drain(deadline);
    table_service_.AwaitIdle(deadline);
    health_.End();
    // Shutdown() refuses new calls. It also waits for clients to close idle
    // connections, so it has a deadline.
    acceptor_.Stop();
    const absl::Duration left = absl::FromChrono(deadline - SteadyNow());
    const auto last = GrpcAfter(std::clamp(left, kLastAnswers, kLastCalls));
    if (control_server_ != nullptr) {
      control_server_->Shutdown(last);
      control_server_->Wait();
    }
    server_->Shutdown(last);
    server_->Wait();
    lookup_service_.Shutdown();
    server_.reset();
    health_listener_.reset();
  }

 private:
  static Tracer* TracerOf(const ServerOptions& options) {
    return options.otlp == nullptr ? nullptr : &options.otlp->tracer();
  }

  static planb::server::Reload ReloadOf(ServerImpl& self) {
    if (self.options_.reload == nullptr) return nullptr;
    return [&self] { return self.options_.reload(self); };
  }

  static ServerOptions WithMetrics(ServerOptions options, ServerImpl& self) {
    options.tables.table.request_id_window = RequestIdWindow(options);
    options.tables.table.events = self.control_metrics_.Events();
    options.tables.table.events.rebuilt = [&self](const RebuildRecord& record) {
      self.rebuilds_.Add(record);
    };
    return options;
  }

  // Of the server's own addresses, of its store and of its collector.
  std::vector<TlsReloader*> TlsReloaders() const {
    std::vector<TlsReloader*> all;
    TableFeed* const feed =
        options_.store == nullptr ? nullptr : options_.store->feed();
    for (TlsReloader* const each :
         {tls_ == nullptr ? nullptr : &tls_->reloader(),
          feed == nullptr ? nullptr : feed->tls(),
          options_.otlp == nullptr ? nullptr : options_.otlp->tls()}) {
      if (each != nullptr) all.push_back(each);
    }
    return all;
  }

  void WriteCache() {
    const absl::Time as_of = absl::Now() - tables_.oldest_contents();
    std::vector<TableCache::Table> tables;
    for (const TableRef& table : tables_.All()) {
      tables.push_back({table->name(), table->store_id(), table->fib_options(),
                        Pinned(*table->Read())});
    }
    const absl::Status written = options_.cache->Write(tables, as_of);
    if (written.ok() == std::exchange(cache_written_, written.ok())) return;
    Log(written.ok() ? LogLevel::kInfo : LogLevel::kError,
        written.ok() ? "the cache is written again"
                     : "the cache cannot be written",
        {{"error", written.message()}});
  }

  absl::Status StartTls() {
    if (!options_.tls.enabled()) return absl::OkStatus();
    auto tls = ServerTls::Start(options_.tls);
    if (!tls.ok()) return tls.status();
    tls_ = *std::move(tls);
    return absl::OkStatus();
  }

  std::shared_ptr<grpc::ServerCredentials> CredentialsFor(
      const std::string& address) {
    if (tls_ == nullptr || IsUnixAddress(address)) {
      return authorizer_->enabled() ? AuthorizedPlaintext(authorizer_, address)
                                    : grpc::InsecureServerCredentials();
    }
    if (authorizer_->enabled()) {
      tls_->credentials()->SetAuthMetadataProcessor(
          TlsAuthorization(authorizer_));
    }
    return tls_->credentials();
  }

  absl::Status ListenHealth() {
    if (options_.health_address.empty()) return absl::OkStatus();
    auto listener =
        HealthListener::Start(options_.health_address, health_, call_guard_);
    if (!listener.ok()) return listener.status();
    health_listener_ = *std::move(listener);
    Log(LogLevel::kInfo, "serving health",
        {{"address", options_.health_address}, {"port", health_port()}});
    return absl::OkStatus();
  }

  // Why the server is not ready although it serves; "" if it is ready.
  std::string WhyNotReady() const {
    const absl::Duration lag = tables_.store_lag();
    if (lag > options_.max_staleness) {
      return absl::StrCat("the store was not heard for ",
                          absl::FormatDuration(lag));
    }
    if (options_.empty_table_ready) return "";
    return tables_.default_table().Read()->routes().size() == 0
               ? "the default table has no visible route"
               : "";
  }

  absl::Status ListenMetrics() {
    if (options_.metrics_address.empty()) return absl::OkStatus();
    auto pages = HttpPages::Start(
        options_.metrics_address,
        {health_, rebuilds_, [this] { return table_service_.Tables(); },
         [this] { return Streams(); },
         [this] { return control_context_.update_log.ByReason(); },
         [this] { return lookup_metrics_->Exemplars(); }});
    if (!pages.ok()) return pages.status();
    exposer_ = *std::move(pages);
    Log(LogLevel::kInfo, "serving metrics",
        {{"address", options_.metrics_address}, {"port", metrics_port()}});
    exposer_->RegisterCollectable(lookup_metrics_);
    exposer_->RegisterCollectable(table_metrics_);
    exposer_->RegisterCollectable(control_metrics_.collectable());
    const std::vector<TlsReloader*> files = TlsReloaders();
    tls_metrics_ = std::make_shared<TlsMetrics>(
        std::vector<const TlsReloader*>(files.begin(), files.end()));
    exposer_->RegisterCollectable(tls_metrics_);
    exposer_->RegisterCollectable(acceptor_.admission().collectable());
    exposer_->RegisterCollectable(process_metrics_);
    exposer_->RegisterCollectable(cache_metrics_);
    exposer_->RegisterCollectable(std::make_shared<OtlpMetrics>(options_.otlp));
    exposer_->RegisterCollectable(authorizer_->collectable());
    return absl::OkStatus();
  }

  std::vector<StreamCount> Streams() {
    const auto count = [](const char* name, StreamSlots& slots) {
      return StreamCount{name, slots.count(), slots.limit()};
    };
    ControlContext& control = control_context_;
    return {
        {"BatchLookup", lookup_service_.streams(), options_.lookup.max_streams},
        count("StreamUpdates", control.update_streams),
        count("updates with ACK_REPLICATED", control.replicated_calls),
        count("replacements and imports", control.replacements),
        count("WatchRoutes", control.watchers),
        count("lists and exports", control.lists)};
  }

  // Builds a server for `addresses`, with all services but lookups, which
  // `builder` may have already. Adds the ports to `ports`.
  absl::Status Build(absl::Span<const std::string> addresses,
                     const grpc::ResourceQuota& quota,
                     grpc::ServerBuilder& builder, std::vector<int>& ports,
                     std::unique_ptr<grpc::Server>& server) {
    for (const std::string& address : addresses) {
      const absl::StatusOr<int> port = acceptor_.Listen(
          address, options_.socket_file, CredentialsFor(address), builder);
      if (!port.ok()) return port.status();
      ports.push_back(*port);
      if (!IsUnixAddress(address) && !options_.peers.AllowAnyone()) {
        Log(LogLevel::kWarning, "peer rules hold for Unix sockets only",
            {{"not_for", address}});
      }
    }
    SetTransport(options_.transport, quota, builder);
    builder.RegisterService(&table_service_);
    builder.RegisterService(&health_service_);
    builder.RegisterService(&reflection_service_);
    Guard(call_guard_, builder);
    server = builder.BuildAndStart();
    return server == nullptr
               ? absl::InternalError("gRPC could not start the server")
               : absl::OkStatus();
  }

  static void LogListening(absl::string_view message,
                           absl::Span<const std::string> addresses,
                           absl::Span<const int> ports) {
    for (size_t i = 0; i < ports.size(); ++i) {
      Log(LogLevel::kInfo, message,
          {{"address", addresses[i]}, {"port", ports[i]}});
    }
  }

  absl::Status ListenGrpc() {
    grpc::ResourceQuota quota("planb");
    SetQuota(options_.transport, quota);
    {
      grpc::ServerBuilder builder;
      lookup_service_.Register(options_.threads, builder);
      const absl::Status built =
          Build(options_.listen, quota, builder, ports_, server_);
      if (!built.ok()) return built;
    }
    if (!options_.control_listen.empty()) {
      // A server of its own, as gRPC shares the connections of one server
      // among all its threads.
      grpc::ServerBuilder builder;
      const absl::Status built = Build(options_.control_listen, quota, builder,
                                       control_ports_, control_server_);
      if (!built.ok()) return built;
    }
    const absl::Status serves = lookup_service_.Start();
    if (!serves.ok()) return serves;
    acceptor_.Start();
    LogListening("listening", options_.listen, ports_);
    LogListening("listening for all but lookups", options_.control_listen,
                 control_ports_);
    health_.Serve([this] { return WhyNotReady(); });
    return absl::OkStatus();
  }

  // The order is that of construction: each member outlives those that use it.
  ControlMetrics control_metrics_;  // used by tables_
  RebuildLog rebuilds_;             // used by tables_
  const ServerOptions options_;
  std::shared_ptr<Authorizer> authorizer_;
  std::unique_ptr<ServerTls> tls_;  // null: plaintext; used by server_
  Tables tables_;
  std::shared_ptr<LookupMetrics> lookup_metrics_;
  std::shared_ptr<TableMetrics> table_metrics_;
  std::shared_ptr<TlsMetrics> tls_metrics_;
  const std::shared_ptr<ProcessMetrics> process_metrics_ =
      std::make_shared<ProcessMetrics>();
  const std::shared_ptr<CacheMetrics> cache_metrics_ =
      std::make_shared<CacheMetrics>(options_.cache);
  SlowBatchLog slow_batches_;
  LookupContext context_;
  LookupService lookup_service_;
  ControlContext control_context_;
  CallGuard call_guard_;  // used by server_ and health_listener_
  TableService table_service_;
  HealthState health_;
  HealthService health_service_{health_};
  ReflectionService reflection_service_;
  std::unique_ptr<HealthListener> health_listener_;
  Acceptor acceptor_;                   // used by exposer_ and server_
  std::unique_ptr<HttpPages> exposer_;  // uses all of the above
  bool cache_written_ = true;           // belongs to WriteCache()
  std::optional<Periodic> write_cache_;
  std::vector<int> ports_;
  std::vector<int> control_ports_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::Server> control_server_;  // null: no such addresses
};

}  // namespace

std::vector<absl::Status> CheckOptions(const ServerOptions& options) {
  std::vector<absl::Status> of_parts;
  const auto add = [&](absl::string_view flag, const absl::Status& status) {
    of_parts.emplace_back(status.code(),
                          absl::StrCat(flag, ": ", status.message()));
  };
  add("--simd", SelectKernel(options.simd).status());
  add("--lookup_cpus", CheckCpus(options.threads.cpus));
  of_parts.push_back(CheckTransport(options.transport));
  of_parts.push_back(CheckThreads(options));
  of_parts.push_back(CheckTls(options.tls));
  of_parts.push_back(ReadPolicy(options.authorization).status());
  if (options.listen.empty()) {
    of_parts.push_back(absl::InvalidArgumentError("--listen needs an address"));
  }
  for (const auto& [flag, addresses] :
       {std::pair("--listen", &options.listen),
        std::pair("--control_listen", &options.control_listen)}) {
    for (const std::string& address : *addresses) {
      add(flag, CheckAddress(address));
    }
    if (!options.tls.enabled() && !options.insecure) {
      add(flag, CheckPlaintext(*addresses));
    }
  }
  if (!options.health_address.empty()) {
    add("--health_address", CheckHealthAddress(options.health_address));
  }
  if (!options.metrics_address.empty()) {
    add("--metrics_address", CheckHttpAddress(options.metrics_address));
  }
  return of_parts;
}

absl::Status CheckInitialTable(const InitialTableOptions& options) {
  if (options.routes_file.empty()) return absl::OkStatus();
  std::error_code error;
  if (std::filesystem::is_fifo(options.routes_file, error) ||
      std::filesystem::is_character_file(options.routes_file, error)) {
    return absl::OkStatus();
  }
  struct Discard : RouteSink {
    absl::Status OnNextHop(const NextHop&) override { return {}; }
    absl::Status OnRoute(const Route&) override { return {}; }
  } discard;
  return ReadRoutes(options, discard);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  for (const absl::Status& status : CheckOptions(options)) {
    if (!status.ok()) return status;
  }
  const Kernel& kernel = **SelectKernel(options.simd);
  auto server = std::make_unique<ServerImpl>(std::move(options), kernel);
  const absl::Status listens = server->Listen();
  if (!listens.ok()) return listens;
  return server;
}

}  // namespace planb::server
