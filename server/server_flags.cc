// SPDX-License-Identifier: Apache-2.0

#include "server/server_flags.h"

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/cpu_list.h"
#include "server/base/tls_files.h"
#include "server/config.h"
#include "server/observe/process_metrics.h"

PLANB_TOPIC(config, "The file of flags, and its check");

PLANB_UNSET_FLAG(std::string, config, "",
                 "YAML file with values of flags, by name: see \"config "
                 "print\". Variables such as PLANB_MAX_ROUTES override it, and "
                 "the command line overrides these.");
PLANB_OFTEN_USED(config, "=FILE", "YAML file with values of flags");
PLANB_FLAG(check_config, check_config,
           "Only check the flags, with those of --config and the environment.");

PLANB_TOPIC(addresses, "Addresses, and files of sockets");

PLANB_FLAG(listen, server.listen,
           "Where to serve gRPC, comma separated: unix:///PATH or HOST:PORT "
           "([::]:PORT for all addresses of both families). Prefer the Unix "
           "socket for callers on this host.");
PLANB_OFTEN_USED(listen, "=ADDRESS,...",
                 "where to serve gRPC: unix:///PATH or HOST:PORT");
PLANB_FLAG(control_listen, server.control_listen,
           "Further addresses, in the form of --listen, which serve all but "
           "lookups. Threads of their own read these connections: there, large "
           "updates delay no lookup.");
PLANB_FLAG(health_address, server.health_address,
           "Where to serve grpc.health.v1.Health in plaintext and nothing "
           "else, HOST:PORT, for probes. It is served before tables are loaded "
           "and while the server drains. Empty: nowhere.");
PLANB_FLAG(metrics_address, server.metrics_address,
           "Where to serve /metrics, /healthz, /readyz and /statusz over HTTP, "
           "IPv4:PORT or [IPv6]:PORT; empty: nowhere.");
PLANB_OFTEN_USED(metrics_address, "=ADDRESS",
                 "where to serve /metrics and pages");
PLANB_UNSET_FLAG(
    std::string, unix_socket_mode,
    absl::StrFormat("%#o",
                    planb::server::CommandLine().server.socket_file.mode),
    "Mode of the Unix sockets' files, octal. Users with the right to write may "
    "connect.");
PLANB_UNSET_FLAG(std::string, unix_socket_owner, "",
                 "Owner of the Unix sockets' files, UID[:GID] in numbers; "
                 "empty: the user and group of the server.");

PLANB_TOPIC(start, "Tables at the start");

PLANB_FLAG(routes, server.initial.routes_file,
           "File with the initial routes: text (\"planbctl help load\"), an "
           "MRT table dump or a snapshot, plain or compressed. A file that "
           "gives no route is refused. Empty: start with an empty table (or "
           "see --generate). Not read if the store has a table.");
PLANB_OFTEN_USED(routes, "=FILE", "routes of the first start");
PLANB_FLAG(routes_partial, server.initial.partial,
           "Start also with a damaged or cut file of --routes: with the routes "
           "that can be read. What cannot is counted in the log.");
PLANB_FLAG(routes_attributes, server.initial.path_parts,
           "What of a path in an MRT table dump of --routes makes its next "
           "hop beside the gateway: gateway (nothing), origin (the AS that "
           "the route comes from) or full (AS path, communities, LOCAL_PREF "
           "and MED).");
PLANB_FLAG(allow_empty, server.initial.allow_empty,
           "Start also with a file of --routes that has nothing in it: with an "
           "empty table.");
PLANB_FLAG(generate, server.initial.generate_v6,
           "Instead of --routes, start with a synthetic table of so many IPv6 "
           "routes, distributed like those of the Internet.");
PLANB_OFTEN_USED(generate, "=N", "or so many made-up IPv6 routes");
PLANB_FLAG(generate_ipv4, server.initial.generate_v4,
           "Instead of --routes, start with a synthetic table of so many IPv4 "
           "routes, together with those of --generate.");
PLANB_FLAG(
    generate_seed, server.initial.seed,
    "For --generate and --generate_ipv4: the same seed makes the same table.");
PLANB_FLAG(prefix_lengths, server.tables.default_fib.prefix_lengths,
           "Whether the default table keeps the length of the prefix behind "
           "each answer: lookups that want it are then as quick as others, in "
           "batches of any size. Its FIB takes half as much memory again, and "
           "its lookups are up to a third slower. Other tables: CreateTable.");
PLANB_FLAG(empty_table_ready, server.empty_table_ready,
           "Whether the server is ready while the default table has no visible "
           "route. Leave it true where routes are sent only to ready servers.");

PLANB_TOPIC(store, "Store, and other servers");

PLANB_FLAG(
    store, store.store,
    "SQLite database that keeps tables across restarts, created if it is "
    "missing; etcd://HOST:PORT[,HOST:PORT...]/PREFIX: keys in etcd, which all "
    "servers with this value share; none: tables are lost; auto: planb.db in "
    "/var/lib/planb if that directory exists, else none.");
PLANB_OFTEN_USED(store, "=STORE",
                 "what keeps tables: FILE, etcd://..., none or auto");
PLANB_FLAG(store_sync, store.store_sync,
           "What the store survives. full: power loss. normal: the end of the "
           "process; power loss takes the last commits. off: the end of the "
           "process. With normal and off no update counts as persisted.");
PLANB_FLAG(etcd_user, store.etcd_user, "User of etcd; empty: none.");
PLANB_FLAG(etcd_password_file, store.etcd_password_file,
           "File with the password of --etcd_user.");
PLANB_FLAG(etcd_ca, store.etcd_tls.ca.path,
           "Speak TLS with etcd, whose certificate one of these authorities "
           "signed, in PEM.");
PLANB_FLAG(etcd_cert, store.etcd_tls.cert.path,
           "The client's certificate for etcd, in PEM.");
PLANB_FLAG(etcd_key, store.etcd_tls.key.path,
           "Private key of --etcd_cert, in PEM.");
PLANB_FLAG(
    follow, store.follow,
    "Follow the tables of this server, HOST:PORT or unix:PATH, with the same "
    "generations, instead of having a store. Updates are refused here.");
PLANB_OFTEN_USED(follow, "=ADDRESS", "have the tables of this server instead");
PLANB_FLAG(follow_ca, store.follow_tls.ca.path,
           "Speak TLS with the server of --follow, whose certificate one of "
           "these authorities (PEM) has signed.");
PLANB_FLAG(follow_cert, store.follow_tls.cert.path,
           "The client's certificate for --follow, in PEM.");
PLANB_FLAG(follow_key, store.follow_tls.key.path,
           "Private key of --follow_cert, in PEM.");
PLANB_FLAG(replica_name, store.replica_name,
           "With a store in etcd: the name of this server among those that "
           "share it; empty means the host's name.");
PLANB_FLAG(max_staleness, server.max_staleness,
           "With --follow or a store in etcd: the server is not ready while "
           "that was not heard for so long. Lookups are answered in any case.");
PLANB_FLAG(cache, store.cache,
           "With --follow or a store in etcd: directory for a copy of the "
           "tables. A server that starts while that does not answer answers "
           "lookups from the copy, and refuses updates until it answers.");

PLANB_TOPIC(security, "TLS, authorization and peers");

PLANB_FLAG(
    tls_cert, server.tls.cert,
    "Serve TLS (1.2 and later) on TCP with this certificate, followed by those "
    "of its issuers, in PEM; empty: plaintext, which is refused on addresses "
    "that other hosts reach. Unix sockets stay plaintext.");
PLANB_OFTEN_USED(tls_cert, "=FILE", "serve TLS on TCP, with --tls_key=FILE");
PLANB_FLAG(tls_key, server.tls.key, "Private key of --tls_cert, in PEM.");
PLANB_FLAG(tls_client_ca, server.tls.client_ca,
           "Serve on TCP only clients with a certificate by one of these "
           "authorities, in PEM; empty: any client.");
PLANB_OFTEN_USED(tls_client_ca, "=FILE",
                 "and only to clients of these authorities");
PLANB_FLAG(tls_reload_interval, server.tls.reload_interval,
           "How often to read the files of --tls_cert, --tls_key and "
           "--tls_client_ca again, and those for etcd, --follow and the "
           "collector. New files that pass the checks are used for new "
           "connections; others are logged, and the old ones stay in use.");
PLANB_FLAG(insecure, server.insecure,
           "Allow plaintext on TCP addresses that other hosts reach, with the "
           "server of --follow on another host, and with etcd there for the "
           "password of --etcd_user.");
PLANB_OFTEN_USED(insecure, "", "allow plaintext that other hosts reach");
PLANB_FLAG(authorization_policy, server.authorization.policy_file,
           "File with a gRPC authorization policy in JSON: which callers may "
           "call which methods. It is read again when it changes. Empty: all "
           "callers may call all methods.");
PLANB_OFTEN_USED(authorization_policy, "=FILE",
                 "which callers may call which methods");
PLANB_FLAG(authorization_reload_interval, server.authorization.reload_interval,
           "How often to read the file of --authorization_policy again.");
PLANB_UNSET_FLAG(std::vector<std::string>, peer_uids, {},
                 "Users that may connect over a Unix socket, numbers such as "
                 "0,65532. A peer that matches --peer_gids may connect as "
                 "well. Both empty: all users that the file's mode allows.");
PLANB_UNSET_FLAG(std::vector<std::string>, peer_gids, {},
                 "Groups that may connect over a Unix socket, numbers such as "
                 "0,65532: the peer's primary group counts, further ones do "
                 "not. A peer that matches --peer_uids may connect as well. "
                 "Both empty: all users that the file's mode allows.");

PLANB_TOPIC(threads, "Threads and speed");

PLANB_FLAG(lookup_threads, server.threads.count,
           "Threads that serve lookups; 0: one for each core of --lookup_cpus, "
           "or that the process may use, which its affinity and its cgroup's "
           "CPU quota limit.");
PLANB_UNSET_FLAG(std::vector<std::string>, lookup_cpus, {},
                 "Cores for the threads that serve lookups: numbers and "
                 "ranges, such as 1 or 0,2-3. Each thread is bound to the next "
                 "core of the list. All other threads keep off these cores, if "
                 "there are others. Empty: the scheduler decides.");
PLANB_OFTEN_USED(lookup_cpus, "=LIST",
                 "cores for lookups alone, such as 0,2-3");
PLANB_FLAG(lookup_spin, server.threads.spin,
           "How long a thread that serves lookups polls for more work before "
           "it sleeps. Saves the time of the wake-up, and takes up to a core "
           "for each thread.");
PLANB_FLAG(polling, polling,
           "How threads wait for connections. poll: each thread waits for its "
           "own, which is quickest for up to some hundred. epoll: one thread "
           "waits for all, which serves thousands. auto: poll if "
           "--max_connections is 1000 or less.");
PLANB_FLAG(simd, server.simd,
           "Search kernel: auto (the best this machine can run), avx512, avx2, "
           "neon or scalar.");
PLANB_SIZE_FLAG(unix_send_buffer, server.transport.sockets.unix_send_buffer,
                "SO_SNDBUF of Unix sockets, which net.core.wmem_max bounds; 0: "
                "the host's default.");
PLANB_FLAG(
    loopback_congestion, server.transport.sockets.loopback_congestion,
    "TCP_CONGESTION of connections from this host; empty: the host's default.");

PLANB_TOPIC(tables, "Limits of tables and memory");

PLANB_FLAG(max_tables, server.tables.max_tables,
           "Tables there may be, \"default\" included.");
PLANB_FLAG(max_routes, server.tables.table.limits.max_routes,
           "Routes a table may hold, both families together.");
PLANB_OFTEN_USED(max_routes, "=N", "routes a table may hold");
PLANB_FLAG(max_next_hops, server.tables.table.limits.max_next_hops,
           "Next-hop objects a table may hold.");
PLANB_SIZE_FLAG(
    max_table_memory_bytes, server.tables.memory_limit,
    "Memory that the RIBs and FIBs of all tables may take, rebuilds included. "
    "An update that might take more is refused.");
PLANB_OFTEN_USED(max_table_memory_bytes, "=N",
                 "memory of all tables, such as 4GiB");
PLANB_SIZE_FLAG(history_bytes, server.tables.table.history_bytes,
                "Memory for the changes that each table keeps for WatchRoutes, "
                "besides --max_table_memory_bytes. A quarter more holds the "
                "latest as they are sent.");
PLANB_SIZE_FLAG(
    memory_quota_bytes, server.transport.memory_quota_bytes,
    "Memory for the messages being received or sent that all connections "
    "together may hold. Above it, gRPC stops reading, then ends calls.");

PLANB_TOPIC(lookups, "Limits of lookups");

PLANB_FLAG(max_batch_addresses, server.lookup.max_batch_addresses,
           "Addresses in one BatchLookup message.");
PLANB_FLAG(max_lookup_addresses, server.lookup.max_lookup_addresses,
           "Addresses in one Lookup call, or in a BatchLookup message that "
           "wants prefix lengths of a table that does not keep them.");
PLANB_FLAG(max_streams, server.lookup.max_streams,
           "BatchLookup streams open at once.");
PLANB_FLAG(max_generation_wait, server.lookup.max_generation_wait,
           "How long a lookup may wait for its min_generation.");

PLANB_TOPIC(updates, "Limits of updates, lists and watches");

PLANB_FLAG(max_update_routes, server.control.max_update_routes,
           "Changes in one batch of updates.");
PLANB_SIZE_FLAG(update_memory_bytes, server.control.update_memory_bytes,
                "Memory that updates may take, all together, while they are "
                "parsed and applied. One that takes more alone is refused.");
PLANB_FLAG(
    max_pending_updates, server.tables.table.max_pending_updates,
    "Update batches of a table that may be accepted and not yet visible.");
PLANB_FLAG(update_credits, server.control.update_credits,
           "Unanswered changes that each StreamUpdates call may have. A batch "
           "with a request_id counts as 256 more.");
PLANB_FLAG(max_lists, server.control.max_lists,
           "ListRoutes, ListNextHops and ExportSnapshot calls open at once; "
           "each keeps its version of the table in memory. Of this limit and "
           "the next four one client gets three quarters. A client is an IPv4 "
           "address or an IPv6 /64; all on Unix sockets are one.");
PLANB_FLAG(max_watchers, server.control.max_watchers,
           "WatchRoutes calls open at once.");
PLANB_FLAG(max_replacements, server.control.max_replacements,
           "ReplaceRoutes and ImportSnapshot calls open at once.");
PLANB_FLAG(max_update_streams, server.control.max_update_streams,
           "StreamUpdates calls open at once.");
PLANB_FLAG(
    max_replicated_calls, server.control.max_replicated_calls,
    "UpdateRoutes and UpdateNextHops calls with ACK_REPLICATED open at once.");
PLANB_FLAG(max_replication_wait, server.control.max_replication_wait,
           "How long a batch with ACK_REPLICATED waits for other servers. Then "
           "its call fails, and the batch stays accepted.");
PLANB_FLAG(max_control_calls, server.transport.max_control_calls,
           "Calls of RouteTable and Health open at once; each takes a thread. "
           "Must exceed the limits of their streams, and of those that wait "
           "for other servers, by 64.");

PLANB_TOPIC(connections, "Limits of connections");

PLANB_FLAG(
    max_connections, server.transport.connections.max_connections,
    "Connections open at once; further ones are closed. 0: as many as the "
    "limit of open files allows. For more than the default, see --polling.");
PLANB_FLAG(max_peer_connections,
           server.transport.connections.max_peer_connections,
           "Connections open at once of one peer: a user on the Unix socket, "
           "else an IPv4 address or an IPv6 /64. 0: half of all.");
PLANB_FLAG(peer_connection_rate,
           server.transport.connections.peer_connection_rate,
           "New connections a second of one process on the Unix socket, else "
           "of an IPv4 address or an IPv6 /64. As many as in ten seconds may "
           "come at once. Further ones are closed. 0: any number.");
PLANB_FLAG(max_connection_streams, server.transport.max_connection_streams,
           "Calls open at once on one connection; further ones wait.");
PLANB_SIZE_FLAG(
    max_message_bytes, server.transport.max_message_bytes,
    "Size of one gRPC message received. A longer one ends its call.");
PLANB_FLAG(handshake_timeout, server.transport.handshake_timeout,
           "A connection whose handshake takes longer is closed.");
PLANB_FLAG(first_message_timeout, server.control.timeouts.first_message,
           "How long a call that sends a stream of messages, such as "
           "StreamUpdates, may take to send the first.");
PLANB_FLAG(progress_timeout, server.control.timeouts.progress,
           "How long a client of RouteTable or Health may take to receive a "
           "message, or to send the next one of a replacement. A call that "
           "takes longer is ended.");
PLANB_FLAG(keepalive_time, server.transport.keepalive_time,
           "A client that is silent for so long gets a ping, and is "
           "disconnected if it does not answer within --keepalive_timeout.");
PLANB_FLAG(keepalive_timeout, server.transport.keepalive_timeout,
           "How long to wait for the answer to a ping of --keepalive_time.");
PLANB_FLAG(min_ping_interval, server.transport.min_ping_interval,
           "Clients that send pings more often are disconnected.");
PLANB_FLAG(max_connection_idle, server.transport.max_connection_idle,
           "A connection without calls for so long is closed.");
PLANB_FLAG(max_connection_age, server.transport.max_connection_age,
           "A connection of this age takes no new calls, and is closed after "
           "--max_connection_age_grace.");
PLANB_FLAG(max_connection_age_grace, server.transport.max_connection_age_grace,
           "How long the calls on a connection older than --max_connection_age "
           "may take to end before it is closed.");

PLANB_TOPIC(logs, "Logs, traces and the end");

PLANB_FLAG(log_level, log_level,
           "Lowest level that is logged: debug, info, warning or error.");
PLANB_OFTEN_USED(log_level, "=LEVEL", "debug, info, warning or error");
PLANB_FLAG(log_format, log_format,
           "Format of the log: text, or json: each line is an object with "
           "time, level, event and its fields.");
PLANB_FLAG(
    slow_batch, server.slow_batch,
    "Lookup batches that take at least this long inside the server, waiting "
    "for a generation included, are counted and logged. 0: none.");
PLANB_FLAG(
    otlp_endpoint, otlp.endpoint,
    "Send traces to this collector, HOST:PORT or unix:PATH, by OTLP over gRPC: "
    "a span for each update, and for some batches of lookups.");
PLANB_FLAG(otlp_ca, otlp.tls.ca.path,
           "Speak TLS with the collector, whose certificate one of these "
           "authorities signed, in PEM.");
PLANB_FLAG(otlp_cert, otlp.tls.cert.path,
           "The client's certificate for the collector, in PEM.");
PLANB_FLAG(otlp_key, otlp.tls.key.path, "Private key of --otlp_cert, in PEM.");
PLANB_FLAG(trace_batches, otlp.batches_per_span,
           "Of so many batches of a lookup thread, one is traced, and slow "
           "ones that are logged; 0: none.");
PLANB_FLAG(drain_timeout, drain_timeout,
           "On SIGTERM or SIGINT, how long calls in flight may take to end.");

namespace planb::server {
namespace {

absl::StatusOr<std::vector<int>> LookupCpus() {
  auto cpus =
      ParseCpuList(absl::StrJoin(absl::GetFlag(FLAGS_lookup_cpus), ","));
  if (cpus.ok()) return cpus;
  return absl::InvalidArgumentError(
      absl::StrCat("--lookup_cpus: ", cpus.status().message()));
}

// Completes the files of --PREFIX_ca, --PREFIX_cert and --PREFIX_key. Without
// an authority the connection would be in plaintext.
absl::Status CompleteClientTls(const std::string& prefix,
                               absl::Duration reload_interval, TlsFiles& tls) {
  tls.kind = prefix;
  tls.cert.flag = absl::StrCat("--", prefix, "_cert");
  tls.key.flag = absl::StrCat("--", prefix, "_key");
  tls.ca.flag = absl::StrCat("--", prefix, "_ca");
  tls.reload_interval = reload_interval;
  if (tls.cert.path.empty() != tls.key.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.cert.flag, " and ", tls.key.flag, " go together"));
  }
  if (tls.ca.path.empty() && !tls.cert.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.cert.flag, " needs ", tls.ca.flag));
  }
  return absl::OkStatus();
}

// Adds values and combinations that no other part of the server would refuse.
void CheckFlags(CommandLine& line) {
  const auto wrong = [&](bool is, auto&&... words) {
    if (is) {
      line.problems.push_back(
          absl::InvalidArgumentError(absl::StrCat(words...)));
    }
  };
  const InitialTableOptions& initial = line.server.initial;
  const uint64_t v6 = initial.generate_v6;
  const uint64_t v4 = initial.generate_v4;
  const uint64_t limit = line.server.tables.table.limits.max_routes;
  wrong(!initial.routes_file.empty() && (v6 > 0 || v4 > 0),
        "--routes and --generate cannot both be given");
  wrong(!line.store.follow.empty() &&
            (!initial.routes_file.empty() || v6 > 0 || v4 > 0),
        "--follow and ",
        initial.routes_file.empty() ? "--generate" : "--routes",
        " cannot both be given: a follower's tables are those of the other "
        "server");
  wrong(v6 > limit || v4 > limit - v6,
        "cannot generate that many routes: --max_routes' limit is ", limit);
  wrong(line.server.tls.reload_interval <= absl::ZeroDuration(),
        "--tls_reload_interval must be positive");
  constexpr uint64_t kMaxThreads = 1024;
  wrong(line.server.threads.count > kMaxThreads,
        "--lookup_threads must be at most ", kMaxThreads);
  wrong(line.server.insecure && !line.server.tls.cert.empty() &&
            !NeedsInsecure(line.store),
        "--insecure and --tls_cert cannot both be given");
  wrong(line.server.max_staleness != ServerOptions().max_staleness &&
            !IsRemote(line.store),
        "--max_staleness has no effect without --follow or "
        "--store=etcd://...");
  wrong(line.otlp.endpoint.empty() && !line.otlp.tls.ca.path.empty(),
        "--otlp_ca has no effect without --otlp_endpoint");
  wrong(line.server.tables.table.max_pending_updates == 0,
        "--max_pending_updates must be at least 1");
  std::set<std::string> addresses;
  for (const auto& [flag, list] :
       {std::pair("--listen", &line.server.listen),
        std::pair("--control_listen", &line.server.control_listen)}) {
    for (const std::string& address : *list) {
      // Of port 0 the system makes another one each time.
      wrong(!absl::EndsWith(address, ":0") && !addresses.insert(address).second,
            flag, ": ", address, " is there twice");
    }
  }
}

// --version prints one line.
void DescribeProgram() {
  absl::FlagsUsageConfig config;
  config.version_string = [] {
    return absl::StrCat("planb_server ", GetBuildInfo().version, "\n");
  };
  absl::SetFlagsUsageConfig(config);
}

// The options that the flags set now, as far as `problems` let them.
CommandLine ReadAllFlags() {
  CommandLine line;
  line.problems = SetOptions(line);
  ServerOptions& server = line.server;
  line.store.insecure = server.insecure;
  line.store.limits = {server.tables.table.limits.max_routes,
                       server.tables.table.limits.max_next_hops,
                       server.tables.memory_limit};
  line.store.version = line.otlp.version = std::string(GetBuildInfo().version);
  line.otlp.instance = NameOfReplica(line.store);
  for (const auto& [prefix, tls] : {std::pair("etcd", &line.store.etcd_tls),
                                    std::pair("follow", &line.store.follow_tls),
                                    std::pair("otlp", &line.otlp.tls)}) {
    const absl::Status status =
        CompleteClientTls(prefix, server.tls.reload_interval, *tls);
    if (status.ok()) continue;
    line.problems.push_back(status);
    *tls = {};
  }
  CheckFlags(line);
  const auto set = [&line](auto value, auto& option) {
    if (value.ok()) {
      option = *std::move(value);
    } else {
      line.problems.push_back(value.status());
    }
  };
  set(LookupCpus(), server.threads.cpus);
  set(ParseSocketFileOptions(absl::GetFlag(FLAGS_unix_socket_mode),
                             absl::GetFlag(FLAGS_unix_socket_owner)),
      server.socket_file);
  set(ParsePeerRules(absl::GetFlag(FLAGS_peer_uids),
                     absl::GetFlag(FLAGS_peer_gids)),
      server.peers);
  return line;
}

}  // namespace

absl::StatusOr<Reloaded> ReloadFlags(int argc, char** argv) {
  const FlagValues before = ValuesOfFlags();
  ResetFlags();
  absl::Status status = SetFlags(argc, argv).status();
  if (status.ok()) status = ReadFlags().status();
  const FlagValues after = ValuesOfFlags();
  RestoreFlags(before);
  if (!status.ok()) return status;
  Reloaded reloaded = {.log_level = after.at("log_level")};
  for (const auto& [name, value] : after) {
    if (name != "log_level" && value != before.at(name)) {
      reloaded.need_restart.push_back(name);
    }
  }
  return reloaded;
}

absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv) {
  DescribeProgram();
  const absl::Status help = PrintHelpIfAsked(argc, argv);
  if (!help.ok()) return help;
  const absl::StatusOr<std::vector<char*>> rest = SetFlags(argc, argv);
  if (!rest.ok()) return rest.status();
  const bool print = rest->size() == 3 &&
                     std::strcmp((*rest)[1], "config") == 0 &&
                     std::strcmp((*rest)[2], "print") == 0;
  if (rest->size() > 1 && !print) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected argument \"", (*rest)[1], "\"; try --help"));
  }
  CommandLine line = ReadAllFlags();
  line.print_config = print;
  line.check_config = line.check_config && !print;
  if (!line.problems.empty() && !line.check_config) {
    return line.problems.front();
  }
  return line;
}

absl::StatusOr<CommandLine> ReadFlags() {
  CommandLine line = ReadAllFlags();
  if (!line.problems.empty()) return line.problems.front();
  return line;
}

}  // namespace planb::server
