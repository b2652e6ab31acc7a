// SPDX-License-Identifier: Apache-2.0

#include "examples/router/rpc_fib.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "client/batch_lookup.h"

namespace planb::router {
namespace {

constexpr absl::Duration kListInterval = absl::Milliseconds(20);
constexpr absl::Duration kListTimeout = absl::Seconds(5);

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
      entry.known = true;
    }
  }

  // Sets what is known; kUndecided for the others.
  void Answer(Burst& burst) const {
    for (size_t i = 0; i < burst.size(); ++i) {
      const Entry& entry = const_cast<LastAnswers*>(this)->Of(burst, i);
      const bool same = entry.known && entry.key == KeyOf(burst, i);
      burst.next_hops[i] = same ? entry.next_hop : kUndecided;
    }
  }

 private:
  static constexpr size_t kEntries = 1 << 16;
  using Key = std::array<uint8_t, 20>;  // destination, hash of the flow
  struct Entry {
    Key key = {};
    NextHopId next_hop = kNoRoute;
    bool known = false;
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
  RpcBursts(client::OpenChannel open, RpcOptions options,
            ServerObjects& objects)
      : options_(std::move(options)),
        objects_(objects),
        lookup_(std::move(open), {.max_in_flight = options_.in_flight,
                                  .backoff = {.max = absl::Milliseconds(100)},
                                  .give_up_after = absl::InfiniteDuration()}) {}

  size_t capacity() const override { return options_.in_flight; }

  void Start(Burst& burst) override {
    if (away_ || lookup_.in_flight() >= options_.in_flight) {
      waiting_.push_back({&burst, false});
      return;
    }
    const absl::string_view v6(
        reinterpret_cast<const char*>(burst.addresses_v6.data()),
        16 * burst.v6);
    const absl::string_view v4(
        reinterpret_cast<const char*>(burst.addresses_v4.data()), 4 * burst.v4);
    if (lookup_.in_flight() == 0) heard_ = MonotonicNow();
    const auto id =
        lookup_.Send({.addresses_v6 = v6,
                      .addresses_v4 = v4,
                      .flow_hashes = {burst.flow_hashes.data(), burst.size()},
                      .table = options_.table});
    if (!id.ok()) End(id.status());
    waiting_.push_back({&burst, id.ok()});
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
    bool asked;         // an answer will come
    bool done = false;  // one is there
  };

  void Receive() {
    const auto received = lookup_.Receive(result_);
    if (!received.ok()) {
      End(received.status());
      return;
    }
    heard_ = MonotonicNow();
    answered_once_ = true;
    away_ = false;
    // Those that went on alone are answered too, first.
    if (late_ > 0) {
      --late_;
      return;
    }
    for (Waiting& waiting : waiting_) {
      if (!waiting.asked || waiting.done) continue;
      waiting.done = true;
      Burst& burst = *waiting.burst;
      burst.answered =
          result_.status.ok() && result_.next_hops.size() == burst.size();
      if (!burst.answered) return;
      std::copy(result_.next_hops.begin(), result_.next_hops.end(),
                burst.next_hops.begin());
      last_answers_.Keep(burst);
      objects_.Saw(result_.generation);
      return;
    }
  }

  // The server is away: what waits gets the last answers.
  void GoOnAlone() {
    away_ = lookup_.in_flight() > 0;
    const bool answer = MonotonicNow() - heard_ < options_.grace;
    for (Waiting& waiting : waiting_) {
      if (waiting.done) continue;
      if (waiting.asked) ++late_;
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
  ServerObjects& objects_;
  client::BatchLookup lookup_;
  client::BatchResult result_;
  LastAnswers last_answers_;
  std::deque<Waiting> waiting_;  // in the order of Start
  absl::Time heard_ = MonotonicNow();
  size_t late_ = 0;             // answers to come that nothing waits for
  bool answered_once_ = false;  // before, there is no last answer to give
  bool away_ = false;
  bool ended_ = false;
};

}  // namespace

ServerObjects::ServerObjects(std::shared_ptr<grpc::Channel> channel,
                             std::string table)
    : server_(std::move(channel)),
      table_(std::move(table)),
      lister_([this] { Run(); }) {}

ServerObjects::~ServerObjects() {
  closing_ = true;
  lister_.join();
}

std::optional<NextHop> ServerObjects::Find(NextHopId id) const {
  const MutexLock lock(mutex_);
  const auto found = next_hops_.find(id);
  if (found != next_hops_.end()) return found->second;
  missed_.store(true, std::memory_order_relaxed);
  return std::nullopt;
}

void ServerObjects::Run() {
  uint64_t listed = 0;
  for (; !closing_; absl::SleepFor(kListInterval)) {
    const uint64_t seen = seen_.load(std::memory_order_relaxed);
    if (!missed_.load() && seen == listed) continue;
    missed_ = false;
    const auto list =
        server_.ListNextHops(table_, Deadline::After(kListTimeout));
    if (!list.ok()) {
      missed_ = true;
      continue;
    }
    listed = seen;
    absl::flat_hash_map<NextHopId, NextHop> next_hops;
    for (const NextHop& hop : list->next_hops) next_hops.emplace(hop.id, hop);
    const MutexLock lock(mutex_);
    if (next_hops == next_hops_) continue;
    next_hops_ = std::move(next_hops);
    ++version_;
  }
}

MakeLookups RpcLookups(client::OpenChannel open, RpcOptions options,
                       ServerObjects& objects) {
  return [open = std::move(open), options = std::move(options), &objects] {
    return std::make_unique<RpcBursts>(open, options, objects);
  };
}

}  // namespace planb::router
