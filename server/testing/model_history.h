// SPDX-License-Identifier: Apache-2.0

// What clients of one table did and were told, call by call, with the times
// between which each call was judged. All that the checker goes by.

#ifndef PLANB_SERVER_TESTING_MODEL_HISTORY_H_
#define PLANB_SERVER_TESTING_MODEL_HISTORY_H_

#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "lpm/address.h"
#include "lpm/prefix.h"
#include "server/table/update.h"

namespace planb::server {

// Nanoseconds of a clock that does not jump.
using Instant = int64_t;
inline constexpr Instant kNever = std::numeric_limits<Instant>::max();

// One call, or one batch on a stream, that would change the table.
struct WriteCall {
  enum class Kind { kRoutes, kStream, kReplace, kNextHops };
  enum class Outcome { kDone, kRefused, kUnknown };
  Kind kind = Kind::kRoutes;
  int stream = 0;  // of several batches in flight; 0: none
  UpdateBatch batch;
  Instant begin = 0;
  Instant end = 0;
  Outcome outcome = Outcome::kUnknown;

  std::string reason;  // kRefused
  // kDone:
  uint64_t generation = 0;
  // Of routes, of kNextHops those of objects; the rest is 0.
  ChangeCounts counts;
  std::string digest;  // "" where replies have none
  uint64_t visible = 0;
  bool acked_visible = false;  // the caller awaited it
};

// A batch of lookups: all of ModelHistory::probes.
struct LookupCall {
  int stream = 0;  // 0: none
  Instant begin = 0;
  Instant end = 0;
  uint64_t min_generation = 0;
  bool not_visible = false;  // failed for `min_generation`
  uint64_t generation = 0;
  std::vector<NextHopId> answers;
};

// GetRoute; kNoRoute: there was none.
struct RouteCall {
  Instant begin = 0;
  Instant end = 0;
  Prefix prefix;
  NextHopId next_hop = kNoRoute;
};

struct ExplainCall {
  Instant begin = 0;
  Instant end = 0;
  uint64_t generation = 0;
  Address address;
  std::vector<Route> matches;  // the longest first
  NextHopId next_hop = kNoRoute;
};

// ListRoutes of all.
struct ListCall {
  Instant begin = 0;
  Instant end = 0;
  uint64_t generation = 0;
  std::vector<Route> routes;
};

// GetTable.
struct StateCall {
  Instant begin = 0;
  Instant end = 0;
  uint64_t accepted = 0;
  uint64_t visible = 0;
  uint64_t persisted = 0;
  std::string digest;
};

struct WatchCall {
  struct Message {
    Instant at = 0;
    bool complete = false;
    Delta delta;

    // Says only up to where all was sent.
    bool bookmark() const {
      return complete && delta.routes.empty() && delta.next_hops.empty() &&
             delta.groups.empty() && delta.deleted_next_hops.empty() &&
             delta.deleted_groups.empty();
    }
  };
  Instant begin = 0;
  Instant end = 0;
  uint64_t start_generation = 0;
  bool out_of_range = false;
  std::vector<Message> messages;
};

// A process of the server, from before its start until it was seen dead.
struct ServerLife {
  Instant begin = 0;
  Instant drain = kNever;  // when it was told to
  Instant end = kNever;
};

// Each list in the order in which calls ended; those of one stream in its own.
struct ModelHistory {
  std::vector<Address> probes;
  std::vector<ServerLife> lives;
  std::vector<WriteCall> writes;
  std::vector<LookupCall> lookups;
  std::vector<RouteCall> routes;
  std::vector<ExplainCall> explains;
  std::vector<ListCall> lists;
  std::vector<StateCall> states;
  std::vector<WatchCall> watches;
  // What should not have happened at all, such as an INTERNAL error.
  std::vector<std::string> surprises;
};

// When what a caller lost sight of at `end` cannot happen any more: its server
// is dead.
Instant NextDeath(const ModelHistory& history, Instant end);

// A call in few words.
std::string Describe(const WriteCall& call);

// How what a call was told differs from what a model counted; "" if it does
// not.
std::string CompareCounts(const WriteCall& call, const ChangeCounts& model);

// Thread-safe.
class HistoryRecorder {
 public:
  // Adds to one of the lists: Add(&ModelHistory::writes, call).
  template <typename Call>
  void Add(std::vector<Call> ModelHistory::*list, Call call) {
    const std::lock_guard lock(mutex_);
    (history_.*list).push_back(std::move(call));
  }

  // REQUIRES: nobody adds any more.
  ModelHistory Take() { return std::move(history_); }

 private:
  std::mutex mutex_;
  ModelHistory history_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_HISTORY_H_
