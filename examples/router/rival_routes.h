// SPDX-License-Identifier: Apache-2.0

// Tables of other kinds than PlanB's, to forward by and to measure with: DPDK's
// FIBs and the other schemes of the paper's Figure 7.

#ifndef PLANB_EXAMPLES_ROUTER_RIVAL_ROUTES_H_
#define PLANB_EXAMPLES_ROUTER_RIVAL_ROUTES_H_

#include <grpcpp/channel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "base/published.h"
#include "client/next_hop_directory.h"
#include "client/route_watcher.h"
#include "lpm/prefix.h"
#include "lpm/table/group_table.h"
#include "lpm/table/table.h"

namespace planb {
class Baseline;
class UpdatableBaseline;
}  // namespace planb

namespace planb::router {

// dpdk, poptrie, cp-trie, hbs, neurotrie and paper: benchmarks/rivals/rivals.h
// says what each is.
absl::Span<const absl::string_view> RivalKinds();
bool IsRival(absl::string_view kind);

// The routes of a table in FIBs of one kind, with the objects and groups. What
// of changes was taken becomes visible by Build. DPDK's FIB is changed in
// place: while Build runs, lookups may see a part of the changes. Others are
// built anew, and a generation becomes visible as a whole.
//
// Build is for one thread at a time, with itself alone; all else is
// thread-safe. Lookups never wait.
class RivalRoutes {
 public:
  // REQUIRES: IsRival(kind); for "dpdk", DPDK's environment has started.
  explicit RivalRoutes(absl::string_view kind);
  ~RivalRoutes();

  // O(changes * log routes).
  void Take(const GenerationChanges& changes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Errors: UNIMPLEMENTED for routes that this kind cannot hold, such as next
  // hops of 2^31 or more in "neurotrie" and "paper"; RESOURCE_EXHAUSTED. Then
  // lookups go on by what they had, in place with a part of the changes, and
  // the next call builds everything.
  absl::Status Build() ABSL_LOCKS_EXCLUDED(mutex_);

  // As client::LocalRoutes has them.
  uint64_t Lookup(Family family, const void* addresses, size_t count,
                  const uint32_t* flow_hashes, NextHopId* next_hops) const;
  uint64_t generation() const { return state_.Read()->generation; }
  std::shared_ptr<const client::NextHopObjects> objects() const {
    return state_.Read()->objects;
  }
  uint64_t objects_version() const { return state_.Read()->objects_version; }

  // How often the FIB of a family was built as a whole.
  uint64_t builds() const { return builds_.load(std::memory_order_relaxed); }

 private:
  struct Fib {
    std::shared_ptr<const Baseline> fib;      // null: no routes
    UpdatableBaseline* changeable = nullptr;  // the same, or null
  };
  struct State {
    uint64_t generation = 0;
    uint64_t objects_version = 0;
    std::shared_ptr<const client::NextHopObjects> objects;
    std::shared_ptr<const GroupTable> groups;
    PerFamily<Fib> fibs;
  };

  absl::StatusOr<Fib> BuildFib(const RouteSet& routes) const;
  void Publish(const State& state);

  const std::string kind_;
  Published<State> state_;
  std::atomic<uint64_t> builds_ = 0;

  Mutex mutex_;
  TableRoutes routes_ ABSL_GUARDED_BY(mutex_);
  // Since the last Build. All: the former routes do not count.
  PerFamily<std::vector<Route>> changed_ ABSL_GUARDED_BY(mutex_);
  bool all_ ABSL_GUARDED_BY(mutex_) = false;
  State next_ ABSL_GUARDED_BY(mutex_);  // but for the FIBs
};

// Follows the table of a server. Owns a thread that takes its changes, so that
// the watch never waits for a build, and one that builds. What goes wrong after
// the start is printed to stderr, and tried again. Thread-safe.
class RivalTable {
 public:
  // Returns when the table is there. Errors: those of Build; those of the
  // server that do not pass. REQUIRES: as RivalRoutes.
  static absl::StatusOr<std::unique_ptr<RivalTable>> Follow(
      std::shared_ptr<grpc::Channel> channel, const std::string& table,
      absl::string_view kind);
  ~RivalTable();

  const RivalRoutes& routes() const { return routes_; }
  // Errors: DEADLINE_EXCEEDED.
  absl::Status WaitFor(uint64_t generation, Deadline deadline) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  RivalTable(std::shared_ptr<grpc::Channel> channel, std::string table,
             absl::string_view kind);
  // The loops of the threads.
  void TakeChanges() ABSL_LOCKS_EXCLUDED(mutex_);
  void Build() ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string table_;
  RivalRoutes routes_;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;  // and not yet built
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status trouble_ ABSL_GUARDED_BY(mutex_);  // the first, before ready_
  std::unique_ptr<client::RouteWatcher> watcher_ ABSL_GUARDED_BY(mutex_);
  std::thread taker_, builder_;
};

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_RIVAL_ROUTES_H_
