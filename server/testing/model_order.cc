// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace planb::server {

ModelEvidence::ModelEvidence(const ModelHistory& history)
    : probes_(history.probes) {
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
                              const char* source) {
  if (!digest.empty())
    entries_[generation].digests.emplace_back(digest, source);
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
  for (const LookupCall& call : history.lookups) {
    See(call.generation, call.end);
    const LookupCall*& first = entries_[call.generation].lookup;
    if (first == nullptr && !call.not_visible) first = &call;
  }
  for (const ExplainCall& call : history.explains) {
    See(call.generation, call.end);
    const ExplainCall*& first = entries_[call.generation].explain;
    if (first == nullptr) first = &call;
  }
  for (const ListCall& call : history.lists) {
    See(call.generation, call.end);
    entries_[call.generation].lists.push_back(&call);
  }
  for (const ObjectsCall& call : history.objects) {
    See(call.generation, call.end);
    entries_[call.generation].objects.push_back(&call);
  }
  for (const StateCall& call : history.states) {
    See(call.accepted, call.end);
    AddDigest(call.accepted, call.digest, "GetTable");
    entries_[call.accepted].complete.insert(call.complete_table);
  }
}

void ModelEvidence::GatherWatch(const WatchCall& watch) {
  Delta delta;  // of the messages of one generation
  for (const WatchCall::Message& message : watch.messages) {
    const Delta& part = message.delta;
    See(part.generation, message.at);
    if (message.complete_table.has_value()) {
      entries_[part.generation].complete.insert(*message.complete_table);
    }
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

// Whether a list has exactly these objects, in order.
template <typename Entry>
static bool Equal(const std::map<NextHopId, Entry>& model,
                  const std::vector<Entry>& listed) {
  return std::equal(model.begin(), model.end(), listed.begin(), listed.end(),
                    [](const auto& object, const Entry& entry) {
                      return object.second == entry;
                    });
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
  for (const auto& [digest, source] : it->second.digests) {
    if (digest != expected.digest)
      return absl::StrCat(source, ": digest differs");
  }
  if (it->second.complete.contains(!after.complete)) {
    return after.complete ? "it was told to be not complete"
                          : "it was told to be complete";
  }
  for (const ListCall* list : it->second.lists) {
    const bool same = std::equal(
        after.routes.begin(), after.routes.end(), list->routes.begin(),
        list->routes.end(), [](const auto& model, const Route& route) {
          return model.first == route.prefix && model.second == route.next_hop;
        });
    if (!same) return "list: routes differ";
  }
  for (const ObjectsCall* call : it->second.objects) {
    if (!Equal(after.next_hops, call->next_hops)) {
      return "list: next hops differ";
    }
    if (!Equal(after.groups, call->groups)) return "list: groups differ";
  }
  return "";
}

std::string ModelEvidence::CompareLookups(uint64_t generation,
                                          const ModelTable& after) const {
  const auto it = entries_.find(generation);
  if (it == entries_.end()) return "";
  const LookupCall* const lookup = it->second.lookup;
  const ExplainCall* const explain = it->second.explain;
  if (lookup != nullptr && lookup->answers.size() == probes_.size()) {
    for (size_t i = 0; i < probes_.size(); ++i) {
      if (lookup->answers[i] != LongestMatch(after, probes_[i])) {
        return absl::StrCat("lookup: ", probes_[i].ToString(), " differs");
      }
    }
  }
  if (explain != nullptr &&
      explain->next_hop != LongestMatch(after, explain->address)) {
    return "explain: the next hop differs";
  }
  return "";
}

namespace {

using Outcome = WriteCall::Outcome;

// The number of dead ends after which the search gives up.
constexpr int kMaxDeadEnds = 200'000;

bool ClaimsChange(const WriteCall& call) {
  return call.counts.added + call.counts.changed + call.counts.removed > 0;
}

// True if a repeat was fenced after the last attempt could take effect. If an
// attempt had taken effect, the repeat would have got its answer.
bool NeverHappened(const ModelHistory& history, const Effect& effect) {
  const std::string& name = effect.call->batch.request_id;
  return !name.empty() &&
         std::any_of(history.writes.begin(), history.writes.end(),
                     [&](const WriteCall& call) {
                       return call.outcome == Outcome::kRefused &&
                              call.reason == "WRITER_FENCED" &&
                              call.batch.request_id == name &&
                              call.begin >= effect.end;
                     });
}

}  // namespace

ModelOrder::ModelOrder(const ModelHistory& history, std::string& fault)
    : deleted_(history.deleted_begin), evidence_(history) {
  FindEffects(history);
  latest_ = evidence_.AcceptedBy();
  fault = evidence_.Compare(0, ModelTable(), ModelTable());
  if (!fault.empty()) {
    fault = absl::StrCat("the table was not created empty: ", fault);
    return;
  }
  // Answers to batches that changed nothing tell what a generation held, and
  // may be the only evidence of two generations that no watch saw. If no order
  // agrees with them, an order without them shows which of them is wrong.
  fault = Search(/*agree_with_answers=*/true);
  if (!fault.empty()) fault = Search(/*agree_with_answers=*/false);
  if (fault.empty()) TightenLatest();
}

void ModelOrder::FindEffects(const ModelHistory& history) {
  std::map<std::string, size_t> named;
  for (const WriteCall& call : history.writes) {
    if (call.outcome == Outcome::kRefused || call.batch.validate_only) continue;
    Instant begin = call.begin;
    Instant end = call.end;
    if (call.outcome == Outcome::kUnknown) {
      end = history.shared ? kNever : NextDeath(history, call.end);
      end = std::min(end, history.deleted_end);
    }
    if (RefusedByStore(call) && !history.shared) {
      // Rolled back, and maybe in the log that the next server reads.
      begin = NextDeath(history, call.end);
      if (begin == kNever) continue;
      end = NextDeath(history, begin + 1);
    }
    const auto [it, fresh] =
        call.batch.request_id.empty()
            ? std::pair(named.end(), true)
            : named.try_emplace(call.batch.request_id, effects_.size());
    if (fresh) {
      effects_.push_back({&call, begin, end, 0});
      continue;
    }
    Effect& effect = effects_[it->second];
    effect.begin = std::min(effect.begin, begin);
    if (call.outcome == Outcome::kDone) {
      effect.end = effect.known() ? std::min(effect.end, end) : end;
      if (!effect.known()) effect.call = &call;
    } else if (!effect.known()) {
      effect.end = std::max(effect.end, end);
    }
  }
  for (size_t i = 0; i < effects_.size(); ++i) {
    if (effects_[i].known()) {
      known_.emplace(effects_[i].call->generation, i);
    } else if (!NeverHappened(history, effects_[i])) {
      unknown_.push_back(i);
    }
  }
}

std::vector<size_t> ModelOrder::Candidates(uint64_t generation) const {
  std::vector<size_t> claimants, candidates;
  const auto [begin, end] = known_.equal_range(generation);
  for (auto it = begin; it != end; ++it) {
    const Effect& effect = effects_[it->second];
    (ClaimsChange(*effect.call) ? claimants : candidates).push_back(it->second);
  }
  if (!claimants.empty()) return claimants;
  for (size_t i : unknown_) {
    const Effect& effect = effects_[i];
    const int stream = effect.call->stream;
    const bool overtakes =
        stream != 0 &&
        std::any_of(unknown_.begin(), unknown_.end(), [&](size_t other) {
          return other > i && effects_[other].call->stream == stream &&
                 effects_[other].made != 0;
        });
    if (effect.made == 0 && !overtakes &&
        effect.end >= earliest_[generation - 1] &&
        effect.begin <= latest_[generation]) {
      candidates.push_back(i);
    }
  }
  return candidates;
}

std::string ModelOrder::Contradiction(const Effect& maker, uint64_t generation,
                                      const ModelTable& table) const {
  const auto [begin, end] = known_.equal_range(generation);
  for (auto it = begin; it != end; ++it) {
    const WriteCall& call = *effects_[it->second].call;
    if (&effects_[it->second] == &maker || ClaimsChange(call)) continue;
    const ModelResult result = ApplyToModel(table, generation, call.batch);
    if (!result.refusals.empty() || result.Changes()) {
      return absl::StrCat("it would not have left ", Describe(call),
                          " without effect");
    }
  }
  return "";
}

std::string ModelOrder::Fit(const Effect& effect, uint64_t generation,
                            bool agree_with_answers) {
  const Instant earliest = std::max(earliest_[generation - 1], effect.begin);
  const Instant latest = std::min(effect.end, latest_[generation]);
  if (earliest > latest) {
    return absl::StrCat("real time is violated: not before ", earliest,
                        ", not after ", latest);
  }
  const uint64_t epoch = effect.call->batch.writer_epoch;
  if (epoch < epochs_[generation - 1]) {
    return absl::StrCat("should be fenced: epoch ", epochs_[generation - 1],
                        " came before");
  }
  ModelResult result =
      ApplyToModel(tables_[generation - 1], generation - 1, effect.call->batch);
  if (!result.refusals.empty()) {
    return absl::StrCat("should be refused for ", *result.refusals.begin());
  }
  if (!result.Changes()) return "changes nothing";
  std::string differs =
      effect.known() ? CompareCounts(*effect.call, result.counts) : "";
  if (differs.empty())
    differs =
        evidence_.Compare(generation, tables_[generation - 1], result.after);
  // Where the maker is known, the check of lookups says more.
  if (differs.empty() && !effect.known()) {
    differs = evidence_.CompareLookups(generation, result.after);
  }
  if (!differs.empty()) return differs;
  if (agree_with_answers) {
    differs = Contradiction(effect, generation, result.after);
    if (!differs.empty()) return differs;
  }
  earliest_.push_back(earliest);
  epochs_.push_back(epoch);
  tables_.push_back(std::move(result.after));
  return "";
}

std::string ModelOrder::Search(bool agree_with_answers) {
  for (Effect& effect : effects_) effect.made = 0;
  tables_ = {ModelTable()};
  epochs_ = {0};
  earliest_ = {0};
  struct Choice {
    std::vector<size_t> candidates;
    size_t next = 0;
  };
  std::vector<Choice> choices;  // one for each generation from 1
  std::string deepest = "";
  uint64_t deepest_at = 0;
  for (int dead_ends = 0; tables_.size() <= newest();) {
    const uint64_t generation = tables_.size();
    if (choices.size() < generation) {
      choices.push_back({Candidates(generation)});
    }
    Choice& choice = choices.back();
    std::string why =
        choice.candidates.empty() ? " no call can have made it" : "";
    bool fits = false;
    for (; !fits && choice.next < choice.candidates.size(); ++choice.next) {
      Effect& effect = effects_[choice.candidates[choice.next]];
      const std::string misfit = Fit(effect, generation, agree_with_answers);
      fits = misfit.empty();
      if (fits) effect.made = generation;
      if (!fits) {
        absl::StrAppend(&why, "\n  not ", Describe(*effect.call), ": ", misfit);
      }
    }
    if (fits) continue;
    if (generation > deepest_at) {
      deepest_at = generation;
      deepest = absl::StrCat("generation ", generation, " of ", newest(),
                             " has no maker:", why);
    }
    choices.pop_back();
    if (choices.empty()) return deepest;
    if (++dead_ends > kMaxDeadEnds) return deepest + "\n  (gave up)";
    Choice& before = choices.back();
    effects_[before.candidates[before.next - 1]].made = 0;
    tables_.pop_back();
    epochs_.pop_back();
    earliest_.pop_back();
  }
  return "";
}

void ModelOrder::TightenLatest() {
  for (const Effect& effect : effects_) {
    if (effect.made == 0) continue;
    latest_[effect.made] = std::min(latest_[effect.made], effect.end);
  }
  for (uint64_t g = newest(); g-- > 0;) {
    latest_[g] = std::min(latest_[g], latest_[g + 1]);
  }
}

std::vector<std::pair<uint64_t, ModelTable>> ModelOrder::Unseen(
    Instant end) const {
  std::vector<std::pair<uint64_t, ModelTable>> unseen = {
      {newest(), table(newest())}};
  for (size_t from = 0, steps = deleted_ == kNever ? 0 : 2; steps > 0;
       --steps) {
    const size_t to = unseen.size();
    for (; from < to; ++from) {
      for (const Effect& effect : effects_) {
        if (effect.made != 0 || effect.known() || effect.begin > end ||
            effect.end < deleted_) {
          continue;
        }
        const auto& [generation, before] = unseen[from];
        ModelResult result =
            ApplyToModel(before, generation, effect.call->batch);
        if (!result.refusals.empty() || !result.Changes()) continue;
        unseen.emplace_back(generation + 1, std::move(result.after));
      }
    }
  }
  unseen.erase(unseen.begin());
  return unseen;
}

std::pair<uint64_t, uint64_t> ModelOrder::Window(Instant begin,
                                                 Instant end) const {
  const auto first =
      std::lower_bound(latest_.begin() + 1, latest_.end(), begin);
  const auto last = std::upper_bound(earliest_.begin(), earliest_.end(), end);
  return {static_cast<uint64_t>(first - latest_.begin()) - 1,
          static_cast<uint64_t>(last - earliest_.begin()) - 1};
}

}  // namespace planb::server
