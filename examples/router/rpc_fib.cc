// SPDX-License-Identifier: Apache-2.0

#include "examples/router/rpc_fib.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/monotonic_time.h"
#include "client/batch_lookup.h"

namespace planb::router {
namespace {

// The last answers of a core: the newest of each place, found by the hash of
// the flow, so that a flow keeps its member of a group.
class LastAnswers {
 public:
  LastAnswers() : entries_(kEntries) {}

  void Keep(const Burst& burst) {
    for (size_t i = 0; i < burst.size(); ++i) {
      Entry& entry = Of(burst, i);
      entry.key = KeyOf(burst, i);
      entry.next_hop = burst.next_hops[i];
    }
  }

  // Sets what is known; kUndecided for the others.
  void Answer(Burst& burst) const {
    for (size_t i = 0; i < burst.size(); ++i) {
      const Entry& entry = const_cast<LastAnswers*>(this)->Of(burst, i);
      const bool same = entry.key == KeyOf(burst, i);
      burst.next_hops[i] = same ? entry.next_hop : kUndecided;
    }
  }

 private:
  static constexpr size_t kEntries = 1 << 16;
  using Key = std::array<uint8_t, 20>;  // destination, hash of the flow
  struct Entry {
    Key key = {};
    NextHopId next_hop = kUndecided;
  };

  static Key KeyOf(const Burst& burst, size_t i) {
    Key key = {};
    if (i < burst.v6) {
      std::memcpy(key.data(), &burst.addresses_v6[16 * i], 16);
    } else {
      std::memcpy(key.data(), &burst.addresses_v4[4 * (i - burst.v6)], 4);
      key[15] = 4;
    }
    std::memcpy(&key[16], &burst.flow_hashes[i], 4);
    return key;
  }
  Entry& Of(const Burst& burst, size_t i) {
    return entries_[burst.flow_hashes[i] % kEntries];
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
    waiting_.push_back({&burst});
    if (away_ || lookup_.in_flight() >= options_.in_flight) return;
    Ask(waiting_.back(), MonotonicNow() >= whole_until_);
  }

  Burst* Finished() override {
    while (lookup_.in_flight() > 0 && !ended_ && lookup_.Ready()) Receive();
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
    bool asked = false;  // an answer will come
    bool done = false;   // one is there
  };
  struct Question {
    Waiting* waiting;  // null: it went on alone
    bool halves;
  };

  void Ask(Waiting& waiting, bool halves) {
    const Burst& burst = *waiting.burst;
    const auto* const v6 =
        reinterpret_cast<const char*>(burst.addresses_v6.data());
    const auto* const v4 =
        reinterpret_cast<const char*>(burst.addresses_v4.data());
    client::Batch batch = {
        .addresses_v4 = absl::string_view(v4, 4 * burst.v4),
        .flow_hashes = {burst.flow_hashes.data(), burst.size()},
        .table = options_.table};
    std::array<char, 8 * kMaxBurst> upper;
    std::array<uint32_t, kMaxBurst> hashes;
    if (halves) {
      for (size_t i = 0; i < burst.v6; ++i) {
        std::memcpy(&upper[8 * i], v6 + 16 * i, 8);
      }
      batch.upper_halves_v6 = {upper.data(), 8 * burst.v6};
      // They are answered after IPv4.
      const auto first = batch.flow_hashes.begin();
      std::rotate_copy(first, first + burst.v6, batch.flow_hashes.end(),
                       hashes.begin());
      batch.flow_hashes = {hashes.data(), burst.size()};
    } else {
      batch.addresses_v6 = {v6, 16 * burst.v6};
    }
    if (lookup_.in_flight() == 0) heard_ = MonotonicNow();
    const auto id = lookup_.Send(batch);
    waiting.asked = id.ok();
    if (id.ok()) {
      questions_.push_back({&waiting, halves});
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
    const auto [waiting, halves] = questions_.front();
    questions_.pop_front();
    if (waiting == nullptr) return;
    Burst& burst = *waiting->burst;
    const auto& hops = result_.next_hops;
    burst.answered = result_.status.ok() && hops.size() == burst.size();
    if (burst.answered) {
      const auto of_v6 =
          hops.begin() + static_cast<ptrdiff_t>(halves ? burst.v4 : 0);
      if (halves && std::find(of_v6, hops.end(), kUndecided) != hops.end()) {
        whole_until_ = heard_ + options_.whole_addresses;
        burst.answered = false;
        Ask(*waiting, false);
        return;
      }
      std::rotate_copy(hops.begin(), of_v6, hops.end(),
                       burst.next_hops.begin());
      last_answers_.Keep(burst);
    }
    waiting->done = true;
  }

  // The server is away: what waits gets the last answers.
  void GoOnAlone() {
    away_ = lookup_.in_flight() > 0;
    const bool answer = MonotonicNow() - heard_ < options_.grace;
    // Their answers come too, and are nothing's.
    for (Question& question : questions_) question.waiting = nullptr;
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
  // In the order of Start. An element stays where it is until it is taken.
  std::deque<Waiting> waiting_;
  std::deque<Question> questions_;  // in the order of their answers
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
