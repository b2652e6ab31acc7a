// SPDX-License-Identifier: Apache-2.0

// The lock is never held during a call of the transport or of a callback.

#include "client/coalescing_lookup.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace planb::client {

namespace {

using Done = CoalescingLookup::Done;
using Schedule = CoalescingLookup::Schedule;

BatchingOptions Normalized(BatchingOptions options) {
  options.max_batch = std::max<size_t>(options.max_batch, 1);
  options.max_in_flight = std::max<size_t>(options.max_in_flight, 1);
  options.max_calls = std::max<size_t>(options.max_calls, 1);
  return options;
}

// Appends the address in network byte order.
void Pack(const Address& address, std::string& to) {
  char bytes[16];
  absl::uint128 bits = address.bits();
  for (char& byte : bytes) {
    byte = static_cast<char>(absl::Uint128High64(bits) >> 56);
    bits <<= 8;
  }
  to.append(bytes, AddressBytes(address.family()));
}

bool IsV6(const Address& address) { return address.family() == Family::kIpv6; }

using Answer = absl::StatusOr<CallAnswer>;

void Tell(const std::vector<Done>& calls, const absl::Status& status) {
  const Answer answer(status);
  for (const Done& done : calls) done(answer);
}

}  // namespace

Schedule::Schedule(const BatchingOptions& options)
    : options_(Normalized(options)) {}

uint64_t Schedule::Add(const Address& address, Time now, Time deadline,
                       Done done) {
  const uint64_t id = ++last_call_;
  ++calls_;
  if (deadline != kNever) deadlines_.emplace(deadline, id);
  waiting_.emplace_hint(waiting_.end(), id,
                        Call{id, address, now, deadline, std::move(done)});
  return id;
}

bool Schedule::MayDepart() const {
  return !waiting_.empty() && under_way_.size() < options_.max_in_flight;
}

Schedule::Time Schedule::Due() const {
  const Time first = waiting_.begin()->second.arrived;
  const bool now = under_way_.empty() || waiting_.size() >= options_.max_batch;
  return now ? first : After(first, options_.max_delay);
}

bool Schedule::TakeDeparture(Time now, OutgoingBatch& departure) {
  if (!MayDepart() || Due() > now) return false;
  departure.id = ++last_departure_;
  departure.addresses_v6.clear();
  departure.addresses_v4.clear();
  std::vector<Call>& calls = under_way_[departure.id];
  calls.reserve(std::min(waiting_.size(), options_.max_batch));
  auto next = waiting_.begin();
  while (next != waiting_.end() && calls.size() < options_.max_batch) {
    Call& call = next->second;
    Pack(call.address,
         IsV6(call.address) ? departure.addresses_v6 : departure.addresses_v4);
    calls.push_back(std::move(call));
    ++next;
  }
  waiting_.erase(waiting_.begin(), next);
  return true;
}

// A reply has the answers to the IPv6 addresses of its batch first, so two
// counters find the index of each call.
std::vector<Schedule::CompletedCall> Schedule::OnBatchDone(uint64_t departure) {
  std::vector<CompletedCall> arrivals;
  const auto found = under_way_.find(departure);
  if (found == under_way_.end()) return arrivals;
  std::vector<Call>& calls = found->second;
  arrivals.reserve(calls.size());
  size_t next_v6 = 0;
  auto next_v4 = static_cast<size_t>(
      std::count_if(calls.begin(), calls.end(),
                    [](const Call& call) { return IsV6(call.address); }));
  for (Call& call : calls) {
    const size_t at = IsV6(call.address) ? next_v6++ : next_v4++;
    if (call.done == nullptr) continue;
    if (call.deadline != kNever) deadlines_.erase({call.deadline, call.id});
    arrivals.push_back({std::move(call.done), at});
  }
  calls_ -= calls.size();
  under_way_.erase(found);
  return arrivals;
}

Done Schedule::TakeCall(uint64_t id) {
  if (const auto found = waiting_.find(id); found != waiting_.end()) {
    Done done = std::move(found->second.done);
    deadlines_.erase({found->second.deadline, id});
    waiting_.erase(found);
    --calls_;
    return done;
  }
  for (auto& [departure, calls] : under_way_) {
    const auto found = std::lower_bound(
        calls.begin(), calls.end(), id,
        [](const Call& call, uint64_t wanted) { return call.id < wanted; });
    if (found == calls.end() || found->id != id) continue;
    deadlines_.erase({found->deadline, id});
    return std::exchange(found->done, nullptr);
  }
  return nullptr;
}

std::vector<Done> Schedule::TakeExpired(Time now) {
  std::vector<Done> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expired.push_back(TakeCall(deadlines_.begin()->second));
  }
  return expired;
}

std::vector<Done> Schedule::TakeAll() {
  std::vector<Done> all;
  for (auto& [departure, calls] : under_way_) {
    for (Call& call : calls) {
      if (call.done != nullptr) {
        all.push_back(std::exchange(call.done, nullptr));
      }
    }
  }
  for (auto& [id, call] : waiting_) all.push_back(std::move(call.done));
  calls_ -= waiting_.size();
  waiting_.clear();
  deadlines_.clear();
  return all;
}

Schedule::Time Schedule::NextEvent() const {
  Time next = deadlines_.empty() ? kNever : deadlines_.begin()->first;
  if (MayDepart()) next = std::min(next, Due());
  return next;
}

CoalescingLookup::CoalescingLookup(std::unique_ptr<Transport> transport,
                                   const CoalescingOptions& options)
    : options_(options),
      transport_(std::move(transport)),
      schedule_(std::make_unique<Schedule>(options.batching)),
      timekeeper_([this] { TimerLoop(); }) {}

CoalescingLookup::~CoalescingLookup() { Shutdown(); }

std::future<Answer> CoalescingLookup::Lookup(const Address& address) {
  return Lookup(address, Schedule::After(Clock::now(), options_.timeout));
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
  MutexLock lock(mutex_);
  absl::Status refused;
  while (refused.ok() && !shut_down_ && schedule_->full()) {
    if (!options_.block_when_full) {
      refused = absl::ResourceExhaustedError("too many lookups unanswered");
    } else if (room_.wait_until(lock, deadline) == std::cv_status::timeout &&
               schedule_->full()) {
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
      schedule_->Add(address, Clock::now(), deadline, std::move(done));
  SendDue();
  return id;
}

bool CoalescingLookup::Cancel(uint64_t call) {
  MutexLock lock(mutex_);
  const Done done = schedule_->TakeCall(call);
  lock.unlock();
  room_.notify_one();
  if (done == nullptr) return false;
  done(absl::CancelledError("the lookup was cancelled"));
  return true;
}

void CoalescingLookup::SendDue() {
  Schedule::OutgoingBatch departure;
  if (shut_down_ || !schedule_->TakeDeparture(Clock::now(), departure)) {
    WakeTimer();
    return;
  }
  WakeTimer();  // the calls of the batch still have deadlines
  mutex_.unlock();
  transport_->Start(departure.addresses_v6, departure.addresses_v4,
                    [this, id = departure.id](const BatchOutcome& outcome) {
                      OnBatchDone(id, outcome);
                    });
  mutex_.lock();
}

void CoalescingLookup::OnBatchDone(uint64_t departure,
                                   const BatchOutcome& outcome) {
  MutexLock lock(mutex_);
  const std::vector<Schedule::CompletedCall> arrivals =
      schedule_->OnBatchDone(departure);
  SendDue();  // the server gets work before the callbacks run
  lock.unlock();
  room_.notify_all();
  if (!outcome.status.ok()) {
    const Answer answer(outcome.status);
    for (const Schedule::CompletedCall& arrival : arrivals)
      arrival.done(answer);
    return;
  }
  for (const Schedule::CompletedCall& arrival : arrivals) {
    arrival.done(CallAnswer{.next_hop = outcome.next_hops[arrival.at],
                            .generation = outcome.generation});
  }
}

void CoalescingLookup::WakeTimer() {
  if (schedule_->NextEvent() < wakes_) time_.notify_one();
}

void CoalescingLookup::TimerLoop() {
  MutexLock lock(mutex_);
  while (!shut_down_) {
    wakes_ = schedule_->NextEvent();
    if (wakes_ > Clock::now()) {
      if (wakes_ == Clock::time_point::max()) {
        time_.wait(lock);
      } else {
        time_.wait_until(lock, wakes_);
      }
      continue;
    }
    const std::vector<Done> expired = schedule_->TakeExpired(Clock::now());
    SendDue();
    lock.unlock();
    if (!expired.empty()) room_.notify_all();
    Tell(expired, absl::DeadlineExceededError("no answer in time"));
    lock.lock();
  }
}

void CoalescingLookup::Shutdown() {
  std::call_once(shutdown_, [this] {
    MutexLock lock(mutex_);
    shut_down_ = true;
    const std::vector<Done> all = schedule_->TakeAll();
    lock.unlock();
    room_.notify_all();
    time_.notify_all();
    Tell(all, absl::CancelledError("the client has shut down"));
    transport_->Shutdown();
    timekeeper_.join();
  });
}

namespace {

// Sends batches over a BatchLookup. Results come in the order of Send, so the
// callbacks wait in a queue. Invariant: the queue has the batches in flight on
// the handle, in order. Thread-safe. Starts one thread, which receives and
// calls `done`.
class StreamTransport : public CoalescingLookup::Transport {
 public:
  // Looks up in `table`; empty means "default". After the handle gives up,
  // every batch fails with its reason, so options.give_up_after should be
  // infinite.
  StreamTransport(OpenChannel open, const BatchLookupOptions& options,
                  std::string table, bool require_complete);
  ~StreamTransport() override { Shutdown(); }

  // Blocks while the connection takes no more bytes. REQUIRES: fewer batches
  // than options.max_in_flight are in flight.
  void Start(absl::string_view addresses_v6, absl::string_view addresses_v4,
             Done done) override;
  void Shutdown() override;

 private:
  void Receive();

  const std::string table_;
  const bool require_complete_;
  BatchLookup lookup_;

  // Held while sending, so that Sends are in the order of waiting_.
  absl::Mutex send_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  absl::Mutex mutex_;
  std::deque<Done> waiting_ ABSL_GUARDED_BY(mutex_);
  // The end of the handle; OK until then.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex join_mutex_;
  std::thread receiver_ ABSL_GUARDED_BY(join_mutex_);
};

StreamTransport::StreamTransport(OpenChannel open,
                                 const BatchLookupOptions& options,
                                 std::string table, bool require_complete)
    : table_(std::move(table)),
      require_complete_(require_complete),
      lookup_(std::move(open), options),
      receiver_([this] { Receive(); }) {}

void StreamTransport::Start(absl::string_view addresses_v6,
                            absl::string_view addresses_v4, Done done) {
  absl::Status refused;
  {
    absl::MutexLock sending(&send_mutex_);
    {
      absl::MutexLock lock(&mutex_);
      refused = ended_;
      if (refused.ok()) waiting_.push_back(std::move(done));
    }
    if (refused.ok()) {
      refused = lookup_
                    .Send({.addresses_v6 = addresses_v6,
                           .addresses_v4 = addresses_v4,
                           .table = table_,
                           .require_complete = require_complete_})
                    .status();
      if (refused.ok()) return;
      absl::MutexLock lock(&mutex_);
      if (!ended_.ok()) return;  // the receiver ends, or ended, what waited
      done = std::move(waiting_.back());
      waiting_.pop_back();
    }
  }
  // NOLINTNEXTLINE(bugprone-use-after-move): it was given back, or not moved.
  done({.status = refused});
}

void StreamTransport::Receive() {
  BatchResult result;
  absl::StatusOr<bool> received = true;
  while ((received = lookup_.Receive(result)).ok()) {
    Done done;
    {
      absl::MutexLock lock(&mutex_);
      done = std::move(waiting_.front());
      waiting_.pop_front();
    }
    done({.status = result.status,
          .generation = result.generation,
          .next_hops = result.next_hops});
  }
  std::deque<Done> lost;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = received.status();
    lost.swap(waiting_);
  }
  for (const Done& done : lost) done({.status = received.status()});
}

void StreamTransport::Shutdown() {
  lookup_.Cancel();
  absl::MutexLock lock(&join_mutex_);
  if (receiver_.joinable()) receiver_.join();
}

}  // namespace

std::unique_ptr<CoalescingLookup> MakeCoalescingLookup(
    OpenChannel open, const CoalescingClientOptions& options) {
  BatchLookupOptions lookup = options.lookup;
  lookup.max_in_flight =
      std::max<size_t>(options.coalescing.batching.max_in_flight, 1);
  return std::make_unique<CoalescingLookup>(
      std::make_unique<StreamTransport>(std::move(open), lookup, options.table,
                                        options.require_complete),
      options.coalescing);
}

}  // namespace planb::client
