// SPDX-License-Identifier: Apache-2.0

// The interfaces of what keeps the tables of a server: a log of accepted
// batches for each table, with a snapshot in the place of its beginning, and a
// feed of what other servers do.

#ifndef PLANB_SERVER_TABLE_STORE_H_
#define PLANB_SERVER_TABLE_STORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "lpm/fib/fib.h"
#include "lpm/prefix.h"
#include "server/base/error.h"
#include "server/table/rib.h"
#include "server/table/update.h"

namespace planb::server {

class TlsReloader;

// When an appended batch is synced to the disk.
enum class StoreSync {
  kFull,    // before it is acknowledged
  kNormal,  // at checkpoints: a power loss may lose the last batches
  kOff,     // never: a power loss may lose the whole store
};

// "full", "normal" or "off".
constexpr absl::string_view StoreSyncName(StoreSync sync) {
  switch (sync) {
    case StoreSync::kNormal:
      return "normal";
    case StoreSync::kOff:
      return "off";
    case StoreSync::kFull:
      break;
  }
  return "full";
}

inline constexpr size_t kMaxTableName = 63;

// Errors: INVALID_ARGUMENT (TABLE_NAME_INVALID). Names also come from stores
// that others write, and become parts of keys, names of files and labels.
inline absl::Status CheckTableName(absl::string_view name) {
  const bool valid =
      !name.empty() && name.size() <= kMaxTableName &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_islower(static_cast<unsigned char>(c)) ||
               absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
      });
  if (valid) return absl::OkStatus();
  return FieldError(absl::StatusCode::kInvalidArgument, "TABLE_NAME_INVALID",
                    "table", "must be 1..63 characters of [a-z0-9-]");
}

// One table as of its last appended batch.
struct StoredTable {
  std::string name;
  // Tells tables of one name apart where several servers write the store; else
  // 0.
  uint64_t id = 0;
  // How many appends led to it, in such a store.
  uint64_t position = 0;
  FibOptions fib;  // as the table was created
  uint64_t generation = 0;
  uint64_t writer_epoch = 0;
  uint64_t complete_since = 0;
  std::vector<Route> routes;  // strictly ascending by prefix
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  // Those of its snapshot and of the log after it, oldest first.
  std::vector<AnsweredRequest> requests;

  // The newest deltas of the log, oldest first, up to kTailBytes: watchers
  // continue from `tail_generation` and later ones.
  static constexpr size_t kTailBytes = 16 << 20;
  std::vector<std::shared_ptr<const Delta>> tail;
  uint64_t tail_generation = 0;
  std::string tail_digest;  // of tail_generation
};

// The tables of a store, as this server kept them.
struct StoredCopy {
  std::vector<StoredTable> tables;
  absl::Time as_of;  // by the wall clock: when the store had them
  // How long ago, by no wall clock; infinite if that is not known.
  absl::Duration age = absl::ZeroDuration();
};

// A version of a table that a snapshot is written from. Cheap to move.
struct TableVersion {
  uint64_t position = 0;  // StoredTable::position
  uint64_t generation = 0;
  uint64_t writer_epoch = 0;
  Rib rib;
  std::vector<AnsweredRequest> requests;  // the newest ones, oldest first
};

// What other servers do with the tables of a store that they share. Calls come
// one at a time, and those of one table in order.
class StoreFollower {
 public:
  // What may come of a table. Asked before Appended(), and from time to time,
  // also when there is nothing to come.
  enum class Wants {
    kNext,
    kNothing,  // for now: what is kept from it comes later, or all as a whole
    kWhole,    // Replaced()
  };
  virtual Wants wants(const std::string& /*table*/, uint64_t /*id*/) {
    return Wants::kNext;
  }
  // What would come next was kept from it. The next call of Appended() or
  // Replaced() makes up for that.
  virtual void Missed(const std::string& /*table*/, uint64_t /*id*/) {}

  // Another server appended these batches to the table with this name and id,
  // which is at `position` then.
  virtual void Appended(const std::string& table, uint64_t id,
                        uint64_t position,
                        std::vector<AcceptedBatch> batches) = 0;
  // The contents of the table as a whole: of a new table, or after this server
  // has missed batches of it. Deleted() of earlier tables of that name comes
  // before; so if this server has another one of that name it has made that one
  // itself, later.
  virtual void Replaced(StoredTable table) = 0;
  virtual void Deleted(const std::string& table, uint64_t id) = 0;
  // What the store has of this table cannot be read: it is followed no further.
  virtual void Failed(const std::string& table, uint64_t id,
                      const absl::Status& why) = 0;

 protected:
  ~StoreFollower() = default;
};

// Ends following when it is destroyed: afterwards no call of the follower is in
// progress, and none comes. Must not outlive the store.
class [[nodiscard]] Following {
 public:
  Following() = default;
  explicit Following(std::function<void()> end) : end_(std::move(end)) {}
  Following(Following&& other) noexcept { end_.swap(other.end_); }
  Following& operator=(Following&& other) noexcept {
    Following(std::move(other)).end_.swap(end_);
    return *this;
  }
  ~Following() {
    if (end_ != nullptr) end_();
  }

 private:
  std::function<void()> end_;
};

// A server that shares the store, as it last reported.
struct StoreReplica {
  std::string name;
  std::string version;
  bool self = false;
  absl::Time reported;  // by its own clock
  struct Visible {
    uint64_t id = 0;  // StoredTable::id; 0: an earlier version does not say
    uint64_t generation = 0;
  };
  // The generation that answers lookups there, by the name of the table.
  std::map<std::string, Visible> visible;
};

// The durable log of each table. Thread-safe. The effect of a call that
// returned OK survives kill -9. With StoreSync::kFull it also survives a power
// loss if the disk keeps the bytes that it has synced. A call that returned an
// error, or did not return, took effect in full or not at all.
//
// Errors of all calls that write: RESOURCE_EXHAUSTED (STORE_FULL) for a full
// disk, UNAVAILABLE (STORE_FAILED) otherwise, or the status given to
// Store::Close(). The log remains usable after an error: later calls succeed
// once the cause (for example a full disk) is resolved.
class TableLog {
 public:
  // Instead of an id: the table that bears the name now.
  static constexpr uint64_t kAnyTable = 0;

  virtual ~TableLog() = default;

  virtual StoreSync sync() const = 0;

  // `fib` is kept for Load(). Returns the id of the table. REQUIRES: no table
  // of this server has that name. Errors: ALREADY_EXISTS if another server has
  // made one; those of IsStoreConflict() if `generation` is not above that of
  // the tables that other servers have deleted meanwhile: read it again.
  virtual absl::StatusOr<uint64_t> CreateTable(const std::string& name,
                                               uint64_t generation,
                                               const FibOptions& fib) = 0;
  absl::StatusOr<uint64_t> CreateTable(const std::string& name,
                                       uint64_t generation) {
    return CreateTable(name, generation, FibOptions());
  }

  // Deletes the table with this name and id and raises the floor to at least
  // `generation`. OK if another server has deleted it.
  virtual absl::Status DeleteTable(const std::string& name, uint64_t id,
                                   uint64_t generation) = 0;
  absl::Status DeleteTable(const std::string& name, uint64_t generation) {
    return DeleteTable(name, kAnyTable, generation);
  }

  // The highest generation of all tables deleted so far; 0 if there is none.
  virtual uint64_t generation_floor() const = 0;

  // Appends batches to the log of one table, all or none, and then calls
  // `done`, once: on a thread of the store, which it must not hold up, or on
  // one that is in a call of this class. Appends of many tables become one
  // transaction. Encodes the batches before it returns; if it throws,
  // nothing is appended and `done` is not called. Errors besides: those of
  // IsStoreConflict(). If another server has deleted the table with this id:
  // NOT_FOUND, or DeletedRemotely() if there may be another one of that name.
  // REQUIRES: this server has not deleted the table; each delta names the
  // generation before it; no other append to this table is in progress.
  // The batches were staged when the table was at `position`: as it was loaded,
  // plus 1 for each append of this server, or as the follower was told last.
  // Without batches: succeeds if the table is there now, and appends nothing.
  // Where several servers write the store it is asked once this is called, so
  // that what was staged before is of the newest table of all.
  using Done = std::function<void(const absl::Status&)>;
  static constexpr uint64_t kAnyPosition = ~uint64_t{0};
  virtual void StartAppend(const std::string& table, uint64_t id,
                           uint64_t position,
                           absl::Span<const AcceptedBatch> batches,
                           Done done) = 0;

  // The same, and waits for the result.
  absl::Status Append(const std::string& table,
                      absl::Span<const AcceptedBatch> batches,
                      uint64_t position = kAnyPosition,
                      uint64_t id = kAnyTable) {
    // Shared, because set_value() may still run when get() has returned.
    const auto result = std::make_shared<std::promise<absl::Status>>();
    StartAppend(table, id, position, batches,
                [result](const absl::Status& s) { result->set_value(s); });
    return result->get_future().get();
  }

  // Calls `version` if the table's log is long enough that a snapshot should
  // replace it, and writes the snapshot in the background. `version` returns
  // the table as of its last append. REQUIRES: no append to this table is in
  // progress.
  virtual void OfferSnapshot(const std::string& table, uint64_t id,
                             absl::FunctionRef<TableVersion()> version) = 0;
  void OfferSnapshot(const std::string& table,
                     absl::FunctionRef<TableVersion()> version) {
    OfferSnapshot(table, kAnyTable, version);
  }
};

// A log that several servers append to.
class ReplicatedLog : public TableLog {
 public:
  // Waits until the follower has been told of all that other servers may have
  // acknowledged with ACK_REPLICATED before this server counted among them.
  // Errors: UNAVAILABLE (STORE_FAILED) if the log does not answer meanwhile.
  // REQUIRES: TableFeed::Follow() was called.
  virtual absl::Status AwaitFollowed() = 0;

  // How many tables the log has now, which is asked. Errors: UNAVAILABLE
  // (STORE_FAILED).
  virtual absl::StatusOr<size_t> CountTables() = 0;

  // The id of the table that bears this name now, which is asked; kAnyTable if
  // there is none. Errors: UNAVAILABLE (STORE_FAILED); DATA_LOSS
  // (STORE_CORRUPT), also for a table that counts in TableFeed::missing().
  virtual absl::StatusOr<uint64_t> FindTable(const std::string& name) = 0;

  // This server applies no more of what others did with this table: nothing is
  // appended to its log any more, and no snapshot replaces it.
  virtual void StopTable(const std::string& table, uint64_t id,
                         const absl::Status& why) = 0;

  // Tells the other servers, soon, that lookups in the table with this name and
  // id are answered from `generation`. Does not wait.
  virtual void Report(const std::string& table, uint64_t id,
                      uint64_t generation) = 0;

  // ACK_REPLICATED goes by what Replicas() tells of so long ago at most.
  static constexpr absl::Duration kReplicasAge = absl::Milliseconds(10);

  // The servers that share the log, by name, as they were within `max_age`.
  // Errors: UNAVAILABLE (STORE_FAILED).
  virtual absl::StatusOr<std::vector<StoreReplica>> Replicas(
      absl::Duration max_age) = 0;
};

// What other servers do with the tables of a store. Thread-safe.
class TableFeed {
 public:
  virtual ~TableFeed() = default;

  // Begins with tables that this server had before, as of `age` ago, because
  // Load() ended with UNAVAILABLE. The follower gets what has happened since
  // once the store answers; until then all calls that write end with
  // UNAVAILABLE (STORE_FAILED). May give the tables other ids. REQUIRES: the
  // tables are of a store with this path().
  virtual absl::Status Resume(absl::Span<StoredTable> tables,
                              absl::Duration age) = 0;

  // Calls `follower` for what other servers do after Load(), until Close() or
  // until the result is destroyed; on threads of the store. REQUIRES: Load() or
  // Resume() succeeded; called once.
  virtual Following Follow(StoreFollower& follower) = 0;

  // Seconds since the store was last known to be reached.
  virtual absl::Duration lag() const = 0;

  // How many tables there are that the follower was not told of, because they
  // cannot be read or followed.
  virtual size_t missing() const = 0;

  // Why the table with this name counts there; OK if it does not, or if that is
  // not known.
  virtual absl::Status WhyMissing(absl::string_view /*name*/) const {
    return absl::OkStatus();
  }

  // Of the connections to others that keep the store; null if these are in
  // plaintext.
  virtual TlsReloader* tls() = 0;
};

// What keeps the tables of a server: a log, a feed or both. Thread-safe.
class Store {
 public:
  // The limit of Delta::bytes() of a batch.
  static constexpr size_t kMaxBatchBytes = 900'000'000;

  virtual ~Store() = default;

  // The kind of store, such as "sqlite", and its file.
  virtual absl::string_view kind() const = 0;
  virtual const std::string& path() const = 0;

  // All tables, verified, ordered by name. Errors: DATA_LOSS (STORE_CORRUPT),
  // with the file, the damage and the remedy.
  virtual absl::StatusOr<std::vector<StoredTable>> Load() = 0;

  // The parts that this store has, else null: a server whose store has no log
  // takes no updates. A store with replicated() has the same as log(), and has
  // feed().
  virtual TableLog* log() { return nullptr; }
  virtual ReplicatedLog* replicated() { return nullptr; }
  virtual TableFeed* feed() { return nullptr; }

  // Refuses later calls that write with `why`. Waits for those in progress,
  // which end with `why` too if the disk does not answer by `deadline`; they
  // may still take effect. After Close() the destructor does not wait for the
  // disk for long.
  virtual void Close(const absl::Status& why, SteadyInstant deadline) = 0;
};

// The error of calls for which several servers have to share the store.
inline absl::Status NotShared() {
  return Error(absl::StatusCode::kFailedPrecondition, "STORE_NOT_SHARED",
               "this server shares its store with no other (--store)");
}

// The error of updates where the store has no log.
inline absl::Status ReadOnly(const Store& store) {
  return Error(absl::StatusCode::kFailedPrecondition, "READ_ONLY",
               absl::StrCat("this server follows ", store.path(),
                            "; send updates there"));
}

// The error of an append that another server was ahead of: nothing is appended,
// and the follower has what the other server appended. Stage again. `position`:
// where the store has said that the table was at a moment of the call, or
// kAnyPosition. What is staged there or later is of a moment of the call too.
inline constexpr char kStoreConflict[] = "STORE_CONFLICT";
inline constexpr char kConflictPosition[] = "planb/position";
inline absl::Status StoreConflict(uint64_t position = TableLog::kAnyPosition) {
  absl::Status status = Error(absl::StatusCode::kAborted, kStoreConflict,
                              "other servers were ahead; repeat the call");
  if (position != TableLog::kAnyPosition) {
    status.SetPayload(kConflictPosition, absl::Cord(absl::StrCat(position)));
  }
  return status;
}
inline bool IsStoreConflict(const absl::Status& status) {
  return absl::IsAborted(status) && ErrorReason(status) == kStoreConflict &&
         ErrorField(status).empty();
}
inline uint64_t ConflictPosition(const absl::Status& status) {
  const auto payload = status.GetPayload(kConflictPosition);
  uint64_t position = TableLog::kAnyPosition;
  return payload.has_value() &&
                 absl::SimpleAtoi(std::string(*payload), &position)
             ? position
             : TableLog::kAnyPosition;
}

// The error of a call that writes a table which another server has deleted: one
// of that name may be there again, so NOT_FOUND may be wrong. Final.
inline absl::Status DeletedRemotely() {
  return FieldError(absl::StatusCode::kAborted, kStoreConflict, "table",
                    "another server has deleted the table, and may have made "
                    "another one of its name; repeat the call");
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_STORE_H_
