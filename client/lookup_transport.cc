// Results come in the order of Send, so a queue of callbacks is all it takes.

#include "client/lookup_transport.h"

#include <algorithm>
#include <utility>

namespace planb::client {

LookupTransport::LookupTransport(OpenChannel open,
                                 const BatchLookupOptions& options,
                                 std::string table)
    : table_(std::move(table)),
      lookup_(std::move(open), options),
      receiver_([this] { Receive(); }) {}

LookupTransport::~LookupTransport() { Shutdown(); }

void LookupTransport::Start(absl::string_view addresses_v6,
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
                           .table = table_})
                    .status();
      if (refused.ok()) return;
      absl::MutexLock lock(&mutex_);
      if (!ended_.ok()) return;  // the receiver ends, or ended, what waited
      done = std::move(waiting_.back());
      waiting_.pop_back();
    }
  }
  done({.status = refused});
}

void LookupTransport::Receive() {
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

void LookupTransport::Shutdown() {
  lookup_.Cancel();
  absl::MutexLock lock(&join_mutex_);
  if (receiver_.joinable()) receiver_.join();
}

std::unique_ptr<CoalescingLookup> MakeCoalescingLookup(
    OpenChannel open, const CoalescingClientOptions& options) {
  BatchLookupOptions lookup = options.lookup;
  lookup.max_in_flight =
      std::max<size_t>(options.coalescing.batching.max_in_flight, 1);
  return std::make_unique<CoalescingLookup>(
      std::make_unique<LookupTransport>(std::move(open), lookup, options.table),
      options.coalescing);
}

}  // namespace planb::client
