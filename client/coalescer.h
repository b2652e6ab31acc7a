// Which calls share a batch, and when it leaves: the rules of a
// CoalescingLookup without its threads and without a clock.
//
// With nothing under way, a call leaves at once, alone: gathering would cost it
// time and save nothing. While batches are under way, calls gather until there
// are max_batch of them or the first has waited for max_delay. So batches grow
// with the load, by themselves.

#ifndef PLANB_CLIENT_COALESCER_H_
#define PLANB_CLIENT_COALESCER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb::client {

struct CoalescerOptions {
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

// Invariant: the Done of a call is given out once. Calls wait in the order of
// their ids. Thread-compatible. Operations on one call are O(log calls).
class Coalescer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Done = std::function<void(const absl::StatusOr<CallAnswer>&)>;
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

  explicit Coalescer(const CoalescerOptions& options);

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

  const CoalescerOptions options_;
  uint64_t last_call_ = 0;
  uint64_t last_departure_ = 0;
  size_t calls_ = 0;  // that wait or are under way
  std::map<uint64_t, Call> waiting_;
  // By departure; calls ordered by id.
  std::map<uint64_t, std::vector<Call>> under_way_;
  // Of the calls that have one and have not ended.
  std::set<std::pair<Time, uint64_t>> deadlines_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_COALESCER_H_
