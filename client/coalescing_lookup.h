// SPDX-License-Identifier: Apache-2.0

// Lookups of one address at a time, from many threads, at the price of batches.
//
//   auto open = ChannelsTo("unix:///run/planb/planb.sock");
//   auto lookup = MakeCoalescingLookup(*open, {});
//   NextHopId next_hop = lookup->Lookup(address).get().value().next_hop;
//
// With nothing under way, a call leaves at once, alone, from the thread that
// makes it: gathering would cost it time and save nothing. While batches are
// under way, calls gather until there are max_batch of them or the first has
// waited for max_delay. So batches grow with the load, by themselves.

#ifndef PLANB_CLIENT_COALESCING_LOOKUP_H_
#define PLANB_CLIENT_COALESCING_LOOKUP_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "client/batch_lookup.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb::client {

struct BatchingOptions {
  // Addresses in a batch, at most; at least 1.
  size_t max_batch = 1024;
  // How long a call waits for others, at most, if a batch may leave.
  std::chrono::nanoseconds max_delay = std::chrono::microseconds(50);
  // Batches under way, at most; at least 1.
  size_t max_in_flight = 4;
  // Calls that wait or are under way, at most; at least 1.
  size_t max_calls = 65'536;
};

// The answer to one address.
struct CallAnswer {
  NextHopId next_hop = kNoRoute;
  uint64_t generation = 0;
};

// What became of a batch. `next_hops` has an answer for each address if
// `status` is OK, and is valid during the call that passes it.
struct BatchOutcome {
  absl::Status status;
  uint64_t generation = 0;
  absl::Span<const NextHopId> next_hops = {};
};

struct CoalescingOptions {
  BatchingOptions batching = {};
  // With batching.max_calls unanswered, a call waits for room, until its
  // deadline, instead of failing with RESOURCE_EXHAUSTED.
  bool block_when_full = false;
  // How long a call may take, unless it says otherwise.
  std::chrono::nanoseconds timeout = std::chrono::seconds(5);
};

// Invariant: every call is answered, once. Thread-safe; starts one thread,
// which keeps the time. Locks are std::mutex, so that ThreadSanitizer sees them
// however abseil was built.
class CoalescingLookup {
 public:
  // What carries the batches, and what decides when they leave: both below.
  class Transport;
  class Schedule;

  // Tells what became of a call. Called holding no lock, by the thread that
  // brings the answer: the transport's, the one that keeps the time, one that
  // cancels, or the caller itself before Lookup returns. All other answers of
  // that thread wait until it returns, so be quick. May call Lookup, unless
  // that could block, and Cancel; not Shutdown.
  using Done = std::function<void(const absl::StatusOr<CallAnswer>&)>;
  using Clock = std::chrono::steady_clock;

  CoalescingLookup(std::unique_ptr<Transport> transport,
                   const CoalescingOptions& options);
  // Shutdown. REQUIRES: no call is running.
  ~CoalescingLookup();

  CoalescingLookup(const CoalescingLookup&) = delete;
  CoalescingLookup& operator=(const CoalescingLookup&) = delete;

  // Looks up `address`; waits only for the transport, to take a batch, and
  // for room if block_when_full. Errors of the answer: RESOURCE_EXHAUSTED
  // (too many calls), DEADLINE_EXCEEDED, CANCELLED (Cancel, Shutdown), or what
  // the server said of the whole batch.
  std::future<absl::StatusOr<CallAnswer>> Lookup(const Address& address);
  std::future<absl::StatusOr<CallAnswer>> Lookup(const Address& address,
                                                 Clock::time_point deadline);

  // The same, with a callback. Returns an id for Cancel; 0 if the call failed
  // at once.
  uint64_t Lookup(const Address& address, Clock::time_point deadline,
                  Done done);

  // Ends a call with CANCELLED, from within. False if it was answered, or is
  // being answered now.
  bool Cancel(uint64_t call);

  // Ends all calls, with CANCELLED, and all that follow. When this returns,
  // every call was answered and none is being answered.
  void Shutdown();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Sends a batch if one is due. Lets go of `lock` meanwhile.
  void SendDue(Lock& lock);
  void Land(uint64_t departure, const BatchOutcome& outcome);
  // Tells the thread that keeps the time if it has to wake up earlier.
  void TellTime() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepTime();

  const CoalescingOptions options_;
  const std::unique_ptr<Transport> transport_;

  std::mutex mutex_;
  const std::unique_ptr<Schedule> schedule_ ABSL_PT_GUARDED_BY(mutex_);
  std::condition_variable room_;
  std::condition_variable time_;
  // When the thread that keeps the time wakes up.
  Clock::time_point wakes_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;

  std::once_flag shutdown_;
  std::thread timekeeper_;
};

// Which calls share a batch, and when it leaves: without threads and without a
// clock. Invariant: the Done of a call is given out once. Calls wait in the
// order of their ids. Thread-compatible. Operations on one call are O(log
// calls).
class CoalescingLookup::Schedule {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr Time kNever = Time::max();
  // `time` + `delay`, or kNever if that is too late to be told.
  static constexpr Time After(Time time, std::chrono::nanoseconds delay) {
    return delay > kNever - time ? kNever : time + delay;
  }

  // A batch that leaves: packed addresses, as BatchLookup takes them.
  struct Departure {
    uint64_t id = 0;
    std::string addresses_v6;
    std::string addresses_v4;
  };
  // A call whose batch came back, and the place of its answer in the reply.
  struct Arrival {
    Done done;
    size_t at = 0;
  };

  explicit Schedule(const BatchingOptions& options);

  // As many calls as may be. A call that ends while its batch is under way
  // counts until the batch is back.
  bool full() const { return calls_ >= options_.max_calls; }

  // Takes in a call; returns its id, 1 or more. REQUIRES: !full().
  uint64_t Add(const Address& address, Time now, Time deadline, Done done);

  // If a batch is due, fills `departure`, whose memory is reused.
  bool TakeDeparture(Time now, Departure& departure);

  // The batch is back: its calls that did not end before. O(batch).
  std::vector<Arrival> Land(uint64_t departure);

  // Ends a call early. Empty if it has ended.
  Done TakeCall(uint64_t id);
  // Ends every call whose deadline is `now` or before.
  std::vector<Done> TakeExpired(Time now);
  // Ends every call. Batches under way still have to land.
  std::vector<Done> TakeAll();

  // When TakeDeparture or TakeExpired next has something to give if nothing
  // else happens before; in the past if it has now.
  Time NextEvent() const;

 private:
  struct Call {
    uint64_t id;
    Address address;
    Time arrived;
    Time deadline;
    Done done;  // empty once it has ended
  };

  bool MayDepart() const;
  // When the calls that wait are due, if a batch may leave.
  Time Due() const;

  const BatchingOptions options_;
  uint64_t last_call_ = 0;
  uint64_t last_departure_ = 0;
  size_t calls_ = 0;  // that wait or are under way
  std::map<uint64_t, Call> waiting_;
  // By departure; calls ordered by id.
  std::map<uint64_t, std::vector<Call>> under_way_;
  // Of the calls that have one and have not ended.
  std::set<std::pair<Time, uint64_t>> deadlines_;
};

// What carries batches: a server's stream, or a test. Thread-safe.
class CoalescingLookup::Transport {
 public:
  using Done = std::function<void(const BatchOutcome&)>;

  virtual ~Transport() = default;

  // Looks up packed addresses, which may be reused when this returns. Calls
  // `done` once, in any thread, perhaps this one before it returns, holding no
  // lock that Start takes.
  virtual void Start(absl::string_view addresses_v6,
                     absl::string_view addresses_v4, Done done) = 0;

  // Ends every batch under way, and those that follow, at once and badly. When
  // this returns, `done` was called for every Start that had returned, and no
  // such call is running. Not to be called from within `done`.
  virtual void Shutdown() = 0;
};

// How to connect for lookups that go on for ever, each with its own deadline.
struct CoalescingClientOptions {
  CoalescingOptions coalescing = {};
  // max_in_flight is that of the batching.
  BatchLookupOptions lookup = {.give_up_after = absl::InfiniteDuration()};
  // Empty means "default".
  std::string table = {};
};

// A CoalescingLookup whose batches go over one stream to a server, which
// reconnects as a BatchLookup does. Starts a thread that receives.
std::unique_ptr<CoalescingLookup> MakeCoalescingLookup(
    OpenChannel open, const CoalescingClientOptions& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_COALESCING_LOOKUP_H_
