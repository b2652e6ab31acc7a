// SPDX-License-Identifier: Apache-2.0

// Looks up one address at a time, from many threads, and sends the calls of all
// threads in common batches on one stream.
//
//   auto open = ChannelsTo("unix:///run/planb/planb.sock");
//   auto lookup = MakeCoalescingLookup(*open, {});
//   NextHopId next_hop = lookup->Lookup(address).get().value().next_hop;
//
// While no batch is in flight, a call is sent at once, from the thread that
// makes it. While batches are in flight, calls gather until there are max_batch
// of them or the first has waited for max_delay. So batches grow with the load.

#ifndef PLANB_CLIENT_COALESCING_LOOKUP_H_
#define PLANB_CLIENT_COALESCING_LOOKUP_H_

#include <chrono>
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
#include "base/mutex.h"
#include "client/batch_lookup.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb::client {

struct BatchingOptions {
  // Maximum of addresses in a batch; at least 1.
  size_t max_batch = 1024;
  // Maximum wait of a call for others while a batch may be sent.
  std::chrono::nanoseconds max_delay = std::chrono::microseconds(50);
  // Maximum of batches in flight; at least 1.
  size_t max_in_flight = 4;
  // Maximum of calls that wait or are in flight; at least 1.
  size_t max_calls = 65'536;
};

// The answer to one address.
struct CallAnswer {
  NextHopId next_hop = kNoRoute;
  uint64_t generation = 0;
};

// The result of a batch, valid during the call that passes it. If `status` is
// OK, `next_hops` has an answer for each address.
struct BatchOutcome {
  absl::Status status;
  uint64_t generation = 0;
  absl::Span<const NextHopId> next_hops = {};
};

struct CoalescingOptions {
  BatchingOptions batching = {};
  // While batching.max_calls calls are unanswered, a further call waits for
  // room until its deadline, instead of failing with RESOURCE_EXHAUSTED.
  bool block_when_full = false;
  // The timeout of a call that has no deadline of its own.
  std::chrono::nanoseconds timeout = std::chrono::seconds(5);
};

// Invariant: every call is answered exactly once. Owns its transport.
// Thread-safe. Starts one thread, for deadlines and delays.
class CoalescingLookup {
 public:
  // Carries the batches; and decides when they are sent. Both are below.
  class Transport;
  class Schedule;

  // Receives the answer to a call, on any thread, also the caller's own before
  // Lookup returns. It must return quickly, because other answers wait. It may
  // call Cancel, and Lookup unless that could block, but not Shutdown.
  using Done = std::function<void(const absl::StatusOr<CallAnswer>&)>;
  using Clock = std::chrono::steady_clock;

  CoalescingLookup(std::unique_ptr<Transport> transport,
                   const CoalescingOptions& options);
  // Shutdown. REQUIRES: no call is running.
  ~CoalescingLookup();

  CoalescingLookup(const CoalescingLookup&) = delete;
  CoalescingLookup& operator=(const CoalescingLookup&) = delete;

  // Looks up `address`. Waits only until the transport has taken a batch, and
  // for room if block_when_full. Errors of the answer: RESOURCE_EXHAUSTED
  // (too many calls), DEADLINE_EXCEEDED, CANCELLED (Cancel, Shutdown), or the
  // server's error for the whole batch.
  std::future<absl::StatusOr<CallAnswer>> Lookup(const Address& address);
  std::future<absl::StatusOr<CallAnswer>> Lookup(const Address& address,
                                                 Clock::time_point deadline);

  // The same with a callback. Returns an id for Cancel, or 0 if the call failed
  // at once.
  uint64_t Lookup(const Address& address, Clock::time_point deadline,
                  Done done);

  // Ends a call with CANCELLED before this returns. False if the call was
  // answered or is being answered.
  bool Cancel(uint64_t call);

  // Ends all calls, and all later ones, with CANCELLED. When this returns,
  // every call was answered and no callback is running.
  void Shutdown();

 private:
  // Sends a batch if one is due. Releases the mutex while it sends.
  void SendDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnBatchDone(uint64_t departure, const BatchOutcome& outcome);
  // Wakes the timekeeper if the next event is before its wake-up.
  void WakeTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TimerLoop();

  const CoalescingOptions options_;
  const std::unique_ptr<Transport> transport_;

  Mutex mutex_;
  const std::unique_ptr<Schedule> schedule_ ABSL_PT_GUARDED_BY(mutex_);
  CondVar room_;
  CondVar time_;
  // The time at which the timekeeper wakes up.
  Clock::time_point wakes_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;

  std::once_flag shutdown_;
  std::thread timekeeper_;
};

// Decides which calls share a batch, and when it is sent. Has no clock. Public
// for its test. Invariant: the Done of a call is handed out once. Calls wait in
// the order of their ids. Thread-compatible.
class CoalescingLookup::Schedule {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr Time kNever = Time::max();
  // `time` + `delay`, or kNever if the sum would overflow.
  static constexpr Time After(Time time, std::chrono::nanoseconds delay) {
    return delay > kNever - time ? kNever : time + delay;
  }

  // A batch to send: packed addresses, as in Batch.
  struct OutgoingBatch {
    uint64_t id = 0;
    std::string addresses_v6;
    std::string addresses_v4;
  };
  // A call of an answered batch, and the index of its answer in the reply.
  struct CompletedCall {
    Done done;
    size_t at = 0;
  };

  explicit Schedule(const BatchingOptions& options);

  // True if there are max_calls calls. A call that ends while its batch is in
  // flight counts until the batch is answered.
  bool full() const { return calls_ >= options_.max_calls; }

  // Adds a call and returns its id, 1 or more. REQUIRES: !full().
  uint64_t Add(const Address& address, Time now, Time deadline, Done done);

  // If a batch is due, fills `departure` and returns true. Reuses its memory.
  bool TakeDeparture(Time now, OutgoingBatch& departure);

  // The batch was answered. Returns its calls that have not ended. O(batch).
  std::vector<CompletedCall> OnBatchDone(uint64_t departure);

  // Ends a call early. Returns an empty Done if it has ended.
  Done TakeCall(uint64_t id);
  // Ends every call with a deadline of `now` or before.
  std::vector<Done> TakeExpired(Time now);
  // Ends every call. Batches in flight still have to land.
  std::vector<Done> TakeAll();

  // The time of the next departure or expiry if no call is added before. In the
  // past if one is due now.
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
  // The time at which the waiting calls are due, if a batch may be sent.
  Time Due() const;

  const BatchingOptions options_;
  uint64_t last_call_ = 0;
  uint64_t last_departure_ = 0;
  size_t calls_ = 0;  // that wait or are in flight
  std::map<uint64_t, Call> waiting_;
  // By departure; calls ordered by id.
  std::map<uint64_t, std::vector<Call>> under_way_;
  // The deadlines of calls that have one and have not ended.
  std::set<std::pair<Time, uint64_t>> deadlines_;
};

// The internal transport: carries batches over a server's stream, or within a
// test. Thread-safe.
class CoalescingLookup::Transport {
 public:
  using Done = std::function<void(const BatchOutcome&)>;

  virtual ~Transport() = default;

  // Looks up packed addresses, which may be reused when this returns. Calls
  // `done` once, on any thread, possibly on this one before it returns, without
  // a lock that Start takes.
  virtual void Start(absl::string_view addresses_v6,
                     absl::string_view addresses_v4, Done done) = 0;

  // Fails every batch in flight, and all later ones, at once. When this
  // returns, `done` was called for every Start that had returned, and no `done`
  // is running. Must not be called from within `done`.
  virtual void Shutdown() = 0;
};

// Options of MakeCoalescingLookup. By default the stream reconnects for ever,
// and each call has its own deadline.
struct CoalescingClientOptions {
  CoalescingOptions coalescing = {};
  // max_in_flight is that of the batching.
  BatchLookupOptions lookup = {.give_up_after = absl::InfiniteDuration()};
  // Empty means "default".
  std::string table = {};
  // As in Batch: calls wait, for their timeout at most.
  bool require_complete = false;
};

// A CoalescingLookup that sends its batches over a BatchLookup, which
// reconnects. Starts one more thread, which receives.
std::unique_ptr<CoalescingLookup> MakeCoalescingLookup(
    OpenChannel open, const CoalescingClientOptions& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_COALESCING_LOOKUP_H_
