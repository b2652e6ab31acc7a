// SPDX-License-Identifier: Apache-2.0

// The flags that several commands share; a flag of one command is in the file
// of the command. absl's flags share one name space. Each command lists its
// flags (Command::flags); another flag is a usage error.

#ifndef PLANB_CLIENT_PLANBCTL_FLAGS_H_
#define PLANB_CLIENT_PLANBCTL_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/flags/declare.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/load/trace.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/traffic.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client {

// How answers are printed.
enum class OutputForm { kTable, kJson, kYaml, kCsv };

enum class ColorWhen { kAuto, kAlways, kNever };

// The value of a flag that is one of a few words.
template <typename Value>
struct Choice {
  Value value = Value();
};

template <typename Value>
struct Word {
  absl::string_view text;
  Value value;
};

// All words for a type of values. The argument only selects the type.
absl::Span<const Word<v1::Ack>> WordsFor(v1::Ack);
absl::Span<const Word<v1::ListRoutesRequest::Match>> WordsFor(
    v1::ListRoutesRequest::Match);
absl::Span<const Word<TraceKind>> WordsFor(TraceKind);
absl::Span<const Word<AddressForm>> WordsFor(AddressForm);
absl::Span<const Word<ArrivalKind>> WordsFor(ArrivalKind);
absl::Span<const Word<Family>> WordsFor(Family);
absl::Span<const Word<OutputForm>> WordsFor(OutputForm);
absl::Span<const Word<ColorWhen>> WordsFor(ColorWhen);

template <typename Value>
std::string AbslUnparseFlag(Choice<Value> choice) {
  for (const Word<Value>& word : WordsFor(choice.value)) {
    if (word.value == choice.value) return std::string(word.text);
  }
  return "";
}

template <typename Value>
bool AbslParseFlag(absl::string_view text, Choice<Value>* choice,
                   std::string* error) {
  const auto words = WordsFor(Value());
  for (const Word<Value>& word : words) {
    choice->value = word.value;
    if (word.text == text) return true;
  }
  *error = absl::StrCat(
      "must be one of: ",
      absl::StrJoin(words, ", ", [](std::string* to, const Word<Value>& word) {
        absl::StrAppend(to, word.text);
      }));
  return false;
}

// The id of a next hop; 0: none is given.
struct OptionalNextHop {
  NextHopId id = kNoRoute;
};

std::string AbslUnparseFlag(OptionalNextHop next_hop);
bool AbslParseFlag(absl::string_view text, OptionalNextHop* next_hop,
                   std::string* error);

}  // namespace planb::client

// Of every command. session.cc has the others.
ABSL_DECLARE_FLAG(std::string, table);
ABSL_DECLARE_FLAG(bool, json);
ABSL_DECLARE_FLAG(planb::client::Choice<planb::client::OutputForm>, output);
ABSL_DECLARE_FLAG(planb::client::Choice<planb::client::ColorWhen>, color);
ABSL_DECLARE_FLAG(absl::Duration, timeout);

// Of changes.
ABSL_DECLARE_FLAG(planb::client::Choice<planb::v1::Ack>, ack);
ABSL_DECLARE_FLAG(uint32_t, ack_replicas);
ABSL_DECLARE_FLAG(bool, strict);
ABSL_DECLARE_FLAG(std::optional<uint64_t>, expected_generation);
ABSL_DECLARE_FLAG(bool, dry_run);
ABSL_DECLARE_FLAG(uint32_t, chunk);
ABSL_DECLARE_FLAG(uint64_t, writer_epoch);
ABSL_DECLARE_FLAG(std::string, request_id);

// Of lookups.
ABSL_DECLARE_FLAG(std::optional<uint32_t>, flow_hash);
ABSL_DECLARE_FLAG(bool, await_complete);
ABSL_DECLARE_FLAG(uint32_t, batch);
ABSL_DECLARE_FLAG(uint32_t, depth);
ABSL_DECLARE_FLAG(uint32_t, streams);
ABSL_DECLARE_FLAG(double, rate);
ABSL_DECLARE_FLAG(double, seconds);
ABSL_DECLARE_FLAG(planb::client::Choice<planb::Family>, family);

// Of tables made up or read.
ABSL_DECLARE_FLAG(std::string, routes);
ABSL_DECLARE_FLAG(bool, allow_empty);
ABSL_DECLARE_FLAG(uint64_t, ipv4);
ABSL_DECLARE_FLAG(uint64_t, seed);
ABSL_DECLARE_FLAG(planb::client::OptionalNextHop, next_hop);

#endif  // PLANB_CLIENT_PLANBCTL_FLAGS_H_
