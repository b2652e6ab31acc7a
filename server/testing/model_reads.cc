// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_reads.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "server/testing/model_table.h"

namespace planb::server {
namespace {

class ReadCheck {
 public:
  ReadCheck(const ModelHistory& history, const ModelOrder& order,
            ModelFaults& faults)
      : history_(history), order_(order), faults_(faults) {}

  void Run() {
    GatherFloor();
    CheckAcks();
    CheckLookups();
    for (const RouteCall& call : history_.routes) CheckRoute(call);
    for (const ExplainCall& call : history_.explains) CheckExplain(call);
    for (const ListCall& call : history_.lists) {
      CheckSeen("list", call.begin, call.end, call.generation);
    }
    for (const WatchCall& watch : history_.watches) CheckWatch(watch);
  }

 private:
  // From when on which generation was surely visible: after an ack of kind
  // VISIBLE, once anybody has seen it, and after the restart of a server that
  // had accepted it.
  void GatherFloor() {
    for (const WriteCall& call : history_.writes) {
      if (call.outcome != WriteCall::Outcome::kDone) continue;
      floor_.emplace_back(call.end, call.visible);
      if (call.acked_visible && !call.batch.validate_only) {
        floor_.emplace_back(call.end, call.generation);
      }
    }
    for (const LookupCall& c : history_.lookups) {
      floor_.emplace_back(c.end, c.generation);
    }
    for (const ExplainCall& c : history_.explains) {
      floor_.emplace_back(c.end, c.generation);
    }
    for (const ListCall& c : history_.lists) {
      floor_.emplace_back(c.end, c.generation);
    }
    for (const StateCall& c : history_.states) {
      floor_.emplace_back(c.end, c.visible);
    }
    for (const WatchCall& watch : history_.watches) {
      for (const WatchCall::Message& message : watch.messages) {
        floor_.emplace_back(message.at, message.delta.generation);
      }
    }
    for (const ServerLife& life : history_.lives) {
      uint64_t accepted = 0;
      while (accepted < order_.newest() &&
             order_.latest(accepted + 1) <= life.end) {
        ++accepted;
      }
      if (life.end != kNever) floor_.emplace_back(life.end, accepted);
    }
    std::sort(floor_.begin(), floor_.end());
    for (size_t i = 1; i < floor_.size(); ++i) {
      floor_[i].second = std::max(floor_[i].second, floor_[i - 1].second);
    }
  }

  // What a read that begins then must see at least.
  uint64_t Floor(Instant begin) const {
    const auto after = std::lower_bound(floor_.begin(), floor_.end(),
                                        std::pair(begin, uint64_t{0}));
    return after == floor_.begin() ? 0 : std::prev(after)->second;
  }

  // That it is not too new, of a batch that nobody had asked for, was looked
  // at when the order was searched.
  void CheckSeen(const char* who, Instant begin, Instant end,
                 uint64_t generation) {
    if (generation < Floor(begin)) {
      faults_.Add("stale", who, " [", begin, "..", end, "] saw generation ",
                  generation, " although ", Floor(begin), " was visible");
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
      const auto [first, last] = order_.Window(call.begin, call.end);
      if (call.accepted < first || call.accepted > last ||
          call.visible > call.accepted || call.persisted > call.accepted ||
          call.visible < Floor(call.begin)) {
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
        if (Floor(call.begin) >= call.min_generation) {
          faults_.Add("min_generation", call.min_generation, " was refused at ",
                      call.begin, ".. although ", Floor(call.begin),
                      " was visible");
        }
        continue;
      }
      CheckSeen("lookup", call.begin, call.end, call.generation);
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
    for (uint64_t g = Floor(call.begin); g <= last; ++g) {
      const auto& routes = order_.table(g).routes;
      const auto it = routes.find(call.prefix);
      if (call.next_hop == (it == routes.end() ? kNoRoute : it->second)) return;
    }
    faults_.Add("route", call.prefix.ToString(), " had never the next hop ",
                call.next_hop, " within [", call.begin, "..", call.end, "]");
  }

  void CheckExplain(const ExplainCall& call) {
    CheckSeen("explain", call.begin, call.end, call.generation);
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

  // What the deltas are was looked at when the order was searched.
  void CheckWatch(const WatchCall& watch) {
    if (watch.out_of_range) return CheckOutOfRange(watch);
    uint64_t complete = watch.start_generation;
    bool within = false;
    for (const WatchCall::Message& message : watch.messages) {
      const Delta& delta = message.delta;
      const bool bookmark = message.bookmark();
      const uint64_t expected = bookmark ? complete : complete + 1;
      if (delta.generation != expected || (bookmark && within)) {
        faults_.Add("watch", bookmark ? "bookmark" : "generation", " ",
                    delta.generation, " after ", complete,
                    within ? " and part of the next" : "", " at ", message.at);
      }
      complete = message.complete ? delta.generation : complete;
      within = !message.complete;
    }
  }

  // A server has the history of all it made itself. The last that can have
  // answered is the one that must have made it.
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
  ModelFaults& faults_;
  std::vector<std::pair<Instant, uint64_t>> floor_;
  std::map<uint64_t, std::vector<NextHopId>> answers_;
};

}  // namespace

void CheckReads(const ModelHistory& history, const ModelOrder& order,
                ModelFaults& faults) {
  ReadCheck(history, order, faults).Run();
}

}  // namespace planb::server
