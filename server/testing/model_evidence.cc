// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_evidence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace planb::server {

ModelEvidence::ModelEvidence(const ModelHistory& history) {
  GatherWrites(history);
  GatherReads(history);
  for (const WatchCall& watch : history.watches) GatherWatch(watch);
}

void ModelEvidence::See(uint64_t generation, Instant at) {
  newest_ = std::max(newest_, generation);
  const auto [it, fresh] = seen_.try_emplace(generation, at);
  if (!fresh) it->second = std::min(it->second, at);
}

void ModelEvidence::AddDigest(uint64_t generation, const std::string& digest,
                              const char* who) {
  if (!digest.empty()) entries_[generation].digests.emplace_back(digest, who);
}

void ModelEvidence::GatherWrites(const ModelHistory& history) {
  for (const WriteCall& call : history.writes) {
    if (call.outcome != WriteCall::Outcome::kDone) continue;
    See(call.generation, call.end);
    See(call.visible, call.end);
    AddDigest(call.generation, call.digest, "ack");
  }
}

void ModelEvidence::GatherReads(const ModelHistory& history) {
  for (const LookupCall& call : history.lookups) See(call.generation, call.end);
  for (const ExplainCall& c : history.explains) See(c.generation, c.end);
  for (const ListCall& call : history.lists) {
    See(call.generation, call.end);
    entries_[call.generation].lists.push_back(&call);
  }
  for (const StateCall& call : history.states) {
    See(call.accepted, call.end);
    AddDigest(call.accepted, call.digest, "GetTable");
  }
}

void ModelEvidence::GatherWatch(const WatchCall& watch) {
  Delta delta;  // of the messages of one generation
  for (const WatchCall::Message& message : watch.messages) {
    const Delta& part = message.delta;
    See(part.generation, message.at);
    if (message.bookmark()) {
      AddDigest(part.generation, part.digest, "bookmark");
      continue;
    }
    if (part.generation != delta.generation) {
      delta = {.generation = part.generation};
    }
    delta.routes.insert(delta.routes.end(), part.routes.begin(),
                        part.routes.end());
    delta.next_hops.insert(delta.next_hops.end(), part.next_hops.begin(),
                           part.next_hops.end());
    delta.groups.insert(delta.groups.end(), part.groups.begin(),
                        part.groups.end());
    delta.deleted_next_hops.insert(delta.deleted_next_hops.end(),
                                   part.deleted_next_hops.begin(),
                                   part.deleted_next_hops.end());
    delta.deleted_groups.insert(delta.deleted_groups.end(),
                                part.deleted_groups.begin(),
                                part.deleted_groups.end());
    if (!message.complete) continue;
    delta.digest = part.digest;
    SortDelta(delta);
    entries_[part.generation].deltas.push_back(std::move(delta));
    delta = {};
  }
}

std::vector<Instant> ModelEvidence::AcceptedBy() const {
  std::vector<Instant> accepted(newest_ + 1, kNever);
  Instant seen = kNever;
  for (uint64_t g = newest_ + 1; g-- > 0;) {
    const auto it = seen_.find(g);
    if (it != seen_.end()) seen = std::min(seen, it->second);
    accepted[g] = seen;
  }
  return accepted;
}

std::string ModelEvidence::Compare(uint64_t generation,
                                   const ModelTable& before,
                                   const ModelTable& after) const {
  const auto it = entries_.find(generation);
  if (it == entries_.end()) return "";
  const Delta expected = Difference(before, after);
  for (const Delta& delta : it->second.deltas) {
    const std::string differs = CompareDeltas(delta, expected);
    if (!differs.empty()) return absl::StrCat("watch: ", differs);
  }
  for (const auto& [digest, who] : it->second.digests) {
    if (digest != expected.digest) return absl::StrCat(who, ": digest differs");
  }
  for (const ListCall* list : it->second.lists) {
    const bool same = std::equal(
        after.routes.begin(), after.routes.end(), list->routes.begin(),
        list->routes.end(), [](const auto& model, const Route& route) {
          return model.first == route.prefix && model.second == route.next_hop;
        });
    if (!same) return "list: routes differ";
  }
  return "";
}

}  // namespace planb::server
