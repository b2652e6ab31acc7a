// SPDX-License-Identifier: Apache-2.0

// Each flag sets its option, and its default is that of the option.

#include "server/server_flags.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/match.h"

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
  EXPECT_EQ(got.health_address, own.health_address);
  EXPECT_EQ(got.empty_table_ready, own.empty_table_ready);
  EXPECT_EQ(got.max_staleness, own.max_staleness);
  EXPECT_FALSE(got.initial.partial);
  EXPECT_FALSE(got.initial.allow_empty);
  EXPECT_FALSE(got.tls.enabled());
  EXPECT_EQ(got.tls.reload_interval, own.tls.reload_interval);
  EXPECT_EQ(got.insecure, own.insecure);
  EXPECT_EQ(got.simd, own.simd);
  EXPECT_EQ(got.socket_file.mode, own.socket_file.mode);
  EXPECT_TRUE(got.peers.AllowAnyone());
  EXPECT_EQ(got.authorization.policy_file, "");
  EXPECT_EQ(got.authorization.reload_interval,
            own.authorization.reload_interval);
  EXPECT_EQ(got.tables.table.limits.max_routes,
            own.tables.table.limits.max_routes);
  EXPECT_EQ(got.tables.table.limits.max_next_hops,
            own.tables.table.limits.max_next_hops);
  EXPECT_FALSE(got.tables.default_fib.prefix_lengths);
  EXPECT_EQ(got.tables.table.max_pending_updates,
            own.tables.table.max_pending_updates);
  EXPECT_EQ(got.lookup.max_batch_addresses, own.lookup.max_batch_addresses);
  EXPECT_EQ(got.lookup.max_lookup_addresses, own.lookup.max_lookup_addresses);
  EXPECT_EQ(got.lookup.max_generation_wait, own.lookup.max_generation_wait);
  EXPECT_EQ(got.lookup.max_streams, own.lookup.max_streams);
  EXPECT_EQ(got.control.max_update_routes, own.control.max_update_routes);
  EXPECT_EQ(got.control.update_memory_bytes, own.control.update_memory_bytes);
  EXPECT_EQ(got.control.max_lists, own.control.max_lists);
  EXPECT_EQ(got.control.max_replacements, own.control.max_replacements);
  EXPECT_EQ(got.control.max_replicated_calls, own.control.max_replicated_calls);
  EXPECT_EQ(got.control.max_replication_wait, own.control.max_replication_wait);
  EXPECT_EQ(got.control.timeouts.first_message,
            own.control.timeouts.first_message);
  EXPECT_EQ(got.control.timeouts.progress, own.control.timeouts.progress);
  EXPECT_EQ(got.threads.count, own.threads.count);
  EXPECT_EQ(got.threads.cpus, own.threads.cpus);
  EXPECT_EQ(got.threads.spin, own.threads.spin);
  const TransportOptions& transport = got.transport;
  EXPECT_EQ(transport.max_message_bytes, own.transport.max_message_bytes);
  EXPECT_EQ(transport.memory_quota_bytes, own.transport.memory_quota_bytes);
  EXPECT_EQ(transport.max_control_calls, own.transport.max_control_calls);
  EXPECT_EQ(transport.max_connection_streams,
            own.transport.max_connection_streams);
  EXPECT_EQ(transport.keepalive_time, own.transport.keepalive_time);
  EXPECT_EQ(transport.keepalive_timeout, own.transport.keepalive_timeout);
  EXPECT_EQ(transport.min_ping_interval, own.transport.min_ping_interval);
  EXPECT_EQ(transport.max_connection_idle, own.transport.max_connection_idle);
  EXPECT_EQ(transport.max_connection_age, own.transport.max_connection_age);
  EXPECT_EQ(transport.max_connection_age_grace,
            own.transport.max_connection_age_grace);
  EXPECT_EQ(transport.sockets.unix_send_buffer,
            own.transport.sockets.unix_send_buffer);
  EXPECT_EQ(transport.sockets.loopback_congestion,
            own.transport.sockets.loopback_congestion);
}

TEST_F(ServerFlags, ValuesReachTheOptions) {
  Set("listen", "unix:///a,[::]:1");
  Set("health_address", "[::]:2");
  Set("empty_table_ready", "false");
  Set("max_staleness", "7s");
  Set("follow", "unix:/u");
  Set("follow_ca", "fa");
  Set("follow_cert", "fc");
  Set("follow_key", "fk");
  Set("replica_name", "r1");
  Set("cache", "/c");
  Set("otlp_endpoint", "c:4317");
  Set("otlp_ca", "oa");
  Set("otlp_cert", "oc");
  Set("otlp_key", "ok");
  Set("trace_batches", "77");
  Set("tls_cert", "c");
  Set("tls_key", "k");
  Set("tls_client_ca", "a");
  Set("tls_reload_interval", "2s");
  Set("routes_partial", "true");
  Set("allow_empty", "true");
  Set("generate", "3");
  Set("generate_ipv4", "4");
  Set("generate_seed", "5");
  Set("prefix_lengths", "true");
  Set("max_routes", "7");
  Set("max_next_hops", "8");
  Set("max_pending_updates", "9");
  Set("max_batch_addresses", "10");
  Set("max_lookup_addresses", "11");
  Set("max_streams", "12");
  Set("max_lists", "13");
  Set("max_update_routes", "14");
  Set("update_memory_bytes", "20");
  Set("max_replacements", "21");
  Set("max_replicated_calls", "24");
  Set("max_replication_wait", "25s");
  Set("first_message_timeout", "22s");
  Set("progress_timeout", "23s");
  Set("lookup_threads", "2");
  Set("lookup_cpus", "1,3,0");
  Set("lookup_spin", "50us");
  Set("polling", "poll");
  Set("control_listen", "unix:///b");
  Set("max_connection_streams", "15");
  Set("keepalive_time", "16s");
  Set("keepalive_timeout", "17s");
  Set("drain_timeout", "18s");
  Set("unix_send_buffer", "300KiB");
  Set("max_message_bytes", "3MiB");
  Set("memory_quota_bytes", "1GiB");
  Set("max_table_memory_bytes", "1025");
  Set("history_bytes", "0");
  Set("log_level", "debug");
  Set("log_format", "json");
  Set("slow_batch", "19ms");
  const auto line = ReadFlags();
  ASSERT_TRUE(line.ok()) << line.status();
  const ServerOptions& got = line->server;
  EXPECT_EQ(line->polling, "poll");
  EXPECT_EQ(got.control_listen, std::vector<std::string>{"unix:///b"});
  EXPECT_EQ(got.listen, (std::vector<std::string>{"unix:///a", "[::]:1"}));
  EXPECT_EQ(got.health_address, "[::]:2");
  EXPECT_FALSE(got.empty_table_ready);
  EXPECT_EQ(got.max_staleness, absl::Seconds(7));
  EXPECT_EQ(line->store.follow, "unix:/u");
  EXPECT_EQ(line->store.follow_tls.ca.path, "fa");
  EXPECT_EQ(line->store.follow_tls.cert.path, "fc");
  EXPECT_EQ(line->store.follow_tls.key.path, "fk");
  EXPECT_EQ(line->store.replica_name, "r1");
  EXPECT_EQ(line->store.cache, "/c");
  EXPECT_EQ(line->otlp.endpoint, "c:4317");
  EXPECT_EQ(line->otlp.tls.ca.path, "oa");
  EXPECT_EQ(line->otlp.tls.cert.path, "oc");
  EXPECT_EQ(line->otlp.tls.key.path, "ok");
  EXPECT_EQ(line->otlp.batches_per_span, 77U);
  EXPECT_EQ(line->otlp.instance, "r1");
  EXPECT_EQ(got.tls.cert, "c");
  EXPECT_EQ(got.tls.key, "k");
  EXPECT_EQ(got.tls.client_ca, "a");
  EXPECT_EQ(got.tls.reload_interval, absl::Seconds(2));
  EXPECT_FALSE(got.insecure);
  EXPECT_TRUE(got.initial.partial);
  EXPECT_TRUE(got.initial.allow_empty);
  EXPECT_EQ(got.initial.generate_v6, 3u);
  EXPECT_EQ(got.initial.generate_v4, 4u);
  EXPECT_EQ(got.initial.seed, 5u);
  EXPECT_TRUE(got.tables.default_fib.prefix_lengths);
  EXPECT_EQ(got.tables.table.limits.max_routes, 7u);
  EXPECT_EQ(got.tables.table.limits.max_next_hops, 8u);
  EXPECT_EQ(got.tables.table.max_pending_updates, 9u);
  EXPECT_EQ(got.lookup.max_batch_addresses, 10u);
  EXPECT_EQ(got.lookup.max_lookup_addresses, 11u);
  EXPECT_EQ(got.lookup.max_streams, 12u);
  EXPECT_EQ(got.control.max_lists, 13u);
  EXPECT_EQ(got.control.max_update_routes, 14u);
  EXPECT_EQ(got.control.update_memory_bytes, 20u);
  EXPECT_EQ(got.control.max_replacements, 21u);
  EXPECT_EQ(got.control.max_replicated_calls, 24u);
  EXPECT_EQ(got.control.max_replication_wait, absl::Seconds(25));
  EXPECT_EQ(got.control.timeouts.first_message, absl::Seconds(22));
  EXPECT_EQ(got.control.timeouts.progress, absl::Seconds(23));
  EXPECT_EQ(got.threads.count, 2u);
  EXPECT_EQ(got.threads.cpus, (std::vector<int>{1, 3, 0}));
  EXPECT_EQ(got.threads.spin, absl::Microseconds(50));
  EXPECT_EQ(got.transport.max_connection_streams, 15);
  EXPECT_EQ(got.transport.keepalive_time, absl::Seconds(16));
  EXPECT_EQ(got.transport.keepalive_timeout, absl::Seconds(17));
  EXPECT_EQ(line->drain_timeout, absl::Seconds(18));
  EXPECT_EQ(got.transport.sockets.unix_send_buffer, 300 << 10);
  EXPECT_EQ(got.transport.max_message_bytes, 3 << 20);
  EXPECT_EQ(got.transport.memory_quota_bytes, size_t{1} << 30);
  EXPECT_EQ(got.tables.memory_limit, 1025U);
  EXPECT_EQ(got.tables.table.history_bytes, 0U);
  EXPECT_EQ(line->log_level, "debug");
  EXPECT_EQ(line->log_format, "json");
  EXPECT_EQ(got.slow_batch, absl::Milliseconds(19));
}

// A flag of bytes says so by its name, or is this one.
TEST_F(ServerFlags, SizesHaveUnits) {
  int sizes = 0;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (!absl::EndsWith(flag->Filename(), "server/server_flags.cc") ||
        (!absl::EndsWith(name, "_bytes") && name != "unix_send_buffer")) {
      continue;
    }
    ++sizes;
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

TEST_F(ServerFlags, PermissionsReachTheOptions) {
  Set("unix_socket_mode", "0606");
  Set("unix_socket_owner", "1:2");
  Set("peer_uids", "3,4");
  Set("peer_gids", "5");
  Set("authorization_policy", "/a.json");
  Set("authorization_reload_interval", "6s");
  const auto line = ReadFlags();
  ASSERT_TRUE(line.ok()) << line.status();
  const ServerOptions& got = line->server;
  EXPECT_EQ(got.socket_file.mode, mode_t{0606});
  EXPECT_EQ(got.socket_file.uid, 1u);
  EXPECT_EQ(got.socket_file.gid, 2u);
  EXPECT_EQ(got.peers.uids, (std::vector<uid_t>{3, 4}));
  EXPECT_EQ(got.peers.gids, std::vector<gid_t>{5});
  EXPECT_EQ(got.authorization.policy_file, "/a.json");
  EXPECT_EQ(got.authorization.reload_interval, absl::Seconds(6));
}

TEST_F(ServerFlags, PlaintextAndTlsExcludeEachOther) {
  Set("insecure", "true");
  EXPECT_TRUE(ReadFlags()->server.insecure);
  Set("tls_cert", "c");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFlags().status()));
  // Of another server.
  Set("follow", "elsewhere:1");
  EXPECT_TRUE(ReadFlags()->store.insecure);
  Set("follow", "localhost:1");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFlags().status()));
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
        Case{"tls_reload_interval", "0s", "--tls_reload_interval"},
        Case{"drain_timeout", "-1s", "--drain_timeout"},
        Case{"max_generation_wait", "-1s", "--max_generation_wait"},
        Case{"max_replication_wait", "-1s", "--max_replication_wait"},
        Case{"unix_send_buffer", "2GiB", "--unix_send_buffer"},
        Case{"max_message_bytes", "2GiB", "--max_message_bytes"},
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
