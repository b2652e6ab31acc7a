// Nothing is called while the lock is held: neither the transport nor a caller.

#include "client/coalescing_lookup.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace planb::client {
namespace {

using Answer = absl::StatusOr<CallAnswer>;

void Tell(const std::vector<Coalescer::Done>& calls,
          const absl::Status& status) {
  const Answer answer(status);
  for (const Coalescer::Done& done : calls) done(answer);
}

}  // namespace

CoalescingLookup::CoalescingLookup(std::unique_ptr<BatchTransport> transport,
                                   const CoalescingOptions& options)
    : options_(options),
      transport_(std::move(transport)),
      coalescer_(options.batching),
      timekeeper_([this] { KeepTime(); }) {}

CoalescingLookup::~CoalescingLookup() { Shutdown(); }

std::future<Answer> CoalescingLookup::Lookup(const Address& address) {
  return Lookup(address, Coalescer::After(Clock::now(), options_.timeout));
}

std::future<Answer> CoalescingLookup::Lookup(const Address& address,
                                             Clock::time_point deadline) {
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> future = promise->get_future();
  Lookup(address, deadline,
         [promise](const Answer& answer) { promise->set_value(answer); });
  return future;
}

uint64_t CoalescingLookup::Lookup(const Address& address,
                                  Clock::time_point deadline, Done done) {
  Lock lock(mutex_);
  absl::Status refused;
  while (refused.ok() && !shut_down_ && coalescer_.full()) {
    if (!options_.block_when_full) {
      refused = absl::ResourceExhaustedError("too many lookups unanswered");
    } else if (room_.wait_until(lock, deadline) == std::cv_status::timeout &&
               coalescer_.full()) {
      refused = absl::DeadlineExceededError("no room for a lookup in time");
    }
  }
  if (shut_down_) refused = absl::CancelledError("the client has shut down");
  if (!refused.ok()) {
    lock.unlock();
    done(refused);
    return 0;
  }
  const uint64_t id =
      coalescer_.Add(address, Clock::now(), deadline, std::move(done));
  SendDue(lock);
  return id;
}

bool CoalescingLookup::Cancel(uint64_t call) {
  Lock lock(mutex_);
  const Done done = coalescer_.TakeCall(call);
  lock.unlock();
  room_.notify_one();
  if (done == nullptr) return false;
  done(absl::CancelledError("the lookup was cancelled"));
  return true;
}

void CoalescingLookup::SendDue(Lock& lock) {
  Coalescer::Departure departure;
  if (shut_down_ || !coalescer_.TakeDeparture(Clock::now(), departure)) {
    TellTime();
    return;
  }
  TellTime();  // the calls of the batch still have deadlines
  lock.unlock();
  transport_->Start(
      departure.addresses_v6, departure.addresses_v4,
      [this, id = departure.id](const BatchTransport::Outcome& outcome) {
        Land(id, outcome);
      });
  lock.lock();
}

void CoalescingLookup::Land(uint64_t departure,
                            const BatchTransport::Outcome& outcome) {
  Lock lock(mutex_);
  const std::vector<Coalescer::Arrival> arrivals = coalescer_.Land(departure);
  SendDue(lock);  // first the calls that wait, then those that are answered
  lock.unlock();
  room_.notify_all();
  if (!outcome.status.ok()) {
    const Answer answer(outcome.status);
    for (const Coalescer::Arrival& arrival : arrivals) arrival.done(answer);
    return;
  }
  for (const Coalescer::Arrival& arrival : arrivals) {
    arrival.done(CallAnswer{.next_hop = outcome.next_hops[arrival.at],
                            .generation = outcome.generation});
  }
}

void CoalescingLookup::TellTime() {
  if (coalescer_.NextEvent() < wakes_) time_.notify_one();
}

void CoalescingLookup::KeepTime() {
  Lock lock(mutex_);
  while (!shut_down_) {
    wakes_ = coalescer_.NextEvent();
    if (wakes_ > Clock::now()) {
      if (wakes_ == Clock::time_point::max()) {
        time_.wait(lock);
      } else {
        time_.wait_until(lock, wakes_);
      }
      continue;
    }
    const std::vector<Done> expired = coalescer_.TakeExpired(Clock::now());
    SendDue(lock);
    lock.unlock();
    if (!expired.empty()) room_.notify_all();
    Tell(expired, absl::DeadlineExceededError("no answer in time"));
    lock.lock();
  }
}

void CoalescingLookup::Shutdown() {
  std::call_once(shutdown_, [this] {
    Lock lock(mutex_);
    shut_down_ = true;
    const std::vector<Done> all = coalescer_.TakeAll();
    lock.unlock();
    room_.notify_all();
    time_.notify_all();
    Tell(all, absl::CancelledError("the client has shut down"));
    transport_->Shutdown();
    timekeeper_.join();
  });
}

}  // namespace planb::client
