// SPDX-License-Identifier: Apache-2.0

// "planbctl help COMMAND" prints the texts below.

#include "client/planbctl/flags.h"

#include "absl/flags/flag.h"

namespace planb::client {

absl::Span<const Word<v1::Ack>> WordsFor(v1::Ack) {
  static constexpr Word<v1::Ack> kWords[] = {
      {"accepted", v1::ACK_ACCEPTED},
      {"visible", v1::ACK_VISIBLE},
      {"persisted", v1::ACK_PERSISTED},
      {"replicated", v1::ACK_REPLICATED}};
  return kWords;
}

absl::Span<const Word<v1::ListRoutesRequest::Match>> WordsFor(
    v1::ListRoutesRequest::Match) {
  static constexpr Word<v1::ListRoutesRequest::Match> kWords[] = {
      {"exact", v1::ListRoutesRequest::MATCH_EXACT},
      {"covering", v1::ListRoutesRequest::MATCH_COVERING},
      {"subtree", v1::ListRoutesRequest::MATCH_SUBTREE}};
  return kWords;
}

absl::Span<const Word<TraceKind>> WordsFor(TraceKind) {
  static constexpr Word<TraceKind> kWords[] = {{"uniform", TraceKind::kUniform},
                                               {"match", TraceKind::kMatch},
                                               {"zipf", TraceKind::kZipf},
                                               {"long", TraceKind::kLong},
                                               {"repeat", TraceKind::kRepeat}};
  return kWords;
}

absl::Span<const Word<AddressForm>> WordsFor(AddressForm) {
  static constexpr Word<AddressForm> kWords[] = {
      {"full", AddressForm::kFull}, {"upper", AddressForm::kUpper}};
  return kWords;
}

absl::Span<const Word<ArrivalKind>> WordsFor(ArrivalKind) {
  static constexpr Word<ArrivalKind> kWords[] = {
      {"even", ArrivalKind::kEven}, {"poisson", ArrivalKind::kPoisson}};
  return kWords;
}

absl::Span<const Word<Family>> WordsFor(Family) {
  static constexpr Word<Family> kWords[] = {{"ipv4", Family::kIpv4},
                                            {"ipv6", Family::kIpv6}};
  return kWords;
}

absl::Span<const Word<OutputForm>> WordsFor(OutputForm) {
  static constexpr Word<OutputForm> kWords[] = {{"table", OutputForm::kTable},
                                                {"json", OutputForm::kJson},
                                                {"yaml", OutputForm::kYaml},
                                                {"csv", OutputForm::kCsv}};
  return kWords;
}

absl::Span<const Word<ColorWhen>> WordsFor(ColorWhen) {
  static constexpr Word<ColorWhen> kWords[] = {{"auto", ColorWhen::kAuto},
                                               {"always", ColorWhen::kAlways},
                                               {"never", ColorWhen::kNever}};
  return kWords;
}

std::string AbslUnparseFlag(OptionalNextHop next_hop) {
  return absl::StrCat(next_hop.id);
}

bool AbslParseFlag(absl::string_view text, OptionalNextHop* next_hop,
                   std::string* error) {
  const std::optional<NextHopId> id =
      text == "0" ? kNoRoute : ParseNextHopId(text);
  *error = "must be a number of 0..4294967294, without a sign or leading zeros";
  next_hop->id = id.value_or(kNoRoute);
  return id.has_value();
}

}  // namespace planb::client

ABSL_FLAG(std::string, table, "",
          "Name of the routing table; empty means \"default\".");
ABSL_FLAG(
    planb::client::Choice<planb::client::OutputForm>, output,
    {planb::client::OutputForm::kTable},
    "How to print answers: table (text for humans), json (JSON Lines, one "
    "object a line), yaml (a document each) or csv (a header, then a row "
    "each). The last three have the fields of "
    "client/planbctl/proto/planb/client/.");
ABSL_FLAG(bool, json, false, "The same as --output=json.");
ABSL_FLAG(planb::client::Choice<planb::client::ColorWhen>, color,
          {planb::client::ColorWhen::kAuto},
          "Colors in text for humans: auto (on a terminal, unless NO_COLOR is "
          "set), always or never.");
ABSL_FLAG(
    absl::Duration, timeout, absl::Seconds(10),
    "Bounds connecting, and each call as a whole, also lists, replacements "
    "and snapshots: raise it for large tables. For streams it bounds less: "
    "each wait for an answer (lookup, bench, soak, verify), the absence of "
    "the server (\"routes watch\"), and each wait for credits and for the "
    "last answers (replay). For example 500ms or 1m.");
ABSL_FLAG(
    planb::client::Choice<planb::v1::Ack>, ack, {planb::v1::ACK_VISIBLE},
    "The state to wait for: accepted (the table holds the change), visible "
    "(every later lookup sees it), persisted (it survives a power loss; a "
    "server refuses this without a store that syncs each update) or replicated "
    "(visible on --ack_replicas of the servers that share a store).");
ABSL_FLAG(uint32_t, ack_replicas, 0,
          "With --ack=replicated: the number of servers; 0 means all.");
ABSL_FLAG(bool, strict, false,
          "announce: refuse prefixes that have a route; withdraw: refuse "
          "prefixes without a route; load, replay: stop at the first record "
          "that is malformed or cut, or whose route is lost, instead of "
          "skipping it; enrich: stop at the first malformed record instead of "
          "passing it. \"routes replace\", \"routes diff\" and \"snapshot "
          "import\" always do.");
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
    "load: routes in one UpdateRoutes call; replay: changes in one batch; "
    "nexthop prune: objects in one call, "
    "at most.");
ABSL_FLAG(
    bool, await_complete, false,
    "Wait until the table is complete: until its writer has said that all "
    "its sources have told all (\"table complete\"). For --timeout at "
    "most.");
ABSL_FLAG(
    std::optional<uint32_t>, flow_hash, std::nullopt,
    "The hash of the flow. For a next-hop group, the answer is the member "
    "that this flow takes.");
ABSL_FLAG(uint32_t, batch, 4096, "Addresses in one batch of a stream.");
ABSL_FLAG(uint32_t, depth, 4, "Batches in flight on a stream.");
ABSL_FLAG(uint32_t, streams, 1,
          "Number of streams, each with its own threads.");
ABSL_FLAG(double, rate, 0,
          "Open loop: lookups a second of all streams together, such as 5e7; "
          "a batch is due every batch/rate seconds. 0: closed loop.");
ABSL_FLAG(double, seconds, 10, "How long to run.");
ABSL_FLAG(planb::client::Choice<planb::Family>, family, {planb::Family::kIpv6},
          "ipv6 or ipv4.");
ABSL_FLAG(std::string, routes, "",
          "generate: number of IPv6 routes, 100000 if empty; bench: a file of "
          "routes, as for load.");
ABSL_FLAG(bool, allow_empty, false,
          "Take a file with nothing in it for a table without routes, instead "
          "of refusing it.");
ABSL_FLAG(uint64_t, ipv4, 0, "Number of synthetic IPv4 routes.");
ABSL_FLAG(uint64_t, seed, 1,
          "The same seed makes the same table and the same addresses.");
