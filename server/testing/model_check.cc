// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/testing/model.h"
#include "server/testing/model_order.h"

namespace planb::server {
namespace {

// The faults that a check finds: a few of each kind, and their number.
// Thread-compatible.
class ModelFaults {
 public:
  template <typename... Words>
  void Add(const char* kind, const Words&... words) {
    constexpr int kShown = 3;
    if (++counts_[kind] <= kShown) {
      texts_.push_back(absl::StrCat(kind, ": ", words...));
    }
  }

  std::vector<std::string> Take() {
    for (const auto& [kind, count] : counts_) {
      if (count > 1)
        texts_.push_back(absl::StrCat(kind, ": ", count, " times"));
    }
    return std::move(texts_);
  }

 private:
  std::map<std::string, int> counts_;
  std::vector<std::string> texts_;
};

// The newest generation or epoch that each server had at an instant, as far as
// its answers tell. Thread-compatible.
class Floors {
 public:
  void Add(int server, Instant at, uint64_t value) {
    floors_[server].emplace_back(at, value);
  }
  // REQUIRES: no Add() follows.
  void Sort() {
    for (auto& [server, floor] : floors_) {
      std::sort(floor.begin(), floor.end());
      for (size_t i = 1; i < floor.size(); ++i) {
        floor[i].second = std::max(floor[i].second, floor[i - 1].second);
      }
    }
  }
  // The highest value before `at`; 0 if there is none.
  uint64_t At(int server, Instant at) const {
    const auto found = floors_.find(server);
    if (found == floors_.end()) return 0;
    const auto after = std::lower_bound(
        found->second.begin(), found->second.end(), std::pair(at, uint64_t{0}));
    return after == found->second.begin() ? 0 : std::prev(after)->second;
  }

 private:
  std::map<int, std::vector<std::pair<Instant, uint64_t>>> floors_;
};

// A server that begins has all that was accepted before.
void AddLives(const ModelHistory& history, const ModelOrder& order,
              Floors& floors) {
  for (const ServerLife& life : history.lives) {
    uint64_t accepted = 0;
    while (accepted < order.newest() &&
           order.latest(accepted + 1) <= life.begin) {
      ++accepted;
    }
    floors.Add(life.server, life.begin, accepted);
  }
}

// The generations at which a call may have been answered.
class Judgement {
 public:
  // REQUIRES: both outlive it.
  Judgement(const ModelHistory& history, const ModelOrder& order)
      : shared_(history.shared), order_(order) {
    for (const WriteCall& call : history.writes) {
      if (call.outcome != WriteCall::Outcome::kDone) continue;
      accepted_.Add(call.server, call.end,
                    std::max(call.generation, call.visible));
    }
    for (const LookupCall& c : history.lookups) {
      accepted_.Add(c.server, c.end, c.generation);
    }
    for (const ListCall& c : history.lists) {
      accepted_.Add(c.server, c.end, c.generation);
    }
    for (const StateCall& c : history.states) {
      accepted_.Add(c.server, c.end, c.accepted);
    }
    AddLives(history, order, accepted_);
    accepted_.Sort();
  }

  // The first and the last one that a write can have met: what was the newest
  // on any server at some instant of the call. A server that is behind others
  // of its store has no answer of its own, not even that nothing changes, that
  // the batch is refused, or what it would change.
  std::pair<uint64_t, uint64_t> OfWrite(Instant begin, Instant end) const {
    return order_.Window(begin, end);
  }

  // Likewise for a read of what `server` has accepted, which may be behind.
  std::pair<uint64_t, uint64_t> OfRead(int server, Instant begin,
                                       Instant end) const {
    const auto [first, last] = order_.Window(begin, end);
    return {shared_ ? std::min(accepted_.At(server, begin), first) : first,
            last};
  }

 private:
  const bool shared_;
  const ModelOrder& order_;
  Floors accepted_;
};

// Checks that every read, lookup and watch shows the table at the generation
// that it names, and that this generation was new enough.
class ReadCheck {
 public:
  ReadCheck(const ModelHistory& history, const ModelOrder& order,
            const Judgement& judgement, ModelFaults& faults)
      : history_(history),
        order_(order),
        judgement_(judgement),
        faults_(faults) {}

  void Run() {
    GatherFloor();
    CheckAcks();
    CheckLookups();
    for (const RouteCall& call : history_.routes) CheckRoute(call);
    for (const ExplainCall& call : history_.explains) CheckExplain(call);
    for (const ListCall& call : history_.lists) {
      CheckSeen("list", call);
    }
    for (const ObjectsCall& call : history_.objects) {
      CheckSeen("objects", call);
    }
    for (const WatchCall& watch : history_.watches) CheckWatch(watch);
  }

 private:
  // Collects from when on a generation was certainly visible: after an ack of
  // kind VISIBLE, after a client has seen it, and after the restart of a server
  // that had accepted it.
  void GatherFloor() {
    for (const WriteCall& call : history_.writes) {
      if (call.outcome != WriteCall::Outcome::kDone) continue;
      floor_.Add(call.server, call.end, call.visible);
      if (call.acked_visible && !call.batch.validate_only) {
        floor_.Add(call.server, call.end, call.generation);
      }
    }
    for (const LookupCall& c : history_.lookups) AddSeen(c);
    for (const ExplainCall& c : history_.explains) AddSeen(c);
    for (const ListCall& c : history_.lists) AddSeen(c);
    for (const ObjectsCall& c : history_.objects) AddSeen(c);
    for (const StateCall& c : history_.states) {
      floor_.Add(c.server, c.end, c.visible);
    }
    for (const WatchCall& watch : history_.watches) {
      for (const WatchCall::Message& message : watch.messages) {
        floor_.Add(watch.server, message.at, message.delta.generation);
      }
    }
    AddLives(history_, order_, floor_);
    floor_.Sort();
  }
  template <typename Call>
  void AddSeen(const Call& call) {
    floor_.Add(call.server, call.end, call.generation);
  }

  // The oldest generation that a call may see.
  template <typename Call>
  uint64_t Floor(const Call& call) const {
    return floor_.At(call.server, call.begin);
  }

  // The search for the order has checked that `generation` is not too new.
  template <typename Call>
  void CheckSeen(const char* what, const Call& call) {
    if (call.generation < Floor(call)) {
      faults_.Add("stale", what, " [", call.begin, "..", call.end,
                  "] saw generation ", call.generation, " although ",
                  Floor(call), " was visible");
    }
  }

  void CheckAcks() {
    for (const WriteCall& call : history_.writes) {
      if (call.outcome == WriteCall::Outcome::kDone && call.acked_visible &&
          !call.batch.validate_only && call.visible < call.generation) {
        faults_.Add("ack", Describe(call), " while ", call.visible,
                    " was visible");
      }
    }
    for (const StateCall& call : history_.states) {
      const auto [first, last] =
          judgement_.OfRead(call.server, call.begin, call.end);
      if (call.accepted < first || call.accepted > last ||
          call.visible > call.accepted || call.persisted > call.accepted ||
          call.visible < Floor(call)) {
        faults_.Add("state", "GetTable [", call.begin, "..", call.end,
                    "] said accepted ", call.accepted, ", visible ",
                    call.visible, "; possible are ", first, "..", last);
      }
    }
  }

  void CheckLookups() {
    std::map<int, uint64_t> streams;
    for (const LookupCall& call : history_.lookups) {
      if (call.not_visible) {
        if (Floor(call) >= call.min_generation) {
          faults_.Add("min_generation", call.min_generation, " was refused at ",
                      call.begin, ".. although ", Floor(call), " was visible");
        }
        continue;
      }
      CheckSeen("lookup", call);
      if (call.generation < call.min_generation) {
        faults_.Add("min_generation", call.min_generation, " was answered by ",
                    call.generation, " at ", call.end);
      }
      if (call.stream != 0) {
        uint64_t& last = streams[call.stream];
        if (call.generation < last) {
          faults_.Add("back", "a stream went from generation ", last,
                      " back to ", call.generation, " at ", call.end);
        }
        last = call.generation;
      }
      CheckAnswers(call);
    }
  }

  void CheckAnswers(const LookupCall& call) {
    const std::vector<NextHopId>& right = Answers(call.generation);
    if (call.answers.size() != right.size()) {
      faults_.Add("lookup", call.answers.size(), " answers to ", right.size());
      return;
    }
    for (size_t i = 0; i < right.size(); ++i) {
      if (call.answers[i] == right[i]) continue;
      faults_.Add("lookup", history_.probes[i].ToString(), " -> ",
                  call.answers[i], " instead of ", right[i], " at generation ",
                  call.generation, " [", call.begin, "..", call.end, "]");
    }
  }

  const std::vector<NextHopId>& Answers(uint64_t generation) {
    std::vector<NextHopId>& answers = answers_[generation];
    if (answers.empty()) {
      for (const Address& probe : history_.probes) {
        answers.push_back(LongestMatch(order_.table(generation), probe));
      }
    }
    return answers;
  }

  void CheckRoute(const RouteCall& call) {
    const uint64_t last = order_.Window(call.begin, call.end).second;
    const auto agrees = [&call](const ModelTable& table) {
      const auto it = table.routes.find(call.prefix);
      return call.next_hop ==
             (it == table.routes.end() ? kNoRoute : it->second);
    };
    for (uint64_t g = Floor(call); g <= last; ++g) {
      if (agrees(order_.table(g))) return;
    }
    for (const auto& [generation, table] : order_.Unseen(call.end)) {
      if (agrees(table)) return;
    }
    faults_.Add("route", call.prefix.ToString(), " had never the next hop ",
                call.next_hop, " within [", call.begin, "..", call.end, "]");
  }

  void CheckExplain(const ExplainCall& call) {
    CheckSeen("explain", call);
    std::vector<Route> matches;
    const ModelTable& table = order_.table(call.generation);
    for (const auto& [prefix, next_hop] : table.routes) {
      if (prefix.Contains(call.address)) matches.push_back({prefix, next_hop});
    }
    // Nested prefixes: ascending is the shortest first.
    std::reverse(matches.begin(), matches.end());
    if (call.matches != matches ||
        call.next_hop != LongestMatch(table, call.address)) {
      faults_.Add("explain", call.address.ToString(), " at generation ",
                  call.generation, ": ", call.matches.size(), " matches, ",
                  matches.size(), " expected, next hop ", call.next_hop);
    }
  }

  // The search for the order has checked the contents of the deltas.
  void CheckWatch(const WatchCall& watch) {
    if (watch.out_of_range) {
      // A server that shares the store may have read the whole table again.
      if (!history_.shared) CheckOutOfRange(watch);
      return;
    }
    uint64_t complete = watch.start_generation;
    bool within = false;
    for (const WatchCall::Message& message : watch.messages) {
      const Delta& delta = message.delta;
      const bool bookmark = message.bookmark();
      const bool word = bookmark && delta.generation == complete + 1 &&
                        order_.table(complete).complete !=
                            order_.table(complete + 1).complete;
      const uint64_t expected = bookmark && !word ? complete : complete + 1;
      if (delta.generation != expected || (bookmark && within)) {
        faults_.Add("watch", bookmark ? "bookmark" : "generation", " ",
                    delta.generation, " after ", complete,
                    within ? " and part of the next" : "", " at ", message.at);
      }
      complete = message.complete ? delta.generation : complete;
      within = !message.complete;
    }
  }

  // A server remembers the generations that it made itself. So the last server
  // that can have answered must not have made those that it denied.
  void CheckOutOfRange(const WatchCall& watch) {
    Instant life_began = 0;
    for (const ServerLife& life : history_.lives) {
      if (life.begin <= watch.end) {
        life_began = std::max(life_began, life.begin);
      }
    }
    for (const Effect& effect : order_.effects()) {
      if (effect.made != 0 && effect.made <= watch.start_generation &&
          effect.begin >= life_began) {
        faults_.Add("history", "generation ", watch.start_generation,
                    " was denied to a watcher at ", watch.begin);
        return;
      }
    }
  }

  const ModelHistory& history_;
  const ModelOrder& order_;
  const Judgement& judgement_;
  ModelFaults& faults_;
  Floors floor_;  // what was certainly visible
  std::map<uint64_t, std::vector<NextHopId>> answers_;
};

using Outcome = WriteCall::Outcome;

// The writes that overlap a call, at most a few, and the ends of servers during
// it or soon after.
std::string Around(const ModelHistory& history, const WriteCall& call) {
  constexpr Instant kSoon = 100'000'000;
  constexpr int kMax = 8;
  std::string text;
  for (const ServerLife& life : history.lives) {
    if (life.end >= call.begin && life.end <= call.end + kSoon) {
      absl::StrAppend(&text, "\n  a server was dead at ", life.end);
    }
  }
  int shown = 0;
  for (const WriteCall& other : history.writes) {
    if (&other == &call || other.begin > call.end || other.end < call.begin) {
      continue;
    }
    if (++shown > kMax) break;
    absl::StrAppend(&text, "\n  beside ", Describe(other));
  }
  return text;
}

// Checks the writes that made no generation, repeats, and the order of streams.
class WriteCheck {
 public:
  WriteCheck(const ModelHistory& history, const ModelOrder& order,
             const Judgement& judgement, ModelFaults& faults)
      : history_(history),
        order_(order),
        judgement_(judgement),
        faults_(faults) {}

  void Run() {
    GatherEpochs();
    for (const Effect& effect : order_.effects()) {
      if (effect.known() && effect.made == 0) CheckNoChange(effect);
      if (effect.made != 0 && !effect.call->batch.request_id.empty()) {
        named_[effect.call->batch.request_id] = effect.made;
      }
    }
    for (const WriteCall& call : history_.writes) {
      if (call.outcome == Outcome::kRefused) {
        CheckRefusal(call);
      } else if (RefusedByStore(call)) {
        CheckStore(call);
      } else if (call.outcome == Outcome::kDone) {
        if (call.batch.validate_only) {
          CheckNoChange({&call, call.begin, call.end, 0});
        }
        CheckNamed(call);
        CheckStream(call);
      }
    }
  }

 private:
  // The one server of Floors that hold everywhere.
  static constexpr int kAll = 0;

  // When which epoch was surely in force, on all servers.
  void GatherEpochs() {
    for (const WriteCall& call : history_.writes) {
      if (call.outcome != Outcome::kDone || call.batch.validate_only) continue;
      sure_epochs_.Add(kAll, call.end, call.batch.writer_epoch);
    }
    sure_epochs_.Sort();
  }

  // Whether a call that was judged after `begin`, and not fenced, should have
  // been.
  void CheckFence(const WriteCall& call, Instant begin) {
    const uint64_t epoch = sure_epochs_.At(kAll, begin);
    if (epoch > call.batch.writer_epoch) {
      faults_.Add("fence", Describe(call), " although epoch ", epoch,
                  " was in force");
    }
  }

  // An answered call that made no generation was judged at the one it names.
  void CheckNoChange(const Effect& effect) {
    const WriteCall& call = *effect.call;
    const auto fault = [&](const auto&... why) {
      faults_.Add("answer", Describe(call), ": ", why...);
    };
    if (!call.batch.validate_only &&
        call.counts.added + call.counts.changed + call.counts.removed > 0) {
      return fault("another batch made that generation");
    }
    CheckFence(call, effect.begin);
    const auto [first, last] = judgement_.OfWrite(effect.begin, effect.end);
    const uint64_t generation = call.generation;
    if (generation < first || generation > last) {
      return fault("can only have seen ", first, "..", last,
                   Around(history_, call));
    }
    const uint64_t epoch = call.batch.writer_epoch;
    if (epoch < order_.epoch(generation)) {
      fault("should be fenced by ", order_.epoch(generation));
    }
    if (!call.batch.validate_only && generation < order_.newest() &&
        order_.epoch(generation + 1) < epoch) {
      fault("an older writer made the next generation");
    }
    const ModelResult model =
        ApplyToModel(order_.table(generation), generation, call.batch);
    if (!model.refusals.empty()) {
      return fault("should be refused for ", *model.refusals.begin());
    }
    if (!call.batch.validate_only && model.Changes()) {
      return fault("should have made a generation");
    }
    const std::string differs = CompareCounts(call, model.counts);
    if (!differs.empty()) fault(differs);
  }

  // One of the tables that it may have met must be a reason to refuse it.
  void CheckRefusal(const WriteCall& call) {
    const auto fault = [&](const auto&... why) {
      faults_.Add("refusal", Describe(call), ": ", why...);
    };
    if (call.reason == "DRAINING") {
      const bool drained = std::any_of(
          history_.lives.begin(), history_.lives.end(), [&](const auto& life) {
            return life.drain <= call.end && call.begin <= life.end;
          });
      if (!drained) fault("no server drained");
      return;
    }
    // Other servers were ahead of this one, again and again.
    if (history_.shared && call.reason == "STORE_CONFLICT") return;
    const auto first = named_.find(call.batch.request_id);
    if (first != named_.end() && order_.latest(first->second) < call.begin) {
      return fault("a repeat; generation ", first->second, " has it");
    }
    const uint64_t epoch = call.batch.writer_epoch;
    if (call.reason == "WRITER_FENCED") {
      const bool taken_over = std::any_of(
          history_.writes.begin(), history_.writes.end(),
          [&](const WriteCall& other) {
            return other.outcome != Outcome::kRefused &&
                   !other.batch.validate_only && other.begin <= call.end &&
                   other.batch.writer_epoch > epoch;
          });
      if (!taken_over) fault("no writer has taken over");
      return;
    }
    CheckFence(call, call.begin);
    const auto [from, to] = judgement_.OfWrite(call.begin, call.end);
    for (uint64_t g = from; g <= to; ++g) {
      if (ApplyToModel(order_.table(g), g, call.batch)
              .refusals.count(call.reason) > 0) {
        return;
      }
    }
    for (const auto& [generation, table] : order_.Unseen(call.end)) {
      if (ApplyToModel(table, generation, call.batch)
              .refusals.count(call.reason) > 0) {
        return;
      }
    }
    fault("none of the generations ", from, "..", to, " is a reason",
          Around(history_, call));
  }

  // The store may refuse only while its disk fails, or in a commit that began
  // then.
  void CheckStore(const WriteCall& call) {
    constexpr Instant kCommit = 2'000'000'000;
    const bool failed = std::any_of(
        history_.disk_faults.begin(), history_.disk_faults.end(),
        [&](const DiskFault& fault) {
          return fault.begin <= call.end && call.begin <= fault.end + kCommit;
        });
    if (!failed) faults_.Add("refusal", Describe(call), ": the disk was well");
  }

  // Repeats get the first answer.
  void CheckNamed(const WriteCall& call) {
    if (call.batch.request_id.empty()) return;
    const auto [it, fresh] = first_.emplace(call.batch.request_id, &call);
    const WriteCall& first = *it->second;
    if (call.generation != first.generation || !(call.counts == first.counts) ||
        call.digest != first.digest) {
      faults_.Add("repeat", Describe(call), " was first told ",
                  Describe(first));
    }
  }

  // The batches of a stream are judged in order.
  void CheckStream(const WriteCall& call) {
    if (call.stream == 0) return;
    uint64_t& last = streams_[call.stream];
    if (call.generation < last && call.batch.request_id.empty()) {
      faults_.Add("stream", Describe(call), " after generation ", last);
    }
    last = std::max(last, call.generation);
  }

  const ModelHistory& history_;
  const ModelOrder& order_;
  const Judgement& judgement_;
  ModelFaults& faults_;
  Floors sure_epochs_;
  std::map<std::string, uint64_t> named_;  // the generations they made
  std::map<std::string, const WriteCall*> first_;
  std::map<int, uint64_t> streams_;
};

// Checks that all calls agree on when the table was there. Of servers that
// share a store, each agrees with itself, with the server that created and
// deleted the table, which is server 0, and with what was there before it
// began.
class LifeCheck {
 public:
  LifeCheck(const ModelHistory& history, ModelFaults& faults)
      : history_(history), faults_(faults) {}

  void Run() {
    if (history_.shared) {
      there_[0] = history_.created;
      gone_[0] = history_.deleted_end;
      ForAll([this](const auto& call) { Lower(there_, call); }, [](auto&) {});
      for (const AbsentCall& call : history_.absents) {
        if (!call.writes && call.end >= history_.deleted_begin &&
            call.begin > There(call)) {
          Lower(gone_, call);
        }
      }
    }
    ForAll(
        [this](const auto& call) {
          if (call.begin <= Gone(call)) return;
          faults_.Add("deleted", "a call [", call.begin, "..", call.end,
                      "] to server ", call.server,
                      " was answered after the deletion");
        },
        [this](const auto& call) {
          if (call.end >= history_.deleted_begin || call.begin <= There(call)) {
            return;
          }
          faults_.Add("deleted", "a call [", call.begin, "..", call.end,
                      "] found no table before the deletion");
        });
  }

 private:
  using Instants = std::map<int, Instant>;  // of servers

  // Calls `answered` and `absent` with the calls that found the table and with
  // those that did not.
  template <typename Answered, typename Absent>
  void ForAll(const Answered& answered, const Absent& absent) const {
    for (const WriteCall& call : history_.writes) {
      if (call.outcome == Outcome::kDone) answered(call);
      if (call.reason == "TABLE_NOT_FOUND") absent(call);
    }
    for (const AbsentCall& call : history_.absents) absent(call);
    for (const LookupCall& call : history_.lookups) answered(call);
    for (const RouteCall& call : history_.routes) answered(call);
    for (const ExplainCall& call : history_.explains) answered(call);
    for (const ListCall& call : history_.lists) answered(call);
    for (const ObjectsCall& call : history_.objects) answered(call);
    for (const StateCall& call : history_.states) answered(call);
    for (const WatchCall& call : history_.watches) answered(call);
  }

  template <typename Call>
  static void Lower(Instants& instants, const Call& call) {
    const auto [it, fresh] = instants.try_emplace(call.server, call.end);
    it->second = std::min(it->second, call.end);
  }

  // When the process that was called began.
  template <typename Call>
  Instant Life(const Call& call) const {
    Instant begin = 0;
    for (const ServerLife& life : history_.lives) {
      if (life.server == call.server && life.begin <= call.begin) {
        begin = std::max(begin, life.begin);
      }
    }
    return begin;
  }

  // From when the server that was called surely has the table, and from when it
  // surely has it no more.
  template <typename Call>
  Instant There(const Call& call) const {
    if (!history_.shared || Life(call) > history_.created) return -1;
    const auto found = there_.find(call.server);
    return found == there_.end() ? kNever : found->second;
  }
  template <typename Call>
  Instant Gone(const Call& call) const {
    if (!history_.shared || Life(call) > history_.deleted_end) {
      return history_.deleted_end;
    }
    const auto found = gone_.find(call.server);
    return found == gone_.end() ? kNever : found->second;
  }

  const ModelHistory& history_;
  ModelFaults& faults_;
  Instants there_, gone_;
};

// Counts generations from that at which the table was created, which becomes 0.
void Rebase(ModelHistory& history, ModelFaults& faults) {
  const uint64_t first = std::exchange(history.first, 0);
  if (first == 0) return;
  const auto rebase = [&](uint64_t& generation) {
    if (generation < first) {
      faults.Add("first", "generation ", generation,
                 " of a table that began at ", first);
    }
    generation -= std::min(generation, first);
  };
  for (WriteCall& call : history.writes) {
    if (call.batch.expected_generation.has_value()) {
      // Below zero is no generation, as the largest one is none.
      *call.batch.expected_generation -= first;
    }
    if (call.outcome != Outcome::kDone) continue;
    rebase(call.generation);
    rebase(call.visible);
  }
  for (LookupCall& call : history.lookups) {
    call.min_generation -= std::min(call.min_generation, first);
    rebase(call.generation);
  }
  for (ExplainCall& call : history.explains) rebase(call.generation);
  for (ListCall& call : history.lists) rebase(call.generation);
  for (ObjectsCall& call : history.objects) rebase(call.generation);
  for (StateCall& call : history.states) {
    rebase(call.accepted);
    rebase(call.visible);
    rebase(call.persisted);
  }
  for (WatchCall& watch : history.watches) {
    rebase(watch.start_generation);
    for (WatchCall::Message& message : watch.messages) {
      rebase(message.delta.generation);
    }
  }
}

}  // namespace

std::string CheckSuccession(const ModelHistory& deleted,
                            const ModelHistory& created) {
  const uint64_t last =
      std::max(deleted.first, ModelEvidence(deleted).newest());
  if (created.first > last) return "";
  return absl::StrCat("succession: a table begins at generation ",
                      created.first, " after one that reached ", last);
}

std::vector<std::string> CheckHistory(const ModelHistory& recorded) {
  ModelFaults faults;
  ModelHistory history = recorded;
  Rebase(history, faults);
  LifeCheck(history, faults).Run();
  for (const std::string& surprise : history.surprises) {
    faults.Add("surprise", surprise);
  }
  std::string no_order;
  const ModelOrder order(history, no_order);
  if (!no_order.empty()) {
    faults.Add("order", no_order);
    return faults.Take();
  }
  const Judgement judgement(history, order);
  WriteCheck(history, order, judgement, faults).Run();
  ReadCheck(history, order, judgement, faults).Run();
  return faults.Take();
}

}  // namespace planb::server
