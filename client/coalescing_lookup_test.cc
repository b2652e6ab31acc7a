// SPDX-License-Identifier: Apache-2.0

// Each call gets its own answer, once, with many threads. Also runs under
// ThreadSanitizer, so it makes no gRPC call.

#include "client/coalescing_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace planb::client {
namespace {

// The schedule sends calls at the right times of a simulated clock.

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Time = CoalescingLookup::Schedule::Time;

constexpr Time At(int64_t microseconds) {
  return Time(std::chrono::microseconds(microseconds));
}

constexpr BatchingOptions kSmall = {.max_batch = 3,
                                    .max_delay = std::chrono::microseconds(50),
                                    .max_in_flight = 2,
                                    .max_calls = 8};

class CoalescingScheduleTest : public ::testing::Test {
 protected:
  // Adds a call for 10.0.0.`name`. Its end adds its name to ended_.
  uint64_t Add(uint32_t name, Time now,
               Time deadline = CoalescingLookup::Schedule::kNever) {
    return schedule_.Add(Address::V4(0x0a000000U + name), now, deadline,
                         [this, name](const auto&) { ended_.push_back(name); });
  }
  // Names of the calls that leave at `now`.
  std::vector<int> Leave(Time now) {
    std::vector<int> names;
    if (!schedule_.TakeDeparture(now, departure_)) return names;
    for (size_t i = 3; i < departure_.addresses_v4.size(); i += 4) {
      names.push_back(departure_.addresses_v4[i]);
    }
    return names;
  }
  void End(const std::vector<CoalescingLookup::Done>& calls) {
    for (const auto& done : calls) done(absl::CancelledError(""));
  }

  CoalescingLookup::Schedule schedule_{kSmall};
  CoalescingLookup::Schedule::OutgoingBatch departure_;
  std::vector<uint32_t> ended_;
};

TEST_F(CoalescingScheduleTest, TheFirstCallIsSentAtOnce) {
  EXPECT_EQ(schedule_.NextEvent(), CoalescingLookup::Schedule::kNever);
  Add(1, At(100));
  EXPECT_LE(schedule_.NextEvent(), At(100));
  EXPECT_THAT(Leave(At(100)), ElementsAre(1));
  EXPECT_EQ(schedule_.NextEvent(), CoalescingLookup::Schedule::kNever);
}

TEST_F(CoalescingScheduleTest, OthersGatherUntilTheFirstHasWaitedLongEnough) {
  Add(1, At(0));
  Leave(At(0));
  Add(2, At(10));
  Add(3, At(40));
  EXPECT_EQ(schedule_.NextEvent(), At(60));
  EXPECT_THAT(Leave(At(59)), IsEmpty());
  EXPECT_THAT(Leave(At(60)), ElementsAre(2, 3));
}

TEST_F(CoalescingScheduleTest, AFullBatchLeavesAtOnce) {
  Add(1, At(0));
  Leave(At(0));
  for (uint32_t name : {2, 3, 4, 5}) Add(name, At(1));
  EXPECT_LE(schedule_.NextEvent(), At(1));
  EXPECT_THAT(Leave(At(1)), ElementsAre(2, 3, 4));
  // Two batches are in flight: the fifth call waits for one of them.
  EXPECT_EQ(schedule_.NextEvent(), CoalescingLookup::Schedule::kNever);
  EXPECT_THAT(Leave(At(1'000'000)), IsEmpty());
  schedule_.OnBatchDone(departure_.id);
  EXPECT_EQ(schedule_.NextEvent(), At(51));
  EXPECT_THAT(Leave(At(51)), ElementsAre(5));
}

TEST_F(CoalescingScheduleTest, GatheredCallsLeaveWhenNoBatchIsInFlight) {
  Add(1, At(0));
  Leave(At(0));
  Add(2, At(1));
  Add(3, At(2));
  schedule_.OnBatchDone(departure_.id);
  EXPECT_THAT(Leave(At(2)), ElementsAre(2, 3));
}

TEST_F(CoalescingScheduleTest, AnswersAreFoundByFamily) {
  const Address v6 = *Address::Parse("2001:db8::102:304");
  for (const Address& address :
       {Address::V4(0x01020304), v6, Address::V4(0x05060708)}) {
    schedule_.Add(address, At(0), CoalescingLookup::Schedule::kNever,
                  [](const auto&) {});
  }
  ASSERT_TRUE(schedule_.TakeDeparture(At(0), departure_));
  EXPECT_EQ(departure_.addresses_v6, v6.ToPacked());
  EXPECT_EQ(departure_.addresses_v4, "\1\2\3\4\5\6\7\10");
  std::vector<size_t> places;
  for (const auto& arrival : schedule_.OnBatchDone(departure_.id)) {
    places.push_back(arrival.at);
  }
  EXPECT_THAT(places, ElementsAre(1, 0, 2));
}

TEST_F(CoalescingScheduleTest, DeadlinesEndWaitingCallsAndThoseInFlight) {
  Add(1, At(0), At(20));
  Leave(At(0));
  Add(2, At(1), At(10));
  Add(3, At(2), At(30));
  EXPECT_EQ(schedule_.NextEvent(), At(10));
  EXPECT_THAT(schedule_.TakeExpired(At(9)), IsEmpty());
  End(schedule_.TakeExpired(At(10)));
  EXPECT_THAT(ended_, ElementsAre(2));
  EXPECT_EQ(schedule_.NextEvent(), At(20));
  End(schedule_.TakeExpired(At(25)));
  EXPECT_THAT(ended_, ElementsAre(2, 1));
  EXPECT_THAT(schedule_.OnBatchDone(departure_.id), IsEmpty());
  EXPECT_THAT(Leave(At(25)), ElementsAre(3));
  EXPECT_EQ(schedule_.OnBatchDone(departure_.id).size(), 1U);
  EXPECT_THAT(schedule_.TakeExpired(At(1000)), IsEmpty());
}

TEST_F(CoalescingScheduleTest, CallsCanBeCancelled) {
  const uint64_t first = Add(1, At(0));
  Leave(At(0));
  const uint64_t second = Add(2, At(0));
  const uint64_t third = Add(3, At(0));
  for (const uint64_t id : {first, third}) {
    EXPECT_TRUE(schedule_.TakeCall(id) != nullptr);
    EXPECT_TRUE(schedule_.TakeCall(id) == nullptr);
  }
  EXPECT_TRUE(schedule_.TakeCall(99) == nullptr);
  EXPECT_THAT(schedule_.OnBatchDone(departure_.id), IsEmpty());
  EXPECT_THAT(Leave(At(0)), ElementsAre(2));
  EXPECT_TRUE(schedule_.TakeCall(second) != nullptr);
}

TEST_F(CoalescingScheduleTest, ItsCallsAreBounded) {
  for (uint32_t name = 1; name <= 8; ++name) {
    EXPECT_FALSE(schedule_.full());
    Add(name, At(0));
  }
  EXPECT_TRUE(schedule_.full());
  Leave(At(0));
  EXPECT_TRUE(schedule_.full());
  // Cancelled, but its batch is still in flight and keeps its memory.
  schedule_.TakeCall(1);
  EXPECT_TRUE(schedule_.full());
  schedule_.TakeCall(8);
  EXPECT_FALSE(schedule_.full());
  End(schedule_.TakeAll());
  EXPECT_THAT(ended_, ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(schedule_.OnBatchDone(departure_.id), IsEmpty());
  EXPECT_EQ(schedule_.NextEvent(), CoalescingLookup::Schedule::kNever);
}

TEST(CoalescingSchedule, TimesWithoutEndDoNotOverflow) {
  EXPECT_EQ(
      CoalescingLookup::Schedule::After(At(5), std::chrono::nanoseconds::max()),
      CoalescingLookup::Schedule::kNever);
  CoalescingLookup::Schedule schedule(
      {.max_delay = std::chrono::nanoseconds::max()});
  CoalescingLookup::Schedule::OutgoingBatch departure;
  schedule.Add(Address(), At(5), CoalescingLookup::Schedule::kNever,
               [](const auto&) {});
  EXPECT_TRUE(schedule.TakeDeparture(At(5), departure));
  schedule.Add(Address(), At(5), CoalescingLookup::Schedule::kNever,
               [](const auto&) {});
  EXPECT_FALSE(schedule.TakeDeparture(At(1'000'000'000), departure));
}

// Events in any order: every call ends once, none in a batch
// that is too large or waits for more than the delay while a batch may leave.
TEST(CoalescingSchedule, RandomHistories) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    CoalescingLookup::Schedule schedule(kSmall);
    std::map<uint64_t, int> ends;
    std::vector<uint64_t> under_way;
    CoalescingLookup::Schedule::OutgoingBatch departure;
    const auto end = [](const CoalescingLookup::Done& done) {
      if (done != nullptr) done(absl::CancelledError(""));
    };
    int64_t now = 0;
    uint64_t added = 0;
    for (int step = 0; step < 500; ++step) {
      now += random() % 30;
      switch (random() % 4) {
        case 0:
        case 1:
          if (!schedule.full()) {
            const uint64_t name = ++added;
            schedule.Add(Address(), At(now),
                         random() % 2 ? CoalescingLookup::Schedule::kNever
                                      : At(now + 100),
                         [&ends, name](const auto&) { ++ends[name]; });
          }
          break;
        case 2:
          end(schedule.TakeCall(random() % (added + 2)));
          break;
        default:
          if (!under_way.empty()) {
            const size_t which = random() % under_way.size();
            for (const auto& arrival : schedule.OnBatchDone(under_way[which])) {
              end(arrival.done);
            }
            under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(which));
          }
      }
      while (schedule.NextEvent() <= At(now)) {
        for (const auto& done : schedule.TakeExpired(At(now))) end(done);
        if (!schedule.TakeDeparture(At(now), departure)) continue;
        under_way.push_back(departure.id);
        ASSERT_LE(departure.addresses_v4.size(), 4 * kSmall.max_batch);
        ASSERT_LE(under_way.size(), kSmall.max_in_flight);
      }
    }
    for (const auto& done : schedule.TakeAll()) end(done);
    ASSERT_EQ(ends.size(), added) << "seed " << seed;
    for (const auto& [name, times] : ends) ASSERT_EQ(times, 1) << name;
  }
}

using Answer = absl::StatusOr<CallAnswer>;
using Clock = CoalescingLookup::Clock;
constexpr auto kNever = Clock::time_point::max();

// The next hop of an IPv4 address is its value, of an IPv6 address its last 4
// bytes plus 1.
uint32_t Last4(absl::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(bytes.size() - 4)) {
    value = value << 8 | static_cast<uint8_t>(byte);
  }
  return value;
}

// A transport that answers on its own threads, in any order, and can be held.
class FakeTransport : public CoalescingLookup::Transport {
 public:
  explicit FakeTransport(int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { Serve(); });
    }
  }
  ~FakeTransport() override { Shutdown(); }

  void Start(absl::string_view v6, absl::string_view v4, Done done) override {
    Batch batch{.done = std::move(done)};
    for (; !v6.empty(); v6.remove_prefix(16)) {
      batch.next_hops.push_back(Last4(v6.substr(0, 16)) + 1);
    }
    for (; !v4.empty(); v4.remove_prefix(4)) {
      batch.next_hops.push_back(Last4(v4.substr(0, 4)));
    }
    MutexLock lock(mutex_);
    ++batches_;
    if (!ended_) {
      queue_.push_back(std::move(batch));
      changed_.notify_all();
      return;
    }
    lock.unlock();
    batch.done({.status = absl::UnavailableError("shut down")});
  }

  void Shutdown() override {
    {
      MutexLock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    std::call_once(joined_, [this] {
      for (std::thread& thread : threads_) thread.join();
    });
  }

  void Hold(bool held) {
    MutexLock lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void Fail(bool fail) { fail_ = fail; }
  int batches() const { return batches_; }

 private:
  struct Batch {
    Done done;
    std::vector<NextHopId> next_hops;
  };

  void Serve() {
    MutexLock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return ended_ || (!held_ && !queue_.empty());
      });
      if (queue_.empty()) return;
      const Batch batch = std::move(queue_.front());
      queue_.pop_front();
      const bool bad = ended_ || fail_;
      lock.unlock();
      if (bad) {
        batch.done({.status = absl::UnavailableError("no server")});
      } else {
        batch.done({.generation = 7, .next_hops = batch.next_hops});
      }
      lock.lock();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<Batch> queue_;
  bool held_ = false;
  bool ended_ = false;
  std::atomic<bool> fail_ = false;
  std::atomic<int> batches_ = 0;
  std::once_flag joined_;
  std::vector<std::thread> threads_;
};

class CoalescingLookupTest : public ::testing::Test {
 protected:
  void Make(const CoalescingOptions& options, int threads = 3) {
    auto transport = std::make_unique<FakeTransport>(threads);
    transport_ = transport.get();
    lookup_ = std::make_unique<CoalescingLookup>(std::move(transport), options);
  }

  FakeTransport* transport_ = nullptr;
  std::unique_ptr<CoalescingLookup> lookup_;
};

TEST_F(CoalescingLookupTest, TheRightAnswerToTheRightCaller) {
  constexpr uint32_t kThreads = 8;
  constexpr uint32_t kCalls = 2000;
  Make({.batching = {.max_batch = 16, .max_calls = 64},
        .block_when_full = true,
        .timeout = std::chrono::hours(1)});
  std::vector<std::thread> callers;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    callers.emplace_back([this, thread] {
      std::deque<std::pair<uint32_t, std::future<Answer>>> waiting;
      for (uint32_t i = 0; i < kCalls; ++i) {
        const uint32_t name = thread * kCalls + i;
        if (i % 3 == 0) {
          waiting.emplace_back(name + 1, lookup_->Lookup(Address::V6(name)));
        } else {
          waiting.emplace_back(name, lookup_->Lookup(Address::V4(name)));
        }
        if (waiting.size() < 5) continue;
        const Answer answer = waiting.front().second.get();
        ASSERT_TRUE(answer.ok());
        ASSERT_EQ(answer->next_hop, waiting.front().first);
        ASSERT_EQ(answer->generation, 7U);
        waiting.pop_front();
      }
      for (auto& [due, future] : waiting) {
        ASSERT_EQ(future.get()->next_hop, due);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_LE(transport_->batches(), static_cast<int>(kThreads * kCalls));
  EXPECT_GE(transport_->batches(), static_cast<int>(kThreads * kCalls / 16));
}

// Every call is answered once while calls, cancellations, deadlines, failures
// and Shutdown happen at the same time.
TEST_F(CoalescingLookupTest, EveryCallIsAnsweredOnce) {
  constexpr uint32_t kThreads = 6;
  constexpr uint32_t kCalls = 1500;
  for (const bool block : {false, true}) {
    Make({.batching = {.max_batch = 8,
                       .max_delay = std::chrono::microseconds(20),
                       .max_calls = 40},
          .block_when_full = block});
    std::vector<std::atomic<int>> ends(kThreads * kCalls);
    std::atomic<int> wrong = 0;
    std::atomic<uint32_t> running = kThreads;
    std::vector<std::thread> callers;
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      callers.emplace_back([&, thread] {
        for (uint32_t i = 0; i < kCalls; ++i) {
          const uint32_t name = thread * kCalls + i;
          const auto deadline =
              i % 4 == 0 ? Clock::now() + std::chrono::microseconds(i % 100)
                         : kNever;
          const uint64_t id = lookup_->Lookup(
              Address::V4(name), deadline, [&, name](const Answer& answer) {
                ++ends[name];
                if (answer.ok() && answer->next_hop != name) ++wrong;
              });
          if (i % 5 == 0) lookup_->Cancel(id);
          if (i % 64 == 0) transport_->Fail(i % 128 == 0);
        }
        --running;
      });
    }
    // Shutdown in the middle of the calls, if the timing allows.
    while (running == kThreads) std::this_thread::yield();
    lookup_->Shutdown();
    for (std::thread& caller : callers) caller.join();
    for (const std::atomic<int>& end : ends) ASSERT_EQ(end, 1);
    EXPECT_EQ(wrong, 0);
    lookup_.reset();
  }
}

TEST_F(CoalescingLookupTest, FullMeansRefused) {
  Make({.batching = {.max_calls = 2}});
  transport_->Hold(true);
  auto first = lookup_->Lookup(Address::V4(1), kNever);
  auto second = lookup_->Lookup(Address::V4(2), kNever);
  EXPECT_EQ(lookup_->Lookup(Address::V4(3)).get().status().code(),
            absl::StatusCode::kResourceExhausted);
  transport_->Hold(false);
  EXPECT_EQ(first.get()->next_hop, 1U);
  EXPECT_EQ(second.get()->next_hop, 2U);
  // There is room again before the answers are handed out.
  EXPECT_EQ(lookup_->Lookup(Address::V4(3), kNever).get()->next_hop, 3U);
}

TEST_F(CoalescingLookupTest, FullMeansBlockedUntilTheDeadline) {
  Make({.batching = {.max_calls = 1}, .block_when_full = true});
  transport_->Hold(true);
  auto first = lookup_->Lookup(Address::V4(1), kNever);
  EXPECT_EQ(
      lookup_
          ->Lookup(Address::V4(2), Clock::now() + std::chrono::milliseconds(20))
          .get()
          .status()
          .code(),
      absl::StatusCode::kDeadlineExceeded);
  std::thread later([this] { transport_->Hold(false); });
  EXPECT_EQ(lookup_->Lookup(Address::V4(3), kNever).get()->next_hop, 3U);
  later.join();
  EXPECT_EQ(first.get()->next_hop, 1U);
}

TEST_F(CoalescingLookupTest, TheTimekeeperSendsAndEnds) {
  Make({.batching = {.max_delay = std::chrono::milliseconds(1)}});
  transport_->Hold(true);
  auto first = lookup_->Lookup(Address::V4(1), kNever);
  auto gathered = lookup_->Lookup(Address::V4(2), kNever);
  // No call and no answer: only time passes.
  while (transport_->batches() < 2) std::this_thread::yield();
  auto late = lookup_->Lookup(Address::V4(3),
                              Clock::now() + std::chrono::milliseconds(5));
  EXPECT_EQ(late.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  transport_->Hold(false);
  EXPECT_EQ(first.get()->next_hop, 1U);
  EXPECT_EQ(gathered.get()->next_hop, 2U);
}

TEST_F(CoalescingLookupTest, ACallbackMayCallAgain) {
  Make({}, 1);
  std::promise<NextHopId> last;
  std::function<void(uint32_t)> next = [&](uint32_t i) {
    lookup_->Lookup(Address::V4(i), kNever, [&, i](const Answer& answer) {
      if (i < 1000 && answer.ok()) {
        next(i + 1);
      } else {
        last.set_value(answer.ok() ? answer->next_hop : kNoRoute);
      }
    });
  };
  next(1);
  EXPECT_EQ(last.get_future().get(), 1000U);
}

TEST_F(CoalescingLookupTest, ShutdownAnswersEverything) {
  Make({});
  transport_->Hold(true);
  std::vector<std::future<Answer>> futures;
  for (uint32_t i = 0; i < 100; ++i) {
    futures.push_back(lookup_->Lookup(Address::V4(i), kNever));
  }
  lookup_->Shutdown();
  lookup_->Shutdown();
  for (std::future<Answer>& future : futures) {
    EXPECT_EQ(future.get().status().code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(lookup_->Lookup(Address::V4(1)).get().status().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(CoalescingLookupTest, AFailedBatchFailsItsCalls) {
  Make({});
  transport_->Fail(true);
  EXPECT_EQ(lookup_->Lookup(Address::V4(1), kNever).get().status().code(),
            absl::StatusCode::kUnavailable);
  transport_->Fail(false);
  EXPECT_EQ(lookup_->Lookup(Address::V4(1), kNever).get()->next_hop, 1U);
}

}  // namespace
}  // namespace planb::client
