// SPDX-License-Identifier: Apache-2.0

// A model of one routing table, with neither gRPC nor the server: a small world
// of prefixes, the history of all calls to a table and their answers, the table
// as the contract (proto/planb/v1) promises it, and the check of a history
// against that table.

#ifndef PLANB_SERVER_TESTING_MODEL_H_
#define PLANB_SERVER_TESTING_MODEL_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "server/table/update.h"

namespace planb::server {

// Nanoseconds of a steady clock.
using Instant = int64_t;
inline constexpr Instant kNever = std::numeric_limits<Instant>::max();

// One call, or one batch on a stream, that may change the table.
struct WriteCall {
  enum class Kind { kRoutes, kStream, kReplace, kNextHops, kImport };
  enum class Outcome { kDone, kRefused, kUnknown };
  Kind kind = Kind::kRoutes;
  int stream = 0;       // the number of its stream; 0: none
  bool packed = false;  // the form of its changes of routes
  UpdateBatch batch;
  Instant begin = 0;
  Instant end = 0;
  Outcome outcome = Outcome::kUnknown;

  // Set with kRefused. Also with kUnknown: a batch that the store refused may
  // be there after the next restart, and one of a deleted table may have come
  // first.
  std::string reason;
  // Set with kDone:
  uint64_t generation = 0;
  // Changes of routes; for kNextHops, changes of next-hop objects.
  ChangeCounts counts;
  std::string digest;  // "" if the reply has none
  uint64_t visible = 0;
  bool acked_visible = false;  // the call asked for ACK_VISIBLE
  int server = 0;              // that was called; so below
};

// A lookup of all of ModelHistory::probes.
struct LookupCall {
  int stream = 0;  // 0: none
  Instant begin = 0;
  Instant end = 0;
  uint64_t min_generation = 0;
  bool not_visible = false;  // failed: `min_generation` was not visible
  uint64_t generation = 0;
  std::vector<NextHopId> answers;
  int server = 0;
};

// A call of GetRoute; kNoRoute means that there was no route.
struct RouteCall {
  Instant begin = 0;
  Instant end = 0;
  Prefix prefix;
  NextHopId next_hop = kNoRoute;
  int server = 0;
};

struct ExplainCall {
  Instant begin = 0;
  Instant end = 0;
  uint64_t generation = 0;
  Address address;
  std::vector<Route> matches;  // the longest first
  NextHopId next_hop = kNoRoute;
  int server = 0;
};

// A call of ListRoutes of the whole table, or the routes of a snapshot.
struct ListCall {
  Instant begin = 0;
  Instant end = 0;
  uint64_t generation = 0;
  std::vector<Route> routes;
  int server = 0;
};

// A call of ListNextHops, or the objects of a snapshot.
struct ObjectsCall {
  Instant begin = 0;
  Instant end = 0;
  uint64_t generation = 0;
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  int server = 0;
};

// A call that was told that there is no such table, or that it was deleted.
struct AbsentCall {
  Instant begin = 0;
  Instant end = 0;
  int server = 0;
  // Servers that share a store ask it about writes: it may know of a deletion
  // before the server that was called.
  bool writes = false;
};

// A call of GetTable.
struct StateCall {
  Instant begin = 0;
  Instant end = 0;
  uint64_t accepted = 0;
  uint64_t visible = 0;
  uint64_t persisted = 0;
  std::string digest;
  bool complete_table = false;
  int server = 0;
};

struct WatchCall {
  struct Message {
    Instant at = 0;
    bool complete = false;
    Delta delta;
    std::optional<bool> complete_table = std::nullopt;

    // Without changes: all generations up to this one were sent, or this one
    // says that the table is complete, or is not.
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
  int server = 0;
};

// A process of the server, from before its start until its end was seen.
struct ServerLife {
  Instant begin = 0;
  Instant drain = kNever;  // when SIGTERM was sent
  Instant end = kNever;
  int server = 0;
};

// A time while the disk of the store failed.
struct DiskFault {
  Instant begin = 0;
  Instant end = 0;
};

// All calls to one table, from its creation to its deletion. Each list is in
// the order in which calls ended; calls of one stream keep its order.
struct ModelHistory {
  // The table is on several servers that share a store. All of them have one
  // order of batches. Each server answers a write at its place in that order,
  // also one that changes nothing, is refused or only validated. A read may be
  // behind the newest: it is held to what its server has answered before. A
  // call that its client gave up may take effect at any later time.
  bool shared = false;
  // The generation at which the table was created, empty.
  uint64_t first = 0;
  // When the table was made, when its deletion was asked for, and when it was
  // done, if ever.
  Instant created = 0;
  Instant deleted_begin = kNever;
  Instant deleted_end = kNever;
  std::vector<Address> probes;
  std::vector<ServerLife> lives;
  std::vector<DiskFault> disk_faults;
  std::vector<WriteCall> writes;
  std::vector<LookupCall> lookups;
  std::vector<RouteCall> routes;
  std::vector<ExplainCall> explains;
  std::vector<ListCall> lists;
  std::vector<ObjectsCall> objects;
  std::vector<AbsentCall> absents;
  std::vector<StateCall> states;
  std::vector<WatchCall> watches;
  // Unexpected events, such as an INTERNAL error.
  std::vector<std::string> surprises;
};

// When a call can no longer take effect that its client gave up at `end`: when
// the server was dead.
Instant NextDeath(const ModelHistory& history, Instant end);

// Returns whether the store failed, so that the call changed nothing that this
// server has.
inline bool RefusedByStore(const WriteCall& call) {
  return call.reason == "STORE_FULL" || call.reason == "STORE_FAILED" ||
         call.reason == "STORE_UNDECIDED";
}

// A call, for messages.
std::string Describe(const WriteCall& call);

// Says how the counts that a call was told differ from those of the model; ""
// if they do not.
std::string CompareCounts(const WriteCall& call, const ChangeCounts& model);

// Collects the history of a run. Thread-safe.
class HistoryRecorder {
 public:
  // Adds to one of the lists: Add(&ModelHistory::writes, call).
  template <typename Call>
  void Add(std::vector<Call> ModelHistory::*list, Call call) {
    const MutexLock lock(mutex_);
    (history_.*list).push_back(std::move(call));
  }

  // The servers share a store. REQUIRES: no client adds yet.
  void Share() { history_.shared = true; }

  // What `look` returns of the history so far. No call is added meanwhile.
  template <typename Look>
  auto Inspect(Look look) const {
    const MutexLock lock(mutex_);
    return look(history_);
  }

  // REQUIRES: no client adds any more.
  ModelHistory Take() { return std::move(history_); }

 private:
  mutable Mutex mutex_;
  ModelHistory history_;
};

// A routing table as plain maps, which applies one batch after the other. A
// value.
struct ModelTable {
  std::map<Prefix, NextHopId> routes;
  std::map<NextHopId, NextHop> next_hops;
  std::map<NextHopId, NextHopGroup> groups;
  bool complete = false;

  friend bool operator==(const ModelTable&, const ModelTable&) = default;
};

// The outcome of a batch.
struct ModelResult {
  // All reasons to refuse it; empty: it is accepted.
  std::set<std::string> refusals;
  // If accepted: the table after it, and the changes. `validate_only` is
  // ignored.
  ModelTable after;
  ChangeCounts counts;
  bool completes = false;  // or says that it is not complete after all

  bool Changes() const { return completes || counts.Any(); }
};

// Applies `batch` to `before`, which is the table at `generation`. Ignores
// writer epochs and request ids.
ModelResult ApplyToModel(const ModelTable& before, uint64_t generation,
                         const UpdateBatch& batch);

// The changes that lead from one table to the other, ascending; generation 0.
Delta Difference(const ModelTable& before, const ModelTable& after);

// Sorts the lists of a delta as Difference does.
void SortDelta(Delta& delta);

// Says what differs between two ascending deltas; "" if they are equal.
std::string CompareDeltas(const Delta& actual, const Delta& expected);

// Returns what Table.digest of the contract is for `table`.
std::string DigestOf(const ModelTable& table);

// Compares every route.
NextHopId LongestMatch(const ModelTable& table, const Address& address);

using Random = std::mt19937_64;

// Returns a number, uniform in 0..n-1. REQUIRES: n > 0.
inline uint64_t Below(Random& random, uint64_t n) { return random() % n; }
inline bool Chance(Random& random, uint64_t percent) {
  return Below(random, 100) < percent;
}

// A few dozen nested prefixes, ascending.
const std::vector<Prefix>& WorldPrefixes();

// Addresses that tell these prefixes apart: the first and last address of each,
// and their neighbours. IPv6 first.
const std::vector<Address>& WorldProbes();

// Makes changes of a few routes, sometimes with next hops and groups.
UpdateBatch RandomChanges(Random& random);
// Makes a replacement of all routes.
UpdateBatch RandomReplacement(Random& random);
// Makes a replacement of all routes, next hops and groups.
UpdateBatch RandomImport(Random& random);
// Makes a batch that upserts and deletes next hops and groups.
UpdateBatch RandomObjects(Random& random);

// Compares a history with the contract: there must be one sequence of batches
// with which every answer agrees. Returns a few faults of each kind; empty if
// there is none. Takes O(calls * routes) for most histories. Where no answer
// tells the outcome of a call, the check tries both.
std::vector<std::string> CheckHistory(const ModelHistory& history);

// Checks that a table that was created after another of its name was deleted
// begins above all generations of that one. Returns the fault, or "".
std::string CheckSuccession(const ModelHistory& deleted,
                            const ModelHistory& created);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_H_
