// SPDX-License-Identifier: Apache-2.0

#include "examples/router/rpc_fib.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "client/batch_lookup.h"

namespace planb::router {
namespace {

constexpr size_t kMostInFlight = 1024;

// The last answers of a core, of the newest flows of each place, so that a flow
// keeps its member of a group. Of 1,000 flows one is forgotten in one run of
// 10,000, of 10,000 flows some seven are. A flow is known by its hash and a
// hash of its destination: 96 bits.
class LastAnswers {
 public:
  struct Entry {
    uint64_t destination = 0;  // its hash
    uint32_t flow_hash = 0;
    NextHopId next_hop = kUndecided;
  };

  LastAnswers() : sets_(kSets) {}

  // About a packet of `burst`.
  static Entry EntryOf(const Burst& burst, size_t i, NextHopId next_hop) {
    uint64_t high = 4, low = 0;  // begins no IPv6 address that is forwarded
    if (i < burst.v6) {
      std::memcpy(&high, &burst.addresses_v6[16 * i], 8);
      std::memcpy(&low, &burst.addresses_v6[16 * i + 8], 8);
    } else {
      std::memcpy(&low, &burst.addresses_v4[4 * (i - burst.v6)], 4);
    }
    return {absl::HashOf(high, low), burst.flow_hashes[i], next_hop};
  }

  // An answer about this flow is asked for: of many flows, the sets are in no
  // near cache.
  void Expect(uint32_t flow_hash) {
    __builtin_prefetch(&SetOf(flow_hash), 1, 1);
  }

  void Keep(const Burst& burst) {
    for (size_t i = 0; i < burst.size(); ++i) {
      if (i + kAhead < burst.size()) {
        __builtin_prefetch(&SetOf(burst.flow_hashes[i + kAhead]), 1);
      }
      Keep(EntryOf(burst, i, burst.next_hops[i]));
    }
  }

  void Keep(const Entry& entry) {
    Set& set = SetOf(entry.flow_hash);
    const size_t way = set.Find(entry);
    if (way < kWays) {
      set.ways[way].next_hop = entry.next_hop;
    } else {
      std::move_backward(set.ways.begin(), set.ways.end() - 1,
                         set.ways.end());  // the oldest goes
      set.ways[0] = entry;
    }
  }

  // Sets what is known; kUndecided for the others.
  void Answer(Burst& burst) {
    for (size_t i = 0; i < burst.size(); ++i) {
      const Entry entry = EntryOf(burst, i, kUndecided);
      const Set& set = SetOf(entry.flow_hash);
      const size_t way = set.Find(entry);
      burst.next_hops[i] = way < kWays ? set.ways[way].next_hop : kUndecided;
    }
  }

 private:
  static constexpr size_t kSets = 1 << 14, kWays = 4, kAhead = 16;
  struct alignas(64) Set {
    // The way of the flow, or kWays.
    size_t Find(const Entry& entry) const {
      size_t way = 0;
      while (way < kWays && (ways[way].destination != entry.destination ||
                             ways[way].flow_hash != entry.flow_hash)) {
        ++way;
      }
      return way;
    }
    std::array<Entry, kWays> ways;
  };

  Set& SetOf(uint32_t flow_hash) { return sets_[flow_hash % kSets]; }

  std::vector<Set> sets_;
};

class RpcBursts : public Lookups {
 public:
  RpcBursts(client::OpenChannel open, RpcOptions options)
      : options_(std::move(options)),
        lookup_(std::move(open), {.max_in_flight = options_.in_flight,
                                  .backoff = {.max = absl::Milliseconds(100)},
                                  .give_up_after = absl::InfiniteDuration(),
                                  .observer = options_.observer}) {}

  size_t capacity() const override { return options_.in_flight; }

  void Start(Burst& burst) override {
    started_ = true;
    waiting_.push_back({&burst, !away_});
    if (away_) return;
    pending_.push_back(&waiting_.back());
    AskPending();
  }

  Burst* Finished() override {
    Burst* const burst = Oldest();
    if (burst == nullptr) started_ = looked_ = false;
    return burst;
  }

 private:
  Burst* Oldest() {
    if (waiting_.empty() || !waiting_.front().done) {
      // To look at the connection costs as much as to forward a burst: while
      // bursts come and others may yet, it is left alone. And it is looked at
      // once: of two answers the second waits until half of what may wait is
      // asked again, so that messages stay large.
      if (looked_) return nullptr;
      if (started_ && !away_ && waiting_.size() < options_.in_flight) {
        return nullptr;
      }
      looked_ = true;
      if (!questions_.empty() && !ended_ && lookup_.Ready()) Receive();
    }
    if (waiting_.empty()) return nullptr;
    Waiting& oldest = waiting_.front();
    if (!oldest.done) {
      if (!away_ && !ended_ && oldest.asked &&
          MonotonicNow() - heard_ <
              (answered_once_ ? options_.patience : options_.grace)) {
        return nullptr;
      }
      GoOnAlone();
    }
    Burst* const burst = oldest.burst;
    waiting_.pop_front();
    return burst;
  }

  struct Waiting {
    Burst* burst;
    bool asked;         // an answer will come
    bool done = false;  // one is there
  };
  using Several = absl::InlinedVector<Waiting*, 16>;
  // A message.
  struct Question {
    Several bursts;  // none: they went on alone
    bool halves;
    // What the answers are about then, in their order.
    std::vector<LastAnswers::Entry> late = {};
  };

  // Bursts go at once if no message is under way, else by the half of what may
  // wait: while a server is busy with some, others come and share a message.
  void AskPending() {
    if (pending_.empty() ||
        (!questions_.empty() && 2 * pending_.size() < options_.in_flight)) {
      return;
    }
    Ask(pending_, MonotonicNow() >= whole_until_);
    pending_.clear();
  }

  void Ask(const Several& bursts, bool halves) {
    v6_.clear();
    v4_.clear();
    hashes_.clear();
    for (const Waiting* const waiting : bursts) {
      const Burst& burst = *waiting->burst;
      const auto* const v6 =
          reinterpret_cast<const char*>(burst.addresses_v6.data());
      if (halves) {
        const size_t at = v6_.size();
        v6_.resize(at + 8 * burst.v6);
        for (size_t i = 0; i < burst.v6; ++i) {
          std::memcpy(&v6_[at + 8 * i], v6 + 16 * i, 8);
        }
      } else {
        v6_.append(v6, 16 * burst.v6);
      }
      v4_.append(reinterpret_cast<const char*>(burst.addresses_v4.data()),
                 4 * burst.v4);
    }
    // Upper halves are answered after IPv4, whole addresses before.
    for (const bool of_v6 : {!halves, halves}) {
      for (const Waiting* const waiting : bursts) {
        const Burst& burst = *waiting->burst;
        const auto first = burst.flow_hashes.begin();
        const auto v4 = first + burst.v6;
        hashes_.insert(hashes_.end(), of_v6 ? first : v4,
                       of_v6 ? v4 : v4 + burst.v4);
      }
    }
    for (const uint32_t hash : hashes_) last_answers_.Expect(hash);
    client::Batch batch = {
        .addresses_v4 = v4_, .flow_hashes = hashes_, .table = options_.table};
    (halves ? batch.upper_halves_v6 : batch.addresses_v6) = v6_;
    if (questions_.empty()) heard_ = MonotonicNow();
    const auto id = lookup_.Send(batch);
    if (id.ok()) {
      questions_.push_back({bursts, halves});
    } else {
      End(id.status());
    }
  }

  void Receive() {
    const auto received = lookup_.Receive(result_);
    if (!received.ok()) {
      End(received.status());
      return;
    }
    heard_ = MonotonicNow();
    answered_once_ = true;
    away_ = false;
    Question question = std::move(questions_.front());
    questions_.pop_front();
    if (result_.status.ok()) KeepLate(question);
    size_t all_v6 = 0, all_v4 = 0;
    for (const Waiting* const waiting : question.bursts) {
      all_v6 += waiting->burst->v6;
      all_v4 += waiting->burst->v4;
    }
    const NextHopId* const hops = result_.next_hops.data();
    const NextHopId* v6 = hops + (question.halves ? all_v4 : 0);
    const NextHopId* v4 = hops + (question.halves ? 0 : all_v6);
    Several again;
    for (Waiting* const waiting : question.bursts) {
      Burst& burst = *waiting->burst;
      burst.answered = result_.status.ok();
      if (burst.answered) {
        const auto end = std::copy_n(v6, burst.v6, burst.next_hops.begin());
        std::copy_n(v4, burst.v4, end);
        v6 += burst.v6;
        v4 += burst.v4;
        if (question.halves &&
            std::find(burst.next_hops.begin(), end, kUndecided) != end) {
          burst.answered = false;
          again.push_back(waiting);
          continue;
        }
        last_answers_.Keep(burst);
      }
      waiting->done = true;
    }
    if (!again.empty()) {
      whole_until_ = heard_ + options_.whole_addresses;
      Ask(again, false);
    }
    AskPending();
  }

  // An answer that comes too late for its packets is good for the next ones of
  // their flows. Else a server that is slow for long, and not away, would leave
  // new flows without any.
  void KeepLate(Question& question) {
    for (size_t i = 0; i < question.late.size(); ++i) {
      question.late[i].next_hop = result_.next_hops[i];
      if (result_.next_hops[i] == kUndecided) {
        whole_until_ = heard_ + options_.whole_addresses;
      } else {
        last_answers_.Keep(question.late[i]);
      }
    }
  }

  static void MakeLate(Question& question) {
    // As Ask has them.
    for (const bool of_v6 : {!question.halves, question.halves}) {
      for (const Waiting* const waiting : question.bursts) {
        const Burst& burst = *waiting->burst;
        for (size_t i = of_v6 ? 0 : burst.v6;
             i < (of_v6 ? burst.v6 : burst.size()); ++i) {
          question.late.push_back(LastAnswers::EntryOf(burst, i, kUndecided));
        }
      }
    }
    question.bursts.clear();
  }

  // The server is away: what waits gets the last answers.
  void GoOnAlone() {
    away_ = !questions_.empty();
    const bool answer = MonotonicNow() - heard_ < options_.grace;
    pending_.clear();
    for (Question& question : questions_) MakeLate(question);
    for (Waiting& waiting : waiting_) {
      if (waiting.done) continue;
      waiting.done = true;
      waiting.burst->answered = answer;
      if (answer) last_answers_.Answer(*waiting.burst);
    }
  }

  void End(const absl::Status& why) {
    if (!ended_) {
      std::fprintf(stderr, "router: the server refuses lookups: %s\n",
                   why.ToString().c_str());
    }
    ended_ = true;
  }

  const RpcOptions options_;
  client::BatchLookup lookup_;
  client::BatchResult result_;
  LastAnswers last_answers_;
  // What is asked, for as long as Ask takes.
  std::string v6_, v4_;
  std::vector<uint32_t> hashes_;
  // In the order of Start. An element stays where it is until it is taken.
  std::deque<Waiting> waiting_;
  Several pending_;                 // they go with the next message
  std::deque<Question> questions_;  // in the order of their answers
  bool started_ = false;            // a burst in this turn
  bool looked_ = false;             // at the connection in this turn
  absl::Time heard_ = MonotonicNow();
  absl::Time whole_until_ = absl::InfinitePast();
  bool answered_once_ = false;  // before, there is no last answer to give
  bool away_ = false;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<MakeLookups> RpcLookups(client::OpenChannel open,
                                       RpcOptions options) {
  if (options.in_flight == 0 || options.in_flight > kMostInFlight) {
    return absl::InvalidArgumentError(
        absl::StrCat("1 to ", kMostInFlight, " bursts are in flight"));
  }
  return [open = std::move(open), options = std::move(options)] {
    return std::make_unique<RpcBursts>(open, options);
  };
}

}  // namespace planb::router
