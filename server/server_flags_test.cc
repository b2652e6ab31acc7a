// SPDX-License-Identifier: Apache-2.0

// Each flag sets its option, and its default is that of the option.

#include "server/server_flags.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/flags/marshalling.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "server/config.h"

namespace planb::server {
namespace {

// Sets flags during one test.
class ServerFlags : public testing::Test {
 protected:
  void Set(absl::string_view name, absl::string_view value) {
    std::string error;
    EXPECT_TRUE(absl::FindCommandLineFlag(name)->ParseFrom(value, &error))
        << name << ": " << error;
  }

 private:
  absl::FlagSaver saver_;
};

TEST_F(ServerFlags, DefaultsEqualThoseOfTheOptions) {
  const auto line = ReadFlags();
  ASSERT_TRUE(line.ok()) << line.status();
  const ServerOptions& got = line->server;
  const ServerOptions own;
  EXPECT_EQ(got.listen,
            std::vector<std::string>{"unix:///run/planb/planb.sock"});
  EXPECT_EQ(got.metrics_address, "127.0.0.1:9464");
  EXPECT_EQ(got.empty_table_ready, own.empty_table_ready);
  EXPECT_EQ(got.socket_file.mode, own.socket_file.mode);
  EXPECT_TRUE(got.peers.AllowAnyone());
  EXPECT_EQ(got.lookup.max_streams, own.lookup.max_streams);
  EXPECT_EQ(got.lookup.max_generation_wait, own.lookup.max_generation_wait);
  EXPECT_EQ(got.control.update_memory_bytes, own.control.update_memory_bytes);
  EXPECT_EQ(got.threads.cpus, own.threads.cpus);
  EXPECT_EQ(got.transport.max_message_bytes, own.transport.max_message_bytes);
  EXPECT_EQ(got.transport.sockets.loopback_congestion,
            own.transport.sockets.loopback_congestion);
}

// Each flag that sets an option by itself.
#define OPTION(field)                                           \
  [](const CommandLine& line) {                                 \
    return absl::UnparseFlag<decltype(line.field)>(line.field); \
  }
struct FlagCase {
  const char* flag;
  const char* value;
  std::string (*option)(const CommandLine&);
};
constexpr FlagCase kFlagCases[] = {
    {"check_config", "true", OPTION(check_config)},
    {"listen", "v12,w", OPTION(server.listen)},
    {"control_listen", "v13,x", OPTION(server.control_listen)},
    {"health_address", "v14", OPTION(server.health_address)},
    {"metrics_address", "v15", OPTION(server.metrics_address)},
    {"routes_partial", "true", OPTION(server.initial.partial)},
    {"routes_attributes", "full", OPTION(server.initial.path_parts)},
    {"allow_empty", "true", OPTION(server.initial.allow_empty)},
    {"generate", "18", OPTION(server.initial.generate_v6)},
    {"generate_ipv4", "19", OPTION(server.initial.generate_v4)},
    {"generate_seed", "20", OPTION(server.initial.seed)},
    {"prefix_lengths", "true",
     OPTION(server.tables.default_fib.prefix_lengths)},
    {"empty_table_ready", "false", OPTION(server.empty_table_ready)},
    {"store", "etcd://v23/w", OPTION(store.store)},
    {"store_sync", "v24", OPTION(store.store_sync)},
    {"etcd_user", "v25", OPTION(store.etcd_user)},
    {"etcd_password_file", "v26", OPTION(store.etcd_password_file)},
    {"etcd_ca", "v27", OPTION(store.etcd_tls.ca.path)},
    {"etcd_cert", "v28", OPTION(store.etcd_tls.cert.path)},
    {"etcd_key", "v29", OPTION(store.etcd_tls.key.path)},
    {"follow_ca", "v31", OPTION(store.follow_tls.ca.path)},
    {"follow_cert", "v32", OPTION(store.follow_tls.cert.path)},
    {"follow_key", "v33", OPTION(store.follow_tls.key.path)},
    {"replica_name", "v34", OPTION(store.replica_name)},
    {"max_staleness", "35s", OPTION(server.max_staleness)},
    {"cache", "v36", OPTION(store.cache)},
    {"tls_cert", "v37", OPTION(server.tls.cert)},
    {"tls_key", "v38", OPTION(server.tls.key)},
    {"tls_client_ca", "v39", OPTION(server.tls.client_ca)},
    {"tls_reload_interval", "40s", OPTION(server.tls.reload_interval)},
    {"authorization_policy", "v41", OPTION(server.authorization.policy_file)},
    {"authorization_reload_interval", "42s",
     OPTION(server.authorization.reload_interval)},
    {"lookup_threads", "43", OPTION(server.threads.count)},
    {"lookup_spin", "44s", OPTION(server.threads.spin)},
    {"polling", "v45", OPTION(polling)},
    {"simd", "v46", OPTION(server.simd)},
    {"unix_send_buffer", "47",
     OPTION(server.transport.sockets.unix_send_buffer)},
    {"loopback_congestion", "v48",
     OPTION(server.transport.sockets.loopback_congestion)},
    {"max_tables", "49", OPTION(server.tables.max_tables)},
    {"max_routes", "1050", OPTION(server.tables.table.limits.max_routes)},
    {"max_next_hops", "51", OPTION(server.tables.table.limits.max_next_hops)},
    {"max_table_memory_bytes", "52", OPTION(server.tables.memory_limit)},
    {"history_bytes", "53", OPTION(server.tables.table.history_bytes)},
    {"memory_quota_bytes", "54", OPTION(server.transport.memory_quota_bytes)},
    {"max_batch_addresses", "55", OPTION(server.lookup.max_batch_addresses)},
    {"max_lookup_addresses", "56", OPTION(server.lookup.max_lookup_addresses)},
    {"max_streams", "57", OPTION(server.lookup.max_streams)},
    {"max_generation_wait", "58s", OPTION(server.lookup.max_generation_wait)},
    {"max_update_routes", "59", OPTION(server.control.max_update_routes)},
    {"update_memory_bytes", "60", OPTION(server.control.update_memory_bytes)},
    {"max_pending_updates", "61",
     OPTION(server.tables.table.max_pending_updates)},
    {"max_update_streams", "62", OPTION(server.control.max_update_streams)},
    {"update_credits", "63", OPTION(server.control.update_credits)},
    {"max_replacements", "64", OPTION(server.control.max_replacements)},
    {"max_lists", "65", OPTION(server.control.max_lists)},
    {"max_watchers", "66", OPTION(server.control.max_watchers)},
    {"max_replicated_calls", "67", OPTION(server.control.max_replicated_calls)},
    {"max_replication_wait", "1m8s",
     OPTION(server.control.max_replication_wait)},
    {"max_control_calls", "69", OPTION(server.transport.max_control_calls)},
    {"max_connections", "70",
     OPTION(server.transport.connections.max_connections)},
    {"max_peer_connections", "71",
     OPTION(server.transport.connections.max_peer_connections)},
    {"peer_connection_rate", "72",
     OPTION(server.transport.connections.peer_connection_rate)},
    {"max_connection_streams", "73",
     OPTION(server.transport.max_connection_streams)},
    {"max_message_bytes", "74", OPTION(server.transport.max_message_bytes)},
    {"handshake_timeout", "1m15s", OPTION(server.transport.handshake_timeout)},
    {"first_message_timeout", "1m16s",
     OPTION(server.control.timeouts.first_message)},
    {"progress_timeout", "1m17s", OPTION(server.control.timeouts.progress)},
    {"keepalive_time", "1m18s", OPTION(server.transport.keepalive_time)},
    {"keepalive_timeout", "1m19s", OPTION(server.transport.keepalive_timeout)},
    {"min_ping_interval", "1m20s", OPTION(server.transport.min_ping_interval)},
    {"max_connection_idle", "1m21s",
     OPTION(server.transport.max_connection_idle)},
    {"max_connection_age", "1m22s",
     OPTION(server.transport.max_connection_age)},
    {"max_connection_age_grace", "1m23s",
     OPTION(server.transport.max_connection_age_grace)},
    {"log_level", "v84", OPTION(log_level)},
    {"log_format", "v85", OPTION(log_format)},
    {"slow_batch", "1m26s", OPTION(server.slow_batch)},
    {"otlp_endpoint", "v87", OPTION(otlp.endpoint)},
    {"otlp_ca", "v88", OPTION(otlp.tls.ca.path)},
    {"otlp_cert", "v89", OPTION(otlp.tls.cert.path)},
    {"otlp_key", "v90", OPTION(otlp.tls.key.path)},
    {"trace_batches", "91", OPTION(otlp.batches_per_span)},
    {"drain_timeout", "1m32s", OPTION(drain_timeout)},
};

TEST_F(ServerFlags, ValuesReachTheOptions) {
  // Those that exclude others, or are more than their text: see below.
  std::set<std::string> known = {
      "config",      "follow",           "insecure",
      "lookup_cpus", "peer_gids",        "peer_uids",
      "routes",      "unix_socket_mode", "unix_socket_owner"};
  for (const FlagCase& each : kFlagCases) {
    Set(each.flag, each.value);
    known.insert(each.flag);
  }
  const auto line = ReadFlags();
  ASSERT_TRUE(line.ok()) << line.status();
  for (const FlagCase& each : kFlagCases) {
    EXPECT_EQ(each.option(*line), each.value) << each.flag;
  }
  EXPECT_EQ(line->otlp.instance, line->store.replica_name);
  for (const auto& [name, value] : ValuesOfFlags()) {
    EXPECT_EQ(known.count(name), 1U) << name << " has no case";
  }
}

// A flag of bytes says so by its name, or is this one.
TEST_F(ServerFlags, SizesHaveUnits) {
  int sizes = 0;
  for (const auto& [name, default_value] : ValuesOfFlags()) {
    if (!absl::EndsWith(name, "_bytes") && name != "unix_send_buffer") {
      continue;
    }
    ++sizes;
    absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    for (const char* value : {"7", "512KiB", "64MiB", "1GiB"}) {
      Set(name, value);
      EXPECT_EQ(flag->CurrentValue(), value);
    }
    std::string error;
    for (const char* value : {"-1", "1kB", "1MB", "MiB", "1.5MiB"}) {
      EXPECT_FALSE(flag->ParseFrom(value, &error)) << name << "=" << value;
      EXPECT_TRUE(absl::StrContains(error, "64MiB")) << error;
    }
  }
  EXPECT_EQ(sizes, 6);
}

TEST_F(ServerFlags, ListsAndModesReachTheOptions) {
  Set("unix_socket_mode", "0606");
  Set("unix_socket_owner", "1:2");
  Set("peer_uids", "3,4");
  Set("peer_gids", "5");
  Set("lookup_cpus", "1,3,0");
  Set("routes", "/r.txt");
  const auto line = ReadFlags();
  ASSERT_TRUE(line.ok()) << line.status();
  const ServerOptions& got = line->server;
  EXPECT_EQ(got.socket_file.mode, mode_t{0606});
  EXPECT_EQ(got.socket_file.uid, 1u);
  EXPECT_EQ(got.socket_file.gid, 2u);
  EXPECT_EQ(got.peers.uids, (std::vector<uid_t>{3, 4}));
  EXPECT_EQ(got.peers.gids, std::vector<gid_t>{5});
  EXPECT_EQ(got.threads.cpus, (std::vector<int>{1, 3, 0}));
  EXPECT_EQ(got.initial.routes_file, "/r.txt");
}

TEST_F(ServerFlags, PlaintextAndTlsExcludeEachOther) {
  Set("insecure", "true");
  EXPECT_TRUE(ReadFlags()->server.insecure);
  Set("tls_cert", "c");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFlags().status()));
  // Of another server.
  Set("follow", "elsewhere:1");
  EXPECT_TRUE(ReadFlags()->store.insecure);
  EXPECT_EQ(ReadFlags()->store.follow, "elsewhere:1");
  Set("follow", "localhost:1");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFlags().status()));
}

TEST_F(ServerFlags, PortZeroMayBeThereTwice) {
  Set("listen", "127.0.0.1:0,127.0.0.1:0");
  EXPECT_TRUE(ReadFlags().ok());
}

TEST_F(ServerFlags, ContradictionsAreRefused) {
  struct Case {
    const char* flag;
    const char* value;
    const char* says;
  };
  for (const Case& wrong :
       {Case{"lookup_cpus", "0,x", "\"x\" is no number"},
        Case{"lookup_cpus", "-1", "\"-1\" is no number"},
        Case{"lookup_threads", "1025", "--lookup_threads"},
        Case{"lookup_spin", "-1us", "--lookup_spin"},
        Case{"slow_batch", "-1us", "--slow_batch"},
        Case{"max_staleness", "-1s", "--max_staleness must not be neg"},
        Case{"tls_reload_interval", "0s", "--tls_reload_interval"},
        Case{"drain_timeout", "-1s", "--drain_timeout"},
        Case{"max_generation_wait", "-1s", "--max_generation_wait"},
        Case{"max_replication_wait", "-1s", "--max_replication_wait"},
        Case{"unix_send_buffer", "2GiB", "--unix_send_buffer"},
        Case{"max_message_bytes", "2GiB", "--max_message_bytes"},
        Case{"max_staleness", "1s", "--max_staleness has no effect without"},
        Case{"otlp_ca", "c", "--otlp_ca has no effect without --otlp_endp"},
        Case{"max_pending_updates", "0", "--max_pending_updates must be at"},
        Case{"listen", "[::1]:1,unix:///a,[::1]:1", "--listen: [::1]:1 is"},
        Case{"control_listen", "unix:///run/planb/planb.sock",
             "--control_listen: unix:///run/planb/planb.sock is there twice"},
        Case{"generate", "4000001", "--max_routes"}}) {
    absl::FlagSaver saver;
    Set(wrong.flag, wrong.value);
    const absl::Status status = ReadFlags().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong.flag;
    EXPECT_TRUE(absl::StrContains(status.message(), wrong.says)) << status;
  }
}

}  // namespace
}  // namespace planb::server
