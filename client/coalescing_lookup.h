// Lookups of one address at a time, from many threads, at the price of batches.
//
//   CoalescingLookup lookup(std::move(transport), {});
//   NextHopId next_hop = lookup.Lookup(address).get().value().next_hop;
//
// The first call leaves at once, from the thread that makes it; those that come
// while it is under way leave together (coalescer.h has the rules).

#ifndef PLANB_CLIENT_COALESCING_LOOKUP_H_
#define PLANB_CLIENT_COALESCING_LOOKUP_H_

#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "client/batch_transport.h"
#include "client/coalescer.h"
#include "lpm/address.h"

namespace planb::client {

struct CoalescingOptions {
  CoalescerOptions batching = {};
  // With batching.max_calls unanswered, a call waits for room, until its
  // deadline, instead of failing with RESOURCE_EXHAUSTED.
  bool block_when_full = false;
  // How long a call may take, unless it says otherwise.
  std::chrono::nanoseconds timeout = std::chrono::seconds(5);
};

// Invariant: every call is answered, once. Thread-safe; starts one thread,
// which keeps the time. Locks are std::mutex, so that ThreadSanitizer sees them
// whatever abseil was built with.
class CoalescingLookup {
 public:
  // Tells what became of a call. Called holding no lock, by the thread that
  // brings the answer: the transport's, the one that keeps the time, one that
  // cancels, or the caller itself before Lookup returns. All other answers of
  // that thread wait until it returns, so be quick. May call Lookup, unless
  // that could block, and Cancel; not Shutdown.
  using Done = Coalescer::Done;
  using Clock = std::chrono::steady_clock;

  CoalescingLookup(std::unique_ptr<BatchTransport> transport,
                   const CoalescingOptions& options);
  // Shutdown. REQUIRES: no call is running.
  ~CoalescingLookup();

  CoalescingLookup(const CoalescingLookup&) = delete;
  CoalescingLookup& operator=(const CoalescingLookup&) = delete;

  // Looks up `address`; waits for nobody but the transport, to take a batch,
  // and for room if block_when_full. Errors of the answer: RESOURCE_EXHAUSTED
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
  void Land(uint64_t departure, const BatchTransport::Outcome& outcome);
  // Tells the thread that keeps the time if it has to wake up earlier.
  void TellTime() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepTime();

  const CoalescingOptions options_;
  const std::unique_ptr<BatchTransport> transport_;

  std::mutex mutex_;
  Coalescer coalescer_ ABSL_GUARDED_BY(mutex_);
  std::condition_variable room_;
  std::condition_variable time_;
  // When the thread that keeps the time wakes up.
  Clock::time_point wakes_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;

  std::once_flag shutdown_;
  std::thread timekeeper_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_COALESCING_LOOKUP_H_
