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
#include "absl/status/status.h"
#include "base/monotonic_time.h"
#include "client/batch_lookup.h"

namespace planb::router {
namespace {

// The last answers of a core, of the newest flows of each place, so that a flow
// keeps its member of a group. Of 1,000 flows one is forgotten in one run of
// 10,000, of 10,000 flows some seven are.
class LastAnswers {
 public:
  LastAnswers() : entries_(kSets * kWays) {}

  void Keep(const Burst& burst) {
    for (size_t i = 0; i < burst.size(); ++i) {
      const Entry entry = EntryOf(burst, i, burst.next_hops[i]);
      Entry* const set = SetOf(entry);
      size_t way = 0;
      while (way + 1 < kWays && !set[way].IsOf(entry)) ++way;
      if (way > 0) std::move_backward(set, set + way, set + way + 1);
      set[0] = entry;
    }
  }

  // Sets what is known; kUndecided for the others.
  void Answer(Burst& burst) {
    for (size_t i = 0; i < burst.size(); ++i) {
      const Entry entry = EntryOf(burst, i, kUndecided);
      Entry* const set = SetOf(entry);
      Entry* const found =
          std::find_if(set, set + kWays,
                       [&](const Entry& kept) { return kept.IsOf(entry); });
      burst.next_hops[i] = found == set + kWays ? kUndecided : found->next_hop;
    }
  }

 private:
  static constexpr size_t kSets = 1 << 14, kWays = 4;
  struct Entry {
    bool IsOf(const Entry& other) const {
      return low == other.low && high == other.high &&
             flow_hash == other.flow_hash;
    }
    uint64_t high = 0, low = 0;  // the destination
    uint32_t flow_hash = 0;
    NextHopId next_hop = kUndecided;
  };

  static Entry EntryOf(const Burst& burst, size_t i, NextHopId next_hop) {
    Entry entry = {.flow_hash = burst.flow_hashes[i], .next_hop = next_hop};
    if (i < burst.v6) {
      std::memcpy(&entry.high, &burst.addresses_v6[16 * i], 8);
      std::memcpy(&entry.low, &burst.addresses_v6[16 * i + 8], 8);
    } else {
      entry.high = 4;  // begins no IPv6 address that is forwarded
      std::memcpy(&entry.low, &burst.addresses_v4[4 * (i - burst.v6)], 4);
    }
    return entry;
  }
  Entry* SetOf(const Entry& entry) {
    return &entries_[entry.flow_hash % kSets * kWays];
  }

  std::vector<Entry> entries_;
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
    if (waiting_.empty() || !waiting_.front().done) {
      // To look at the connection costs as much as to forward a burst: while
      // bursts come and others may yet, it is left alone.
      if (std::exchange(started_, false) && !away_ &&
          waiting_.size() < options_.in_flight) {
        return nullptr;
      }
      while (!questions_.empty() && !ended_ && lookup_.Ready()) Receive();
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

 private:
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
      const uint8_t* const v6 = burst.addresses_v6.data();
      const size_t at = v6_.size();
      v6_.resize(at + (halves ? 8 : 16) * burst.v6);
      if (!halves) std::memcpy(&v6_[at], v6, 16 * burst.v6);
      for (size_t i = 0; halves && i < burst.v6; ++i) {
        std::memcpy(&v6_[at + 8 * i], v6 + 16 * i, 8);
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
    const Question question = std::move(questions_.front());
    questions_.pop_front();
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

  // The server is away: what waits gets the last answers.
  void GoOnAlone() {
    away_ = !questions_.empty();
    const bool answer = MonotonicNow() - heard_ < options_.grace;
    pending_.clear();
    // Their answers come too, and are nothing's.
    for (Question& question : questions_) question.bursts.clear();
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
  bool started_ = false;            // a burst, since the last look
  absl::Time heard_ = MonotonicNow();
  absl::Time whole_until_ = absl::InfinitePast();
  bool answered_once_ = false;  // before, there is no last answer to give
  bool away_ = false;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<MakeLookups> RpcLookups(client::OpenChannel open,
                                       RpcOptions options) {
  if (options.in_flight == 0) {
    return absl::InvalidArgumentError("with no burst in flight none is asked");
  }
  return [open = std::move(open), options = std::move(options)] {
    return std::make_unique<RpcBursts>(open, options);
  };
}

}  // namespace planb::router
