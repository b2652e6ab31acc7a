// SPDX-License-Identifier: Apache-2.0

// A model of one routing table: the world that it lives in, what clients did to
// it and were told, what it holds after each batch, and the check of a recorded
// history against that. Knows the contract (proto/planb/v1), and neither gRPC
// nor the server.

#ifndef PLANB_SERVER_TESTING_MODEL_H_
#define PLANB_SERVER_TESTING_MODEL_H_

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
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

  // What `look` returns of the history so far. No call is added meanwhile.
  template <typename Look>
  auto Inspect(Look look) const {
    const std::lock_guard lock(mutex_);
    return look(history_);
  }

  // REQUIRES: no client adds any more.
  ModelHistory Take() { return std::move(history_); }

 private:
  mutable std::mutex mutex_;
  ModelHistory history_;
};

// A plain value.
struct ModelTable {
  std::map<Prefix, NextHopId> routes;
  std::map<NextHopId, NextHop> next_hops;
  std::map<NextHopId, NextHopGroup> groups;

  friend bool operator==(const ModelTable&, const ModelTable&) = default;
};

// What becomes of a batch.
struct ModelResult {
  // Every reason there is to refuse it; empty: it is accepted.
  std::set<std::string> refusals;
  // If accepted (whatever `validate_only` says): the table then, and what that
  // changed.
  ModelTable after;
  ChangeCounts counts;
};

// Applies `batch` to `before`, which is of `generation`. Writer epochs and
// request ids are not looked at.
ModelResult ApplyToModel(const ModelTable& before, uint64_t generation,
                         const UpdateBatch& batch);

// What leads from one table to the other, ascending; without its generation.
Delta Difference(const ModelTable& before, const ModelTable& after);

// Puts the lists of a delta into the order of Difference.
void SortDelta(Delta& delta);

// What differs between two ascending deltas, for people; "" if nothing does.
std::string CompareDeltas(const Delta& actual, const Delta& expected);

// Table.digest.
std::string DigestOf(const ModelTable& table);

// Looks at every route.
NextHopId LongestMatch(const ModelTable& table, const Address& address);

using Random = std::mt19937_64;

// Uniform in 0..n-1. REQUIRES: n > 0.
inline uint64_t Below(Random& random, uint64_t n) { return random() % n; }
inline bool Chance(Random& random, uint64_t percent) {
  return Below(random, 100) < percent;
}

// Ascending, each once.
const std::vector<Prefix>& WorldPrefixes();

// For every prefix of the world an address of which it is the longest, and all
// addresses where one begins or ends; IPv6 first.
const std::vector<Address>& WorldProbes();

// Changes of a few routes, sometimes with next hops and groups.
UpdateBatch RandomChanges(Random& random);
// All routes anew.
UpdateBatch RandomReplacement(Random& random);
// Next hops and groups, upserted and deleted.
UpdateBatch RandomObjects(Random& random);

// What is wrong with it, for people, at most a few of each kind; empty if it
// keeps every promise. Most histories take O(calls * routes); calls of unknown
// outcome are tried out where nothing says what became of them.
std::vector<std::string> CheckHistory(const ModelHistory& history);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_H_
