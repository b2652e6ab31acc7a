// SPDX-License-Identifier: Apache-2.0

// A replica of a server's table inside the calling process: lookups are
// function calls at the engine's own rate.

#ifndef PLANB_CLIENT_LOCAL_TABLE_H_
#define PLANB_CLIENT_LOCAL_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "base/published.h"
#include "client/call.h"
#include "client/lookup_client.h"
#include "client/next_hop_directory.h"
#include "client/route_watcher.h"
#include "lpm/fib/fib.h"
#include "lpm/prefix.h"
#include "lpm/routes/table_digest.h"
#include "lpm/table/group_table.h"
#include "lpm/table/table.h"

namespace planb::client {

// The routes of a table, kept up to date by its changes, and FIBs of them.
// Apply is for one thread at a time; all else is thread-safe. Lookups take no
// lock and never wait for Apply.
class LocalRoutes {
 public:
  // Empty, at generation 0.
  explicit LocalRoutes(const FibOptions& options = {});

  // Makes the generation of `changes` visible, as a whole. Errors, after which
  // lookups go on as before and only a reset may be applied:
  //   DATA_LOSS: the contents are not those of the digest, or a bookmark has
  //     another digest than these routes.
  //   RESOURCE_EXHAUSTED: a FIB cannot hold the routes, or there is no memory.
  absl::Status Apply(const GenerationChanges& changes);

  // Looks up `count` addresses of 16 or 4 bytes in network byte order; kNoRoute
  // without a route. Returns the generation that answered all of them.
  uint64_t Lookup(Family family, const void* addresses, size_t count,
                  NextHopId* next_hops) const {
    const auto state = state_.Read();
    state->fibs.of(family)->Lookup(addresses, count, next_hops, kernel_);
    return state->generation;
  }
  // Does the same, and puts the member that a flow takes in the place of a
  // group: `flow_hashes` has one for each address. The server chooses the same.
  uint64_t Lookup(Family family, const void* addresses, size_t count,
                  const uint32_t* flow_hashes, NextHopId* next_hops) const {
    const auto state = state_.Read();
    state->fibs.of(family)->Lookup(addresses, count, next_hops, kernel_);
    state->groups->ChooseEach(reinterpret_cast<const char*>(flow_hashes), count,
                              reinterpret_cast<char*>(next_hops));
    return state->generation;
  }
  // The same as the first, and the length of the prefix that each answer is of,
  // or kNoPrefixLength. REQUIRES: FibOptions::prefix_lengths.
  uint64_t LookupWithLengths(Family family, const void* addresses, size_t count,
                             NextHopId* next_hops, uint8_t* lengths) const {
    const auto state = state_.Read();
    state->fibs.of(family)->LookupWithLengths(addresses, count, next_hops,
                                              lengths, kernel_);
    return state->generation;
  }
  NextHopId Lookup(const Address& address) const {
    return state_.Read()->fibs.of(address.family())->Lookup(address, kernel_);
  }

  uint64_t generation() const { return state_.Read()->generation; }
  // Table.digest of generation().
  std::string digest() const { return state_.Read()->digest; }
  // Table.complete_since_unix_nanos of generation(); 0: not complete.
  uint64_t complete_since() const { return state_.Read()->complete_since; }
  // The objects of generation(). The same pointer as long as they stay the
  // same.
  std::shared_ptr<const NextHopObjects> objects() const {
    return state_.Read()->objects;
  }
  // Grows with each generation() that changes objects.
  uint64_t objects_version() const { return state_.Read()->objects_version; }

 private:
  struct State {
    uint64_t generation = 0;
    std::string digest;
    uint64_t complete_since = 0;
    TableFibs fibs;
    std::shared_ptr<const GroupTable> groups;
    std::shared_ptr<const NextHopObjects> objects;
    uint64_t objects_version = 0;
  };

  void SetObjects(const GenerationChanges& changes);
  absl::Status Compile(const GenerationChanges& changes);
  void Publish(uint64_t generation, uint64_t complete_since,
               const TableFibs& fibs);
  // Of the routes and objects.
  std::string Digest() const;

  const Kernel& kernel_;
  TableRoutes routes_;
  TableFibsCompiler compiler_;
  std::shared_ptr<const NextHopObjects> objects_;
  TableDigest objects_digest_;
  std::shared_ptr<const GroupTable> group_table_ =
      std::make_shared<const GroupTable>();
  uint64_t objects_version_ = 0;
  Published<State> state_;
};

struct LocalTableOptions {
  // Empty means "default".
  std::string table = {};
  // When the server was not heard for so long, lookups fail, or ask the server
  // if `fall_back`. It sends a bookmark every 5 s, unless told otherwise. The
  // test is made a hundred times in this time.
  absl::Duration max_staleness = absl::InfiniteDuration();
  // Batches of up to 4,096 addresses are then sent to the server, until what it
  // answered from is here.
  bool fall_back = false;
  // Keeps what LookupWithLengths needs, as FibOptions::prefix_lengths.
  bool prefix_lengths = false;
  // What has more is not taken: the table grows stale.
  GenerationLimits limits = {};
  // The pauses before the server is asked again.
  BackoffOptions backoff = {};
};

// Follows one table of a server through WatchRoutes, which the server must
// allow the caller. Owns a thread that follows, and one more with a
// `max_staleness`. Thread-safe.
//
// The server's digest is compared at every generation and bookmark. Where it
// differs, the whole table is fetched again, ever more rarely if that does not
// help. Generations never go back: of a server that is behind, for example as
// it lost a table that was in memory only, nothing is taken until it is ahead.
// Meanwhile the table grows stale.
//
// A fork has no threads that follow: in the child each table ends with
// FAILED_PRECONDITION, and so does Follow(), as gRPC does not work there.
//
// Costs about 8 MB and 40 us a small change for 259,000 routes. Each set of
// members of groups costs 16 KiB, and about a millisecond where it is new.
class LocalTable {
 public:
  // Returns when the whole table is there. Errors: DEADLINE_EXCEEDED, with the
  // last error, if it is not by `deadline`; RESOURCE_EXHAUSTED without a thread
  // to follow; FAILED_PRECONDITION in a process that was forked from one with a
  // table; the server's, if they do not pass (PERMISSION_DENIED, NOT_FOUND
  // for a table that does not exist).
  static absl::StatusOr<std::unique_ptr<LocalTable>> Follow(
      std::shared_ptr<grpc::Channel> channel, LocalTableOptions options = {},
      Deadline deadline = {});
  // REQUIRES: no call is in progress, and !forked().
  ~LocalTable();
  LocalTable(const LocalTable&) = delete;
  LocalTable& operator=(const LocalTable&) = delete;

  // As LocalRoutes::Lookup. Errors: UNAVAILABLE if the table is stale and there
  // is no `fall_back`, or it fails; the error that ended the watch, such as
  // NOT_FOUND for a table that was deleted.
  absl::StatusOr<uint64_t> Lookup(Family family, const void* addresses,
                                  size_t count, NextHopId* next_hops) const {
    if (bypass_.load(std::memory_order_acquire)) {
      return AskServer(family, addresses, count, next_hops);
    }
    return routes_.Lookup(family, addresses, count, next_hops);
  }
  absl::StatusOr<NextHopId> Lookup(const Address& address) const;

  // As LocalRoutes::LookupWithLengths. Errors: those of Lookup without
  // `fall_back`.
  absl::StatusOr<uint64_t> LookupWithLengths(Family family,
                                             const void* addresses,
                                             size_t count, NextHopId* next_hops,
                                             uint8_t* lengths) const {
    if (bypass_.load(std::memory_order_acquire)) return WhyBypassed();
    return routes_.LookupWithLengths(family, addresses, count, next_hops,
                                     lengths);
  }

  // Waits until lookups are answered from `generation` or a later one, such as
  // that of an update's reply. Errors: DEADLINE_EXCEEDED, with the reason if
  // the table is not followed now; the error that ended the watch.
  absl::Status WaitFor(uint64_t generation, Deadline deadline) const;
  // Waits until a writer has said that the table has all that it is to have.
  // Errors: as WaitFor.
  absl::Status WaitUntilComplete(Deadline deadline) const;

  const LocalRoutes& routes() const { return routes_; }
  uint64_t generation() const { return routes_.generation(); }
  // When a writer said that the table has all that it is to have, in
  // nanoseconds since the Unix epoch; 0: it is not complete.
  uint64_t complete_since() const { return routes_.complete_since(); }
  // The time since the last word from the server.
  absl::Duration staleness() const;
  // True in a process that was forked from the one that follows the table.
  bool forked() const { return forked_; }
  // How often the whole table was fetched after the first time.
  uint64_t resyncs() const { return resyncs_.load(); }

 private:
  class Forks;

  LocalTable(std::shared_ptr<grpc::Channel> channel, LocalTableOptions options);

  // Starts the threads. Errors: RESOURCE_EXHAUSTED if that fails; the
  // destructor ends those that were started.
  absl::Status Start();
  // The loops of the threads.
  void Run();
  void WatchStaleness();
  // Waits for `holds`, which the follower's changes make true.
  absl::Status Await(absl::FunctionRef<bool()> holds, absl::string_view what,
                     Deadline deadline) const;
  // Follows until an error. One from what was sent is UNAVAILABLE.
  absl::Status FollowOnce(RetryPolicy& retry);
  // Why the table is not followed now, after a colon; empty if it is.
  std::string LastError() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why lookups are not answered from the routes.
  absl::Status WhyBypassed() const;
  absl::Status Stale() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<uint64_t> AskServer(Family family, const void* addresses,
                                     size_t count, NextHopId* next_hops) const;

  const std::shared_ptr<grpc::Channel> channel_;
  const LocalTableOptions options_;
  const LookupClient server_;
  LocalRoutes routes_;
  mutable std::atomic<bool> bypass_ =
      false;  // stale, ended, or before answered_
  std::atomic<bool> forked_ = false;
  std::atomic<SteadyInstant::rep> last_contact_;
  std::atomic<uint64_t> resyncs_ = 0;
  // False: changes cannot be applied to the routes, but for a whole table. Of
  // follower_ alone.
  bool consistent_ = false;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  // The newest generation that the server answered from.
  mutable uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status trouble_ ABSL_GUARDED_BY(mutex_);  // OK while it is followed
  std::unique_ptr<RouteWatcher> watcher_ ABSL_GUARDED_BY(mutex_);
  std::thread follower_, clock_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOCAL_TABLE_H_
