// SPDX-License-Identifier: Apache-2.0

// "planbctl help COMMAND" prints the texts below.

#include "client/planbctl/flags.h"

#include "absl/flags/flag.h"

namespace planb::client {

// Parses a word of a list. The error shows the list.

bool AbslParseFlag(absl::string_view text, AckChoice* ack, std::string* error) {
  for (AckChoice choice :
       {AckChoice::kAccepted, AckChoice::kVisible, AckChoice::kPersisted}) {
    if (text != AbslUnparseFlag(choice)) continue;
    *ack = choice;
    return true;
  }
  *error = "must be accepted, visible or persisted";
  return false;
}

std::string AbslUnparseFlag(AckChoice ack) {
  switch (ack) {
    case AckChoice::kAccepted:
      return "accepted";
    case AckChoice::kVisible:
      return "visible";
    case AckChoice::kPersisted:
      return "persisted";
  }
  return "";
}

bool AbslParseFlag(absl::string_view text, MatchChoice* choice,
                   std::string* error) {
  for (auto match : {v1::ListRoutesRequest::MATCH_EXACT,
                     v1::ListRoutesRequest::MATCH_COVERING,
                     v1::ListRoutesRequest::MATCH_SUBTREE}) {
    choice->match = match;
    if (text == AbslUnparseFlag(*choice)) return true;
  }
  *error = "must be exact, covering or subtree";
  return false;
}

std::string AbslUnparseFlag(MatchChoice choice) {
  switch (choice.match) {
    case v1::ListRoutesRequest::MATCH_EXACT:
      return "exact";
    case v1::ListRoutesRequest::MATCH_COVERING:
      return "covering";
    default:
      return "subtree";
  }
}

bool AbslParseFlag(absl::string_view text, TraceChoice* trace,
                   std::string* error) {
  const absl::StatusOr<TraceKind> kind = ParseTraceKind(text);
  if (!kind.ok()) {
    *error = std::string(kind.status().message());
    return false;
  }
  trace->kind = *kind;
  return true;
}

std::string AbslUnparseFlag(TraceChoice trace) {
  return std::string(TraceKindName(trace.kind));
}

bool AbslParseFlag(absl::string_view text, ArrivalChoice* choice,
                   std::string* error) {
  if (text == "even") {
    choice->kind = ArrivalKind::kEven;
  } else if (text == "poisson") {
    choice->kind = ArrivalKind::kPoisson;
  } else {
    *error = "must be even or poisson";
    return false;
  }
  return true;
}

std::string AbslUnparseFlag(ArrivalChoice choice) {
  return choice.kind == ArrivalKind::kEven ? "even" : "poisson";
}

bool AbslParseFlag(absl::string_view text, FormChoice* choice,
                   std::string* error) {
  if (text != "full" && text != "upper") {
    *error = "must be full or upper";
    return false;
  }
  choice->upper = text == "upper";
  return true;
}

std::string AbslUnparseFlag(FormChoice choice) {
  return choice.upper ? "upper" : "full";
}

bool AbslParseFlag(absl::string_view text, FamilyChoice* choice,
                   std::string* error) {
  if (text == "ipv4") {
    choice->family = Family::kIpv4;
  } else if (text == "ipv6") {
    choice->family = Family::kIpv6;
  } else {
    *error = "must be ipv4 or ipv6";
    return false;
  }
  return true;
}

std::string AbslUnparseFlag(FamilyChoice choice) {
  return choice.family == Family::kIpv4 ? "ipv4" : "ipv6";
}

}  // namespace planb::client

using planb::client::AckChoice;
using planb::client::ArrivalChoice;
using planb::client::FamilyChoice;
using planb::client::FormChoice;
using planb::client::MatchChoice;
using planb::client::TraceChoice;

ABSL_FLAG(std::string, server, "",
          "The server: unix:///path, host:port or [address]:port. If empty, "
          "the environment variable PLANB_SERVER; if that is unset, "
          "unix:///run/planb/planb.sock.");
ABSL_FLAG(
    std::string, tls_ca, "",
    "Use TLS, with these certificate authorities for the server: a file in "
    "PEM. If empty: the authorities that this host trusts if another TLS "
    "flag is given, otherwise plaintext.");
ABSL_FLAG(
    std::string, tls_cert, "",
    "The client's certificate, for a server that asks for one: a file in PEM.");
ABSL_FLAG(std::string, tls_key, "",
          "Private key of --tls_cert: a file in PEM.");
ABSL_FLAG(std::string, tls_server_name, "",
          "The name required in the server's certificate; empty: the host of "
          "--server.");
ABSL_FLAG(std::string, table, "",
          "Name of the routing table; empty means \"default\".");
ABSL_FLAG(bool, json, false,
          "Print JSON Lines, one object a line, with the fields of "
          "client/planbctl/proto/planb/client/.");
ABSL_FLAG(
    absl::Duration, timeout, absl::Seconds(10),
    "Bounds connecting, and each call as a whole, also lists, replacements "
    "and snapshots: raise it for large tables. For streams it bounds less: "
    "each wait for an answer (lookup, bench, soak, verify), the absence of "
    "the server (\"routes watch\"), and each wait for credits and for the "
    "last answers (replay). For example 500ms or 1m.");

ABSL_FLAG(
    AckChoice, ack, AckChoice::kVisible,
    "The state to wait for: accepted (the table holds the change), visible "
    "(every later lookup sees it) or persisted (it survives a crash; a "
    "server without a store refuses this).");
ABSL_FLAG(bool, strict, false,
          "announce: refuse prefixes that have a route; withdraw: refuse "
          "prefixes without a route; load, replay: stop at the first malformed "
          "record instead of skipping it.");
ABSL_FLAG(std::optional<uint64_t>, expected_generation, std::nullopt,
          "Change the table only if this is its generation.");
ABSL_FLAG(bool, dry_run, false, "Validate and count, but change nothing.");
ABSL_FLAG(uint64_t, writer_epoch, 0,
          "The epoch of this writer. A table refuses an epoch lower than the "
          "highest it has seen, so that an old writer cannot change it.");
ABSL_FLAG(
    std::string, request_id, "",
    "A name for this change. A repetition of the change with the same name "
    "gets the first answer and changes nothing.");
ABSL_FLAG(
    uint32_t, chunk, 10'000,
    "load: routes in one UpdateRoutes call; replay: changes in one batch, "
    "at most.");
ABSL_FLAG(double, speed, 1,
          "Speed relative to the recording; 0: as fast as possible.");

ABSL_FLAG(std::string, gateway, "", "Address of the gateway; empty: none.");
ABSL_FLAG(std::string, interface, "", "Outgoing interface; empty: none.");
ABSL_FLAG(uint32_t, weight, 1, "Weight relative to other next hops.");
ABSL_FLAG(std::string, label, "", "Free text.");

ABSL_FLAG(
    std::optional<MatchChoice>, match, std::nullopt,
    "With PREFIX: exact (its own route), covering (also routes of prefixes "
    "that contain it) or subtree (also routes of prefixes within it; the "
    "default).");
ABSL_FLAG(uint32_t, next_hop, 0, "Only routes to this next hop; 0: all.");
ABSL_FLAG(std::optional<uint64_t>, start, std::nullopt,
          "Show changes of generations above this one. Without: above the "
          "generation that lookups see now.");
ABSL_FLAG(uint64_t, count, 0,
          "End after this many generations; 0: when interrupted.");

ABSL_FLAG(bool, prefixes, true,
          "Also return the matched prefix, in batches of at most 4096. Long "
          "lists of addresses are faster without.");
ABSL_FLAG(
    std::optional<uint32_t>, flow_hash, std::nullopt,
    "The hash of the flow. For a next-hop group, the answer is the member "
    "that this flow takes.");
ABSL_FLAG(uint32_t, batch, 4096, "Addresses in one batch of a stream.");
ABSL_FLAG(uint32_t, depth, 4, "Batches in flight on a stream.");
ABSL_FLAG(uint32_t, streams, 1,
          "Number of streams, each with its own threads.");
ABSL_FLAG(uint32_t, connections, 0,
          "Number of connections, which the streams share in turn; 0: one for "
          "each stream.");
ABSL_FLAG(double, rate, 0,
          "Open loop: lookups a second of all streams together, such as 5e7; "
          "a batch is due every batch/rate seconds. 0: closed loop.");
ABSL_FLAG(ArrivalChoice, arrivals, ArrivalChoice{},
          "Open loop: even (equal gaps) or poisson (exponential gaps, as of "
          "many independent callers).");
ABSL_FLAG(double, seconds, 10, "How long to run.");
ABSL_FLAG(absl::Duration, warmup, absl::Seconds(1),
          "Time to run before --seconds, without counting.");
ABSL_FLAG(absl::Duration, drain, absl::Seconds(1),
          "Time to wait, after --seconds, for batches that are due and not "
          "answered.");
ABSL_FLAG(bool, spin, false,
          "Wait by polling without a pause. This removes wake-ups from the "
          "latency and keeps a core busy. An open loop then has one thread for "
          "a stream instead of one that sends and one that receives.");
ABSL_FLAG(
    std::string, client_cpus, "",
    "Cores for planbctl: numbers and ranges, such as 1 or 0,2-3. Stream i "
    "runs on the i-th, in turn; other threads run on any of them.");
ABSL_FLAG(int32_t, server_pid, 0,
          "Also report the CPU time of this process, the server.");
ABSL_FLAG(bool, quiet, false,
          "Do not print a line of progress each second to stderr.");
ABSL_FLAG(std::string, addresses, "",
          "Look up the addresses of this file, one a line, over and over.");
ABSL_FLAG(TraceChoice, trace, TraceChoice{},
          "Without --addresses: uniform (random in 2000::/3, or in all of "
          "IPv4), or random in routes of --routes or --synthetic: match (each "
          "as likely), zipf (the k-th most popular with weight 1/k), long (of "
          "those beyond /64), repeat (sixteen addresses over and over).");
ABSL_FLAG(FamilyChoice, family, FamilyChoice{}, "ipv6 or ipv4.");
ABSL_FLAG(FormChoice, form, FormChoice{},
          "full (whole addresses) or upper (the upper halves of IPv6 "
          "addresses, for routes on /64 and shorter).");
ABSL_FLAG(bool, check, false,
          "Compare every answer with the table of --routes or --synthetic. The "
          "server must have the same table, and it must not change.");
ABSL_FLAG(uint64_t, samples, 1'000'000,
          "Number of sampled addresses, in addition to those at the boundaries "
          "of the routes.");

ABSL_FLAG(std::string, routes, "",
          "generate: number of IPv6 routes, 100000 if empty; bench: a file of "
          "routes, as for load.");
ABSL_FLAG(uint64_t, synthetic, 0,
          "Instead of a file: the table that \"generate\" makes with this many "
          "IPv6 routes and the same --ipv4, --seed and --next_hops.");
ABSL_FLAG(uint64_t, ipv4, 0, "Number of synthetic IPv4 routes.");
ABSL_FLAG(uint64_t, seed, 1,
          "The same seed makes the same table and the same addresses.");
ABSL_FLAG(uint32_t, next_hops, 64,
          "Synthetic routes use the next hops 1 to this.");
ABSL_FLAG(std::string, output, "",
          "Write to this file instead of the standard output.");

ABSL_FLAG(std::string, service, "",
          "Full name of a gRPC service; empty means the server as a whole.");
