// SPDX-License-Identifier: Apache-2.0

// All flags of planbctl. absl's flags share one name space. Each command lists
// its flags (Command::flags); another flag is a usage error.

#ifndef PLANB_CLIENT_PLANBCTL_FLAGS_H_
#define PLANB_CLIENT_PLANBCTL_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/flags/declare.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/load/trace.h"
#include "lpm/address.h"
#include "lpm/synthetic/traffic.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client {

// The values of flags that choose one of a few words.
//
// --ack
enum class AckChoice { kAccepted, kVisible, kPersisted };
bool AbslParseFlag(absl::string_view text, AckChoice* ack, std::string* error);
std::string AbslUnparseFlag(AckChoice ack);

// --match
struct MatchChoice {
  v1::ListRoutesRequest::Match match = v1::ListRoutesRequest::MATCH_SUBTREE;
};
bool AbslParseFlag(absl::string_view text, MatchChoice* choice,
                   std::string* error);
std::string AbslUnparseFlag(MatchChoice choice);

// --trace
struct TraceChoice {
  TraceKind kind = TraceKind::kUniform;
};
bool AbslParseFlag(absl::string_view text, TraceChoice* trace,
                   std::string* error);
std::string AbslUnparseFlag(TraceChoice trace);

// --form
struct FormChoice {
  bool upper = false;
};
bool AbslParseFlag(absl::string_view text, FormChoice* choice,
                   std::string* error);
std::string AbslUnparseFlag(FormChoice choice);

// --arrivals
struct ArrivalChoice {
  ArrivalKind kind = ArrivalKind::kEven;
};
bool AbslParseFlag(absl::string_view text, ArrivalChoice* choice,
                   std::string* error);
std::string AbslUnparseFlag(ArrivalChoice choice);

// --family
struct FamilyChoice {
  Family family = Family::kIpv6;
};
bool AbslParseFlag(absl::string_view text, FamilyChoice* choice,
                   std::string* error);
std::string AbslUnparseFlag(FamilyChoice choice);

}  // namespace planb::client

// Of every command.
ABSL_DECLARE_FLAG(std::string, server);
ABSL_DECLARE_FLAG(std::string, tls_ca);
ABSL_DECLARE_FLAG(std::string, tls_cert);
ABSL_DECLARE_FLAG(std::string, tls_key);
ABSL_DECLARE_FLAG(std::string, tls_server_name);
ABSL_DECLARE_FLAG(std::string, table);
ABSL_DECLARE_FLAG(bool, json);
ABSL_DECLARE_FLAG(absl::Duration, timeout);

// Of changes.
ABSL_DECLARE_FLAG(planb::client::AckChoice, ack);
ABSL_DECLARE_FLAG(bool, strict);
ABSL_DECLARE_FLAG(std::optional<uint64_t>, expected_generation);
ABSL_DECLARE_FLAG(bool, dry_run);
ABSL_DECLARE_FLAG(uint32_t, chunk);
ABSL_DECLARE_FLAG(double, speed);
ABSL_DECLARE_FLAG(uint64_t, writer_epoch);
ABSL_DECLARE_FLAG(std::string, request_id);

// Of next hops and groups.
ABSL_DECLARE_FLAG(std::string, gateway);
ABSL_DECLARE_FLAG(std::string, interface);
ABSL_DECLARE_FLAG(uint32_t, weight);
ABSL_DECLARE_FLAG(std::string, label);

// Of lists and watches.
ABSL_DECLARE_FLAG(std::optional<planb::client::MatchChoice>, match);
ABSL_DECLARE_FLAG(uint32_t, next_hop);
ABSL_DECLARE_FLAG(std::optional<uint64_t>, start);
ABSL_DECLARE_FLAG(uint64_t, count);

// Of lookups.
ABSL_DECLARE_FLAG(bool, prefixes);
ABSL_DECLARE_FLAG(std::optional<uint32_t>, flow_hash);
ABSL_DECLARE_FLAG(uint32_t, batch);
ABSL_DECLARE_FLAG(uint32_t, depth);
ABSL_DECLARE_FLAG(uint32_t, streams);
ABSL_DECLARE_FLAG(uint32_t, connections);
ABSL_DECLARE_FLAG(double, rate);
ABSL_DECLARE_FLAG(planb::client::ArrivalChoice, arrivals);
ABSL_DECLARE_FLAG(absl::Duration, warmup);
ABSL_DECLARE_FLAG(absl::Duration, drain);
ABSL_DECLARE_FLAG(bool, spin);
ABSL_DECLARE_FLAG(std::string, client_cpus);
ABSL_DECLARE_FLAG(int32_t, server_pid);
ABSL_DECLARE_FLAG(bool, quiet);
ABSL_DECLARE_FLAG(double, seconds);
ABSL_DECLARE_FLAG(std::string, addresses);
ABSL_DECLARE_FLAG(planb::client::TraceChoice, trace);
ABSL_DECLARE_FLAG(planb::client::FamilyChoice, family);
ABSL_DECLARE_FLAG(planb::client::FormChoice, form);
ABSL_DECLARE_FLAG(bool, check);
ABSL_DECLARE_FLAG(uint64_t, samples);

// Of tables made up or read.
ABSL_DECLARE_FLAG(std::string, routes);
ABSL_DECLARE_FLAG(uint64_t, synthetic);
ABSL_DECLARE_FLAG(uint64_t, ipv4);
ABSL_DECLARE_FLAG(uint64_t, seed);
ABSL_DECLARE_FLAG(uint32_t, next_hops);
ABSL_DECLARE_FLAG(std::string, output);

// Of health.
ABSL_DECLARE_FLAG(std::string, service);

#endif  // PLANB_CLIENT_PLANBCTL_FLAGS_H_
