// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_history.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace planb::server {

using Kind = WriteCall::Kind;
using Outcome = WriteCall::Outcome;

Instant NextDeath(const ModelHistory& history, Instant end) {
  Instant death = kNever;
  for (const ServerLife& life : history.lives) {
    if (life.end >= end) death = std::min(death, life.end);
  }
  return death;
}

std::string Describe(const WriteCall& call) {
  static constexpr const char* kKinds[] = {"UpdateRoutes", "StreamUpdates",
                                           "ReplaceRoutes", "UpdateNextHops"};
  static constexpr const char* kOps[] = {"+", "insert ", "replace ", "-",
                                         "delete! "};
  const UpdateBatch& batch = call.batch;
  std::string text =
      absl::StrCat(kKinds[static_cast<int>(call.kind)], "[", call.begin, "..",
                   call.end, " epoch ", batch.writer_epoch,
                   batch.validate_only ? " validate_only" : "",
                   batch.request_id.empty() ? "" : " id ", batch.request_id);
  if (batch.expected_generation.has_value()) {
    absl::StrAppend(&text, " expects ", *batch.expected_generation);
  }
  for (const RouteChange& change : batch.changes) {
    absl::StrAppend(&text, " ", kOps[static_cast<int>(change.op)],
                    change.prefix.ToString(), "=", change.next_hop);
  }
  if (batch.replacement.has_value()) {
    absl::StrAppend(&text, " ", batch.replacement->size(), " routes");
  }
  absl::StrAppend(&text, "] -> ");
  switch (call.outcome) {
    case Outcome::kDone:
      return absl::StrCat(text, "generation ", call.generation, " +",
                          call.counts.added, " ~", call.counts.changed, " -",
                          call.counts.removed);
    case Outcome::kRefused:
      return text + call.reason;
    default:
      return text + "unknown";
  }
}

std::string CompareCounts(const WriteCall& call, const ChangeCounts& model) {
  ChangeCounts wanted = model;
  if (call.kind == Kind::kNextHops) {
    wanted = {.added = model.next_hops_added,
              .changed = model.next_hops_changed,
              .removed = model.next_hops_removed};
  }
  const ChangeCounts& told = call.counts;
  if (std::tie(told.added, told.changed, told.removed, told.unchanged) ==
      std::tie(wanted.added, wanted.changed, wanted.removed,
               wanted.unchanged)) {
    return "";
  }
  const auto text = [](const ChangeCounts& c) {
    return absl::StrCat("+", c.added, " ~", c.changed, " -", c.removed, " =",
                        c.unchanged);
  };
  return absl::StrCat("was told ", text(told), ", the model says ",
                      text(wanted));
}

}  // namespace planb::server
