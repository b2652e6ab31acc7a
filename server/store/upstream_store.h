// SPDX-License-Identifier: Apache-2.0

// The store of a server that follows another server: its tables, with the same
// generations, read-only. Servers may follow each other in tiers.

#ifndef PLANB_SERVER_STORE_UPSTREAM_STORE_H_
#define PLANB_SERVER_STORE_UPSTREAM_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "follow/generation_assembler.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/base/client_channel.h"
#include "server/table/store.h"

namespace planb::server {

struct UpstreamOptions {
  // HOST:PORT or unix:PATH.
  std::string target;
  TlsFiles tls;
  // How long Load() waits for the server, each time that it sends nothing.
  absl::Duration timeout = absl::Seconds(10);
  // How often it is asked which tables it has. Also what lag() is made of.
  absl::Duration poll = absl::Seconds(1);
  // A watch that brings nothing for so long, not even one of the bookmarks that
  // come every few seconds, is begun anew.
  absl::Duration silence = absl::Seconds(30);
  // A table with a generation that has more is not followed.
  GenerationLimits limits = {};
  // The pauses before a table that cannot be followed is asked for again: the
  // first, which doubles each time, and the longest.
  absl::Duration first_attempt = absl::Seconds(1);
  absl::Duration last_attempt = absl::Minutes(1);
};

// Follows each table through a watch, which begins with the whole table where
// that is needed. A watch that ends is begun anew after a random pause of up to
// a second, or two if the one before had nothing to read, so that the followers
// of a server that was restarted come back one by one. Where the other server
// has an older generation than this one, for example because it follows others
// and is behind, or lost a table that it kept in memory, this one keeps what it
// has until the other is ahead again; lag() then grows.
//
// What a table has no room for is dropped, and asked for again from where the
// table was; the other server has it, or sends the whole table.
//
// A table that is listed with more than the limits is not asked for. One that
// cannot be followed is asked for again after longer and longer pauses, or once
// it is listed as much smaller.
//
// Owns a thread for each table and one that asks for tables. Thread-safe.
class UpstreamStore final : public Store, public TableFeed {
 public:
  // Does not connect. Errors: those of StartClientTls().
  static absl::StatusOr<std::unique_ptr<UpstreamStore>> Open(
      UpstreamOptions options);
  ~UpstreamStore() override;

  absl::string_view kind() const override { return "server"; }
  const std::string& path() const override { return options_.target; }
  TableFeed* feed() override { return this; }

  // Errors: UNAVAILABLE (STORE_FAILED) if the server does not answer, or
  // refuses to be watched.
  absl::StatusOr<std::vector<StoredTable>> Load() override;
  absl::Status Resume(absl::Span<StoredTable> tables,
                      absl::Duration age) override;
  Following Follow(StoreFollower& follower) override;
  absl::Duration lag() const override;
  size_t missing() const override;
  absl::Status WhyMissing(absl::string_view name) const override;
  TlsReloader* tls() override {
    return tls_ == nullptr ? nullptr : &tls_->reloader();
  }
  void Close(const absl::Status& why, SteadyInstant deadline) override;

 private:
  // A call that Close() ends while this lives.
  class Call;
  // A table that is followed. Belongs to its thread, but for `ended`.
  struct Watch;
  // Why a table of the other server is not followed.
  struct Refusal {
    absl::Status why;
    uint64_t size = 0;  // the least that it was listed with
    absl::Duration pause;
    SteadyInstant attempt;  // the next
  };

  UpstreamStore(UpstreamOptions options, std::unique_ptr<TlsProvider> tls);

  absl::StatusOr<v1::ListTablesResponse> ListTables(absl::Duration timeout);
  // Follows a table from its whole contents on, which it returns. Ends if the
  // server sends nothing for UpstreamOptions::timeout. Errors besides those of
  // ReadGeneration(): RESOURCE_EXHAUSTED (TABLE_FULL), and nothing is asked
  // for, if it is listed with more than the limits.
  absl::StatusOr<StoredTable> Begin(const v1::Table& table, Watch& watch);
  // Reads the watch until a generation is complete, or to a bookmark. Errors:
  // DATA_LOSS if what was sent is not that of a table; RESOURCE_EXHAUSTED
  // (TABLE_FULL) if it has more than the limits.
  static absl::StatusOr<GenerationChanges> ReadGeneration(Watch& watch);
  void Open(Watch& watch);
  static void Cancel(Watch& watch);
  // Ends the watches that are silent although the server has answered since
  // `answering`: one of them may have been lost between here and there.
  void EndSilentWatches(SteadyInstant answering);
  // Calls the follower. False after following has ended.
  bool Tell(absl::FunctionRef<void(StoreFollower&)> what);
  // Counts a watch that does not deliver, or that delivers again.
  void SetAstray(Watch& watch, bool astray);
  // True if the changes are for the follower now. Else it has no room, or
  // lacks some before them, from which the watch goes on then.
  bool TakesNow(Watch& watch, GenerationChanges& changes);
  // As Tell().
  bool Deliver(Watch& watch, GenerationChanges changes);
  // True if a table that is listed, and not followed, is to be asked for.
  bool IsDue(const v1::Table& table);
  void Refuse(const v1::Table& table, const absl::Status& why);
  // Begins to follow it, or refuses it. As Tell().
  bool FollowToo(const v1::Table& table);
  // The loops of the threads.
  void RunWatch(Watch& watch);
  void RunPoll();
  // Waits for a random time before another attempt. False if the store is
  // closed.
  bool Pause(absl::Duration shortest, absl::Duration longest);

  const UpstreamOptions options_;
  const std::unique_ptr<TlsProvider> tls_;
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
  std::atomic<SteadyInstant::rep> last_contact_ = 0;
  std::atomic<int> failing_watches_ = 0;  // watches that do not deliver
  Mutex follower_mutex_;                  // held while the follower is called
  // Null before Follow(), and after following has ended.
  StoreFollower* follower_ ABSL_GUARDED_BY(follower_mutex_) = nullptr;

  mutable Mutex mutex_;
  CondVar closing_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // By name.
  std::map<std::string, Refusal, std::less<>> refused_ ABSL_GUARDED_BY(mutex_);
  std::set<Call*> calls_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ = 1;
  bool resumed_ = false;      // before Follow()
  std::list<Watch> watches_;  // of Load(), then of the polling thread
  std::thread poll_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_UPSTREAM_STORE_H_
