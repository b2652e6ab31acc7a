// SPDX-License-Identifier: Apache-2.0

#include "server/server_flags.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "absl/flags/flag.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/cpu_list.h"
#include "server/base/tls_files.h"
#include "server/config.h"
#include "server/observe/process_metrics.h"

ABSL_FLAG(std::vector<std::string>, listen,
          std::vector<std::string>({"unix:///run/planb/planb.sock"}),
          "Where to serve gRPC, comma separated: unix:///PATH or HOST:PORT "
          "([::]:PORT for all addresses of both families). Prefer the Unix "
          "socket for callers on this host.");
ABSL_FLAG(std::vector<std::string>, control_listen, {},
          "Further addresses, in the form of --listen, which serve all but "
          "lookups. Threads of their own read these connections: there, large "
          "updates delay no lookup.");
ABSL_FLAG(std::string, tls_cert, "",
          "Serve TLS (1.2 and later) on TCP with this certificate, followed by "
          "those of its issuers, in PEM; empty: plaintext, which is refused "
          "on addresses that other hosts reach. Unix sockets stay plaintext.");
ABSL_FLAG(std::string, tls_key, "", "Private key of --tls_cert, in PEM.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "Serve on TCP only clients with a certificate by one of these "
          "authorities, in PEM; empty: any client.");
ABSL_FLAG(absl::Duration, tls_reload_interval, absl::Seconds(5),
          "How often to read the files of --tls_cert, --tls_key and "
          "--tls_client_ca again, and those for etcd, --follow and the "
          "collector. New files that pass the checks are used for "
          "new connections; others are logged, and the old ones stay in use.");
ABSL_FLAG(bool, insecure, false,
          "Allow plaintext on TCP addresses that other hosts reach, with the "
          "server of --follow on another host, and with etcd there for the "
          "password of --etcd_user.");
ABSL_FLAG(std::string, health_address, "",
          "Where to serve grpc.health.v1.Health in plaintext and nothing else, "
          "HOST:PORT, for probes. It is served before tables are loaded and "
          "while the server drains. Empty: nowhere.");
ABSL_FLAG(bool, empty_table_ready, true,
          "Whether the server is ready while the default table has no visible "
          "route. Leave it true where routes are sent only to ready servers.");
ABSL_FLAG(
    std::string, unix_socket_mode, "0660",
    "Mode of the Unix sockets' files, octal. Users with the right to write "
    "may connect.");
ABSL_FLAG(std::string, unix_socket_owner, "",
          "Owner of the Unix sockets' files, UID[:GID] in numbers; empty: the "
          "user and group of the server.");
ABSL_FLAG(std::vector<std::string>, peer_uids, {},
          "Users that may connect over a Unix socket, numbers such as "
          "0,65532. A peer that matches --peer_gids may connect as well. Both "
          "empty: all users that the file's mode allows.");
ABSL_FLAG(
    std::vector<std::string>, peer_gids, {},
    "Groups that may connect over a Unix socket, numbers such as 0,65532: "
    "the peer's primary group counts, further ones do not. A peer that matches "
    "--peer_uids may connect as well. Both empty: all users that the file's "
    "mode allows.");
ABSL_FLAG(
    std::string, authorization_policy, "",
    "File with a gRPC authorization policy in JSON: which callers may call "
    "which methods. It is read again when it changes. Empty: all callers "
    "may call all methods.");
ABSL_FLAG(absl::Duration, authorization_reload_interval, absl::Seconds(10),
          "How often to read the file of --authorization_policy again.");
ABSL_FLAG(std::string, metrics_address, "127.0.0.1:9464",
          "Where to serve /metrics, /healthz, /readyz and /statusz over HTTP, "
          "IPv4:PORT or [IPv6]:PORT; empty: nowhere.");
ABSL_FLAG(
    std::string, store, "auto",
    "SQLite database that keeps tables across restarts, created if it is "
    "missing; etcd://HOST:PORT[,HOST:PORT...]/PREFIX: keys in etcd, which "
    "all servers with this value share; none: tables are lost; auto: "
    "planb.db in /var/lib/planb if that directory exists, else none.");
ABSL_FLAG(
    std::string, config, "",
    "YAML file with values of flags, by name: see \"config print\". "
    "Variables such as PLANB_MAX_ROUTES override it, and the command line "
    "overrides these.");
ABSL_FLAG(bool, check_config, false,
          "Only check the flags, with those of --config and the environment.");
ABSL_FLAG(absl::Duration, max_staleness, absl::InfiniteDuration(),
          "With --follow or a store in etcd: the server is not ready while "
          "that was not heard for so long. Lookups are answered in any case.");
ABSL_FLAG(std::string, follow, "",
          "Follow the tables of this server, HOST:PORT or unix:PATH, with the "
          "same generations, instead of having a store. Updates are refused "
          "here.");
ABSL_FLAG(std::string, follow_ca, "",
          "Speak TLS with the server of --follow, whose certificate one of "
          "these authorities (PEM) has signed.");
ABSL_FLAG(std::string, follow_cert, "",
          "The client's certificate for --follow, in PEM.");
ABSL_FLAG(std::string, follow_key, "", "Private key of --follow_cert, in PEM.");
ABSL_FLAG(std::string, cache, "",
          "With --follow or a store in etcd: directory for a copy of the "
          "tables. A server that starts while that does not answer answers "
          "lookups from the copy, and refuses updates until it answers.");
ABSL_FLAG(std::string, otlp_endpoint, "",
          "Send traces to this collector, HOST:PORT or unix:PATH, by OTLP over "
          "gRPC: a span for each update, and for some batches of lookups.");
ABSL_FLAG(std::string, otlp_ca, "",
          "Speak TLS with the collector, whose certificate one of these "
          "authorities signed, in PEM.");
ABSL_FLAG(std::string, otlp_cert, "",
          "The client's certificate for the collector, in PEM.");
ABSL_FLAG(std::string, otlp_key, "", "Private key of --otlp_cert, in PEM.");
ABSL_FLAG(uint64_t, trace_batches, 10'000,
          "Of so many batches of a lookup thread, one is traced, and slow ones "
          "that are logged; 0: none.");
ABSL_FLAG(std::string, replica_name, "",
          "With a store in etcd: the name of this server among those that "
          "share it; empty means the host's name.");
ABSL_FLAG(std::string, etcd_user, "", "User of etcd; empty: none.");
ABSL_FLAG(std::string, etcd_password_file, "",
          "File with the password of --etcd_user.");
ABSL_FLAG(std::string, etcd_ca, "",
          "Speak TLS with etcd, whose certificate one of these authorities "
          "signed, in PEM.");
ABSL_FLAG(std::string, etcd_cert, "",
          "The client's certificate for etcd, in PEM.");
ABSL_FLAG(std::string, etcd_key, "", "Private key of --etcd_cert, in PEM.");
ABSL_FLAG(std::string, store_sync, "full",
          "What the store survives. full: power loss. normal: the end of the "
          "process; power loss takes the last commits. off: the end of the "
          "process. With normal and off no update counts as persisted.");
ABSL_FLAG(std::string, routes, "",
          "File with the initial routes: text (\"planbctl help load\"), an MRT "
          "table dump or a snapshot, plain or compressed. A file that gives "
          "no route is refused. Empty: start "
          "with an empty table (or see --generate). Not read if the store "
          "has a table.");
ABSL_FLAG(bool, routes_partial, false,
          "Start also with a damaged or cut file of --routes: with the routes "
          "that can be read. What cannot is counted in the log.");
ABSL_FLAG(bool, allow_empty, false,
          "Start also with a file of --routes that has nothing in it: with an "
          "empty table.");
ABSL_FLAG(bool, strict_routes, false,
          "What is done without --routes_partial. To be removed.");
ABSL_FLAG(uint64_t, generate, 0,
          "Instead of --routes, start with a synthetic table of so many IPv6 "
          "routes, distributed like those of the Internet.");
ABSL_FLAG(uint64_t, generate_ipv4, 0,
          "Instead of --routes, start with a synthetic table of so many IPv4 "
          "routes, together with those of --generate.");
ABSL_FLAG(uint64_t, generate_seed, 1,
          "For --generate and --generate_ipv4: the same seed makes the same "
          "table.");
ABSL_FLAG(std::string, simd, "auto",
          "Search kernel: auto (the best this machine can run), avx512, avx2, "
          "neon or scalar.");
ABSL_FLAG(bool, prefix_lengths, false,
          "Whether the default table keeps the length of the prefix behind "
          "each answer: lookups that want it are then as quick as others, in "
          "batches of any size. Its FIB takes half as much memory again, and "
          "its lookups are up to a third slower. Other tables: CreateTable.");
ABSL_FLAG(uint64_t, max_routes, 4'000'000,
          "Routes a table may hold, both families together.");
ABSL_FLAG(uint64_t, max_next_hops, 1'000'000,
          "Next-hop objects a table may hold.");
ABSL_FLAG(uint64_t, max_update_routes, 1'000'000,
          "Changes in one batch of updates.");
ABSL_FLAG(
    uint64_t, max_pending_updates, 10'000,
    "Update batches of a table that may be accepted and not yet visible.");
ABSL_FLAG(uint64_t, max_batch_addresses, 1 << 18,
          "Addresses in one BatchLookup message.");
ABSL_FLAG(uint64_t, max_lookup_addresses, 4096,
          "Addresses in one Lookup call, or in a BatchLookup message that "
          "wants prefix lengths of a table that does not keep them.");
ABSL_FLAG(uint64_t, max_streams, 10'000, "BatchLookup streams open at once.");
ABSL_FLAG(uint64_t, max_tables, 256,
          "Tables there may be, \"default\" included.");
ABSL_FLAG(planb::server::Size, max_table_memory_bytes, {uint64_t{4} << 30},
          "Memory that the RIBs and FIBs of all tables may take, rebuilds "
          "included. An update that might take more is refused.");
ABSL_FLAG(
    planb::server::Size, history_bytes, {16 << 20},
    "Memory for the changes that each table keeps for WatchRoutes, besides "
    "--max_table_memory_bytes.");
ABSL_FLAG(planb::server::Size, update_memory_bytes, {uint64_t{256} << 20},
          "Memory that updates may take, all together, while they are parsed "
          "and applied. One that takes more alone is refused.");
ABSL_FLAG(uint64_t, max_lists, 64,
          "ListRoutes, ListNextHops and ExportSnapshot calls open at once; "
          "each keeps its version of the table in memory. Of this limit and "
          "the next four one client gets three quarters. A client is an IPv4 "
          "address or an IPv6 /64; all on Unix sockets are one.");
ABSL_FLAG(uint64_t, max_watchers, 64, "WatchRoutes calls open at once.");
ABSL_FLAG(uint64_t, max_replacements, 16,
          "ReplaceRoutes and ImportSnapshot calls open at once.");
ABSL_FLAG(uint64_t, max_update_streams, 16,
          "StreamUpdates calls open at once.");
ABSL_FLAG(uint64_t, max_replicated_calls, 32,
          "UpdateRoutes and UpdateNextHops calls with ACK_REPLICATED open at "
          "once.");
ABSL_FLAG(absl::Duration, max_replication_wait, absl::Seconds(30),
          "How long a batch with ACK_REPLICATED waits for other servers. Then "
          "its call fails, and the batch stays accepted.");
ABSL_FLAG(absl::Duration, first_message_timeout, absl::Seconds(10),
          "How long a call that sends a stream of messages, such as "
          "StreamUpdates, may take to send the first.");
ABSL_FLAG(absl::Duration, progress_timeout, absl::Minutes(1),
          "How long a client of RouteTable or Health may take to receive a "
          "message, or to send the next one of a replacement. A call that "
          "takes longer is ended.");
ABSL_FLAG(uint64_t, update_credits, 200'000,
          "Unanswered changes that each StreamUpdates call may have. A batch "
          "with a request_id counts as 256 more.");
ABSL_FLAG(uint64_t, lookup_threads, 0,
          "Threads that serve lookups; 0: one for each core of --lookup_cpus, "
          "or that the process may use, which its affinity and its cgroup's "
          "CPU quota limit.");
ABSL_FLAG(
    std::vector<std::string>, lookup_cpus, {},
    "Cores for the threads that serve lookups: numbers and ranges, such "
    "as 1 or 0,2-3. Each thread is bound to the next core of the list. All "
    "other threads keep off these cores, if there are others. Empty: the "
    "scheduler decides.");
ABSL_FLAG(absl::Duration, lookup_spin, absl::ZeroDuration(),
          "How long a thread that serves lookups polls for more work before it "
          "sleeps. Saves the time of the wake-up, and takes up to a core for "
          "each thread.");
ABSL_FLAG(planb::server::Size, max_message_bytes, {16 << 20},
          "Size of one gRPC message received. A longer one ends its call.");
ABSL_FLAG(planb::server::Size, unix_send_buffer, {1 << 20},
          "SO_SNDBUF of Unix sockets, which net.core.wmem_max bounds; 0: the "
          "host's default.");
ABSL_FLAG(std::string, loopback_congestion, "cubic",
          "TCP_CONGESTION of connections from this host; empty: the host's "
          "default.");
ABSL_FLAG(planb::server::Size, memory_quota_bytes, {uint64_t{256} << 20},
          "Memory for the messages being received or sent that all connections "
          "together may hold. Above it, gRPC stops reading, then ends calls.");
ABSL_FLAG(int32_t, max_control_calls, 256,
          "Calls of RouteTable and Health open at once; each takes a thread. "
          "Must exceed the limits of their streams, and of those that wait for "
          "other servers, by 64.");
ABSL_FLAG(int32_t, max_connection_streams, 1'000,
          "Calls open at once on one connection; further ones wait.");
ABSL_FLAG(absl::Duration, keepalive_time, absl::Minutes(1),
          "A client that is silent for so long gets a ping, and is "
          "disconnected if it "
          "does not answer within --keepalive_timeout.");
ABSL_FLAG(absl::Duration, keepalive_timeout, absl::Seconds(20),
          "How long to wait for the answer to a ping of --keepalive_time.");
ABSL_FLAG(absl::Duration, min_ping_interval, absl::Seconds(10),
          "Clients that send pings more often are disconnected.");
ABSL_FLAG(absl::Duration, max_connection_idle, absl::InfiniteDuration(),
          "A connection without calls for so long is closed.");
ABSL_FLAG(absl::Duration, max_connection_age, absl::InfiniteDuration(),
          "A connection of this age takes no new calls, and is closed after "
          "--max_connection_age_grace.");
ABSL_FLAG(absl::Duration, max_connection_age_grace, absl::Seconds(30),
          "How long the calls on a connection older than --max_connection_age "
          "may take to end before it is closed.");
ABSL_FLAG(absl::Duration, handshake_timeout, absl::Seconds(20),
          "A connection whose handshake takes longer is closed.");
ABSL_FLAG(
    uint32_t, max_connections, 1'000,
    "Connections open at once; further ones are closed. 0: as many as the "
    "limit of open files allows. For more than the default, see --polling.");
ABSL_FLAG(
    std::string, polling, "auto",
    "How threads wait for connections. poll: each thread waits for its own, "
    "which is quickest for up to some hundred. epoll: one thread waits for "
    "all, which serves thousands. auto: poll if --max_connections is 1000 or "
    "less.");
ABSL_FLAG(uint32_t, max_peer_connections, 0,
          "Connections open at once of one peer: a user on the Unix socket, "
          "else an IPv4 address or an IPv6 /64. 0: half of all.");
ABSL_FLAG(
    uint32_t, peer_connection_rate, 100,
    "New connections a second of one process on the Unix socket, else of "
    "an IPv4 address or an IPv6 /64. As many as in ten seconds may come at "
    "once. Further ones are closed. 0: any number.");
ABSL_FLAG(absl::Duration, max_generation_wait, absl::Seconds(10),
          "How long a lookup may wait for its min_generation.");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(5),
          "On SIGTERM or SIGINT, how long calls in flight may take to end.");
ABSL_FLAG(std::string, log_level, "info",
          "Lowest level that is logged: debug, info, warning or error.");
ABSL_FLAG(std::string, log_format, "text",
          "Format of the log: text, or json: each line is an object with time, "
          "level, event and its fields.");
ABSL_FLAG(
    absl::Duration, slow_batch, absl::ZeroDuration(),
    "Lookup batches that take at least this long inside the server, waiting "
    "for a generation included, are counted and logged. 0: none.");

namespace planb::server {
namespace {

// Of the flags.
constexpr char kSource[] = "server/server_flags.cc";

constexpr char kUsage[] =
    "Answers longest-prefix-match lookups over gRPC\n"
    "(planb.v1.RouteLookup) and takes route changes (planb.v1.RouteTable).\n\n"
    "Usage: planb_server [FLAGS]\n"
    "       planb_server --check_config [FLAGS]\n"
    "       planb_server config print [FLAGS]\n"
    "       planb_server --version\n\n"
    "Each flag may also be in the file of --config (\"max_routes: 5\") and in "
    "the\nenvironment (PLANB_MAX_ROUTES=5).\n";

constexpr char kOftenUsed[] =
    "  --config=FILE                YAML file with values of flags\n"
    "  --listen=ADDRESS,...         where to serve gRPC: unix:///PATH or "
    "HOST:PORT\n"
    "  --store=STORE                what keeps tables: a file, none, auto, or\n"
    "                               etcd://HOST:PORT,.../PREFIX\n"
    "  --follow=ADDRESS             have the tables of this server instead\n"
    "  --routes=FILE                routes of the first start\n"
    "  --generate=N                 or so many made-up IPv6 routes\n"
    "  --tls_cert=FILE              serve TLS on TCP, with --tls_key=FILE\n"
    "  --tls_client_ca=FILE         and only to clients of these authorities\n"
    "  --insecure                   allow plaintext that other hosts reach\n"
    "  --authorization_policy=FILE  which callers may call which methods\n"
    "  --metrics_address=ADDRESS    where to serve /metrics and pages\n"
    "  --max_routes=N               routes a table may hold\n"
    "  --max_table_memory_bytes=N   memory of all tables, such as 4GiB\n"
    "  --lookup_cpus=LIST           cores for lookups alone, such as 0,2-3\n"
    "  --log_level=LEVEL            debug, info, warning or error\n";

constexpr char kSignals[] =
    "\nOn SIGHUP the server reads certificates, keys, the authorization "
    "policy\n"
    "and --log_level again. What cannot be used changes nothing.\n"
    "Logs go to stderr. On SIGTERM and SIGINT the server refuses new calls,\n"
    "finishes open ones and ends with status 0. A bad flag, file or address\n"
    "ends it with one line on stderr and status 1.\n";

absl::StatusOr<std::vector<int>> LookupCpus() {
  auto cpus =
      ParseCpuList(absl::StrJoin(absl::GetFlag(FLAGS_lookup_cpus), ","));
  if (cpus.ok()) return cpus;
  return absl::InvalidArgumentError(
      absl::StrCat("--lookup_cpus: ", cpus.status().message()));
}

// All options but the cores and those of the sockets.
ServerOptions OptionsFromFlags() {
  ServerOptions options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.control_listen = absl::GetFlag(FLAGS_control_listen);
  options.tls = {.cert = absl::GetFlag(FLAGS_tls_cert),
                 .key = absl::GetFlag(FLAGS_tls_key),
                 .client_ca = absl::GetFlag(FLAGS_tls_client_ca),
                 .reload_interval = absl::GetFlag(FLAGS_tls_reload_interval)};
  options.insecure = absl::GetFlag(FLAGS_insecure);
  options.health_address = absl::GetFlag(FLAGS_health_address);
  options.empty_table_ready = absl::GetFlag(FLAGS_empty_table_ready);
  options.max_staleness = absl::GetFlag(FLAGS_max_staleness);
  options.metrics_address = absl::GetFlag(FLAGS_metrics_address);
  options.authorization = {
      .policy_file = absl::GetFlag(FLAGS_authorization_policy),
      .reload_interval = absl::GetFlag(FLAGS_authorization_reload_interval)};
  options.simd = absl::GetFlag(FLAGS_simd);
  options.slow_batch = absl::GetFlag(FLAGS_slow_batch);
  options.initial = {.routes_file = absl::GetFlag(FLAGS_routes),
                     .partial = absl::GetFlag(FLAGS_routes_partial),
                     .allow_empty = absl::GetFlag(FLAGS_allow_empty),
                     .generate_v6 = absl::GetFlag(FLAGS_generate),
                     .generate_v4 = absl::GetFlag(FLAGS_generate_ipv4),
                     .seed = absl::GetFlag(FLAGS_generate_seed)};
  options.tables.table.limits = {
      .max_routes = absl::GetFlag(FLAGS_max_routes),
      .max_next_hops = absl::GetFlag(FLAGS_max_next_hops)};
  options.tables.table.max_pending_updates =
      absl::GetFlag(FLAGS_max_pending_updates);
  options.tables.table.history_bytes = absl::GetFlag(FLAGS_history_bytes).bytes;
  options.tables.default_fib.prefix_lengths =
      absl::GetFlag(FLAGS_prefix_lengths);
  options.tables.max_tables = absl::GetFlag(FLAGS_max_tables);
  options.tables.memory_limit =
      absl::GetFlag(FLAGS_max_table_memory_bytes).bytes;
  options.lookup = {
      .max_batch_addresses = absl::GetFlag(FLAGS_max_batch_addresses),
      .max_lookup_addresses = absl::GetFlag(FLAGS_max_lookup_addresses),
      .max_generation_wait = absl::GetFlag(FLAGS_max_generation_wait),
      .max_streams = absl::GetFlag(FLAGS_max_streams)};
  options.control = {
      .max_update_routes = absl::GetFlag(FLAGS_max_update_routes),
      .update_memory_bytes = absl::GetFlag(FLAGS_update_memory_bytes).bytes,
      .max_lists = absl::GetFlag(FLAGS_max_lists),
      .max_watchers = absl::GetFlag(FLAGS_max_watchers),
      .max_replacements = absl::GetFlag(FLAGS_max_replacements),
      .max_update_streams = absl::GetFlag(FLAGS_max_update_streams),
      .update_credits = absl::GetFlag(FLAGS_update_credits),
      .max_replicated_calls = absl::GetFlag(FLAGS_max_replicated_calls),
      .max_replication_wait = absl::GetFlag(FLAGS_max_replication_wait),
      .timeouts = {.first_message = absl::GetFlag(FLAGS_first_message_timeout),
                   .progress = absl::GetFlag(FLAGS_progress_timeout)}};
  options.threads.count = absl::GetFlag(FLAGS_lookup_threads);
  options.threads.spin = absl::GetFlag(FLAGS_lookup_spin);
  options.transport = {
      .sockets = {.unix_send_buffer = static_cast<int>(
                      absl::GetFlag(FLAGS_unix_send_buffer).bytes),
                  .loopback_congestion =
                      absl::GetFlag(FLAGS_loopback_congestion)},
      .connections = {.max_connections = absl::GetFlag(FLAGS_max_connections),
                      .max_peer_connections =
                          absl::GetFlag(FLAGS_max_peer_connections),
                      .peer_connection_rate =
                          absl::GetFlag(FLAGS_peer_connection_rate)},
      .max_message_bytes =
          static_cast<int>(absl::GetFlag(FLAGS_max_message_bytes).bytes),
      .memory_quota_bytes = absl::GetFlag(FLAGS_memory_quota_bytes).bytes,
      .max_control_calls = absl::GetFlag(FLAGS_max_control_calls),
      .max_connection_streams = absl::GetFlag(FLAGS_max_connection_streams),
      .keepalive_time = absl::GetFlag(FLAGS_keepalive_time),
      .keepalive_timeout = absl::GetFlag(FLAGS_keepalive_timeout),
      .min_ping_interval = absl::GetFlag(FLAGS_min_ping_interval),
      .max_connection_idle = absl::GetFlag(FLAGS_max_connection_idle),
      .max_connection_age = absl::GetFlag(FLAGS_max_connection_age),
      .max_connection_age_grace = absl::GetFlag(FLAGS_max_connection_age_grace),
      .handshake_timeout = absl::GetFlag(FLAGS_handshake_timeout)};
  return options;
}

// The files of --PREFIX_ca, --PREFIX_cert and --PREFIX_key. Without an
// authority the connection would be in plaintext.
absl::StatusOr<TlsFiles> ReadClientTls(const std::string& prefix,
                                       const absl::Flag<std::string>& ca,
                                       const absl::Flag<std::string>& cert,
                                       const absl::Flag<std::string>& key) {
  TlsFiles tls = {
      .kind = prefix,
      .cert = {absl::StrCat("--", prefix, "_cert"), absl::GetFlag(cert)},
      .key = {absl::StrCat("--", prefix, "_key"), absl::GetFlag(key)},
      .ca = {absl::StrCat("--", prefix, "_ca"), absl::GetFlag(ca)},
      .reload_interval = absl::GetFlag(FLAGS_tls_reload_interval)};
  if (tls.cert.path.empty() != tls.key.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", prefix, "_cert and --", prefix, "_key go together"));
  }
  if (tls.ca.path.empty() && !tls.cert.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", prefix, "_cert needs --", prefix, "_ca"));
  }
  return tls;
}

// Adds values and combinations that no other part of the server would refuse.
void CheckFlags(std::vector<absl::Status>& problems) {
  const auto wrong = [&](bool is, auto&&... words) {
    if (is) {
      problems.push_back(absl::InvalidArgumentError(absl::StrCat(words...)));
    }
  };
  const uint64_t v6 = absl::GetFlag(FLAGS_generate);
  const uint64_t v4 = absl::GetFlag(FLAGS_generate_ipv4);
  const uint64_t limit = absl::GetFlag(FLAGS_max_routes);
  wrong(!absl::GetFlag(FLAGS_routes).empty() && (v6 > 0 || v4 > 0),
        "--routes and --generate cannot both be given");
  wrong(
      absl::GetFlag(FLAGS_strict_routes) && absl::GetFlag(FLAGS_routes_partial),
      "--strict_routes and --routes_partial cannot both be given");
  wrong(v6 > limit || v4 > limit - v6,
        "cannot generate that many routes: --max_routes' limit is ", limit);
  wrong(absl::GetFlag(FLAGS_tls_reload_interval) <= absl::ZeroDuration(),
        "--tls_reload_interval must be positive");
  for (const auto& [name, flag] :
       {std::pair("max_message_bytes", &FLAGS_max_message_bytes),
        std::pair("unix_send_buffer", &FLAGS_unix_send_buffer)}) {
    wrong(absl::GetFlag(*flag).bytes > std::numeric_limits<int32_t>::max(),
          "--", name, " must be below 2GiB");
  }
  constexpr uint64_t kMaxThreads = 1024;
  wrong(absl::GetFlag(FLAGS_lookup_threads) > kMaxThreads,
        "--lookup_threads must be at most ", kMaxThreads);
  for (const auto& [name, flag] :
       {std::pair("lookup_spin", &FLAGS_lookup_spin),
        std::pair("slow_batch", &FLAGS_slow_batch),
        std::pair("max_generation_wait", &FLAGS_max_generation_wait),
        std::pair("max_replication_wait", &FLAGS_max_replication_wait),
        std::pair("drain_timeout", &FLAGS_drain_timeout)}) {
    wrong(absl::GetFlag(*flag) < absl::ZeroDuration(), "--", name,
          " must not be negative");
  }
}

// --version prints one line.
void DescribeProgram() {
  absl::FlagsUsageConfig config;
  config.version_string = [] {
    return absl::StrCat("planb_server ", GetBuildInfo().version, "\n");
  };
  absl::SetFlagsUsageConfig(config);
  absl::SetProgramUsageMessage(kUsage);
}

// Each flag once.
std::vector<FlagTopic> Topics() {
  return {
      {"config",
       "The file of flags, and its check",
       {"config", "check_config"}},
      {"addresses",
       "Addresses, and files of sockets",
       {"listen", "control_listen", "health_address", "metrics_address",
        "unix_socket_mode", "unix_socket_owner"}},
      {"start",
       "Tables at the start",
       {"routes", "routes_partial", "allow_empty", "strict_routes", "generate",
        "generate_ipv4", "generate_seed", "prefix_lengths",
        "empty_table_ready"}},
      {"store",
       "Store, and other servers",
       {"store", "store_sync", "etcd_user", "etcd_password_file", "etcd_ca",
        "etcd_cert", "etcd_key", "follow", "follow_ca", "follow_cert",
        "follow_key", "replica_name", "max_staleness", "cache"}},
      {"security",
       "TLS, authorization and peers",
       {"tls_cert", "tls_key", "tls_client_ca", "tls_reload_interval",
        "insecure", "authorization_policy", "authorization_reload_interval",
        "peer_uids", "peer_gids"}},
      {"threads",
       "Threads and speed",
       {"lookup_threads", "lookup_cpus", "lookup_spin", "polling", "simd",
        "unix_send_buffer", "loopback_congestion"}},
      {"tables",
       "Limits of tables and memory",
       {"max_tables", "max_routes", "max_next_hops", "max_table_memory_bytes",
        "history_bytes", "memory_quota_bytes"}},
      {"lookups",
       "Limits of lookups",
       {"max_batch_addresses", "max_lookup_addresses", "max_streams",
        "max_generation_wait"}},
      {"updates",
       "Limits of updates, lists and watches",
       {"max_update_routes", "update_memory_bytes", "max_pending_updates",
        "max_update_streams", "update_credits", "max_replacements", "max_lists",
        "max_watchers", "max_replicated_calls", "max_replication_wait",
        "max_control_calls"}},
      {"connections",
       "Limits of connections",
       {"max_connections", "max_peer_connections", "peer_connection_rate",
        "max_connection_streams", "max_message_bytes", "handshake_timeout",
        "first_message_timeout", "progress_timeout", "keepalive_time",
        "keepalive_timeout", "min_ping_interval", "max_connection_idle",
        "max_connection_age", "max_connection_age_grace"}},
      {"logs",
       "Logs, traces and the end",
       {"log_level", "log_format", "slow_batch", "otlp_endpoint", "otlp_ca",
        "otlp_cert", "otlp_key", "trace_batches", "drain_timeout"}},
  };
}

// What --help prints, without a topic: what fits a screen.
std::string Overview() {
  std::string text =
      absl::StrCat("planb_server: ", kUsage, "\nFlags used most:\n", kOftenUsed,
                   "\nTopics, with all their flags, for --help=TOPIC; or "
                   "--help=all:\n");
  for (const FlagTopic& topic : Topics()) {
    absl::StrAppend(&text, absl::StrFormat("  %-12s  %s\n", topic.name,
                                           absl::AsciiStrToLower(topic.title)));
  }
  return text;
}

// Errors: INVALID_ARGUMENT.
absl::StatusOr<std::string> HelpAbout(absl::string_view name) {
  std::string text;
  std::string names = "all";
  if (name == "all") text = absl::StrCat("planb_server: ", kUsage, kSignals);
  for (const FlagTopic& topic : Topics()) {
    if (name == "all") absl::StrAppend(&text, "\n", HelpOf(topic));
    if (name == topic.name) return HelpOf(topic);
    absl::StrAppend(&names, ", ", topic.name);
  }
  if (!text.empty()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("--help: \"", name, "\" is no topic; there are: ", names));
}

// If the command line has --help, prints it and ends the process with status 0;
// abseil's own handling of the flag ends it with status 1. Errors:
// INVALID_ARGUMENT for an unknown topic.
absl::Status HelpIfAsked(absl::Span<char* const> words) {
  for (absl::string_view word : words) {
    if (word == "--") break;
    if (!absl::ConsumePrefix(&word, "-")) continue;
    absl::ConsumePrefix(&word, "-");
    absl::StatusOr<std::string> text;
    if (word == "help" || word == "h") {
      text = Overview();
    } else if (absl::ConsumePrefix(&word, "help=")) {
      text = HelpAbout(word);
    } else {
      continue;
    }
    if (!text.ok()) return text.status();
    std::cout << *text;
    std::exit(0);
  }
  return absl::OkStatus();
}

// The options that the flags set now, as far as `problems` let them.
CommandLine ReadAllFlags() {
  CommandLine line = {
      .server = OptionsFromFlags(),
      .drain_timeout = absl::GetFlag(FLAGS_drain_timeout),
      .log_level = absl::GetFlag(FLAGS_log_level),
      .log_format = absl::GetFlag(FLAGS_log_format),
      .polling = absl::GetFlag(FLAGS_polling),
      .store = {.store = absl::GetFlag(FLAGS_store),
                .store_sync = absl::GetFlag(FLAGS_store_sync),
                .etcd_user = absl::GetFlag(FLAGS_etcd_user),
                .etcd_password_file = absl::GetFlag(FLAGS_etcd_password_file),
                .follow = absl::GetFlag(FLAGS_follow),
                .insecure = absl::GetFlag(FLAGS_insecure),
                .cache = absl::GetFlag(FLAGS_cache),
                .replica_name = absl::GetFlag(FLAGS_replica_name),
                .version = std::string(GetBuildInfo().version)},
      .check_config = absl::GetFlag(FLAGS_check_config)};
  line.otlp = {.endpoint = absl::GetFlag(FLAGS_otlp_endpoint),
               .batches_per_span = absl::GetFlag(FLAGS_trace_batches),
               .version = line.store.version,
               .instance = NameOfReplica(line.store)};
  CheckFlags(line.problems);
  const auto set = [&line](auto value, auto& option) {
    if (value.ok()) {
      option = *std::move(value);
    } else {
      line.problems.push_back(value.status());
    }
  };
  ServerOptions& server = line.server;
  set(LookupCpus(), server.threads.cpus);
  set(ReadClientTls("etcd", FLAGS_etcd_ca, FLAGS_etcd_cert, FLAGS_etcd_key),
      line.store.etcd_tls);
  set(ReadClientTls("follow", FLAGS_follow_ca, FLAGS_follow_cert,
                    FLAGS_follow_key),
      line.store.follow_tls);
  if (line.store.insecure && !absl::GetFlag(FLAGS_tls_cert).empty() &&
      !NeedsInsecure(line.store)) {
    line.problems.push_back(absl::InvalidArgumentError(
        "--insecure and --tls_cert cannot both be given"));
  }
  set(ReadClientTls("otlp", FLAGS_otlp_ca, FLAGS_otlp_cert, FLAGS_otlp_key),
      line.otlp.tls);
  set(ParseSocketFileOptions(absl::GetFlag(FLAGS_unix_socket_mode),
                             absl::GetFlag(FLAGS_unix_socket_owner)),
      server.socket_file);
  set(ParsePeerRules(absl::GetFlag(FLAGS_peer_uids),
                     absl::GetFlag(FLAGS_peer_gids)),
      server.peers);
  return line;
}

}  // namespace

std::string ConfigAsYaml() { return FlagsAsYaml(kSource); }

absl::StatusOr<Reloaded> ReloadFlags(int argc, char** argv) {
  const FlagValues before = ValuesOfFlags(kSource);
  ResetFlags(kSource);
  absl::Status status = SetFlags(argc, argv, kSource).status();
  if (status.ok()) status = ReadFlags().status();
  const FlagValues after = ValuesOfFlags(kSource);
  RestoreFlags(before, kSource);
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
  const absl::Status help =
      HelpIfAsked(absl::MakeConstSpan(argv + 1, static_cast<size_t>(argc - 1)));
  if (!help.ok()) return help;
  const absl::StatusOr<std::vector<char*>> rest = SetFlags(argc, argv, kSource);
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
