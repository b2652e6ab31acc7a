// SPDX-License-Identifier: Apache-2.0

// A table as a store holds it, put together: its snapshot and the log after it.

#ifndef PLANB_SERVER_STORE_STORE_REPLAY_H_
#define PLANB_SERVER_STORE_STORE_REPLAY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/io/byte_source.h"
#include "lpm/routes/table_digest.h"
#include "server/store/store_entry.h"
#include "server/store/store_snapshot.h"
#include "server/table/store.h"

namespace planb::server {

// Reads the snapshot first, if there is one, then the entries in order. Merges
// the changes of many entries at once. Thread-compatible.
class LogReplay {
 public:
  // REQUIRES: name, options and generation of the table are set before the
  // first call of another method.
  StoredTable& table() { return table_; }

  // The parts of a snapshot, in order. `bytes` is about the size of all. Errors
  // of the latter two: those of SnapshotReader.
  void BeginSnapshot(uint64_t bytes);
  absl::Status PushSnapshot(absl::string_view part);
  absl::Status EndSnapshot();

  // An entry: the generation after it in 8 bytes, then batches. Errors:
  // DATA_LOSS and INVALID_ARGUMENT, saying how it is damaged.
  absl::Status ReadEntry(absl::string_view entry);

  // Of the table after the last entry.
  const std::string& digest() const { return digest_; }

  // The table. Errors: DATA_LOSS if its contents are not those of its digest.
  absl::StatusOr<StoredTable> Finish();

 private:
  absl::Status Apply(ReadBatchResult& batch);
  // Adds a delta to the tail, and drops the oldest ones.
  void Keep(const Delta& delta);
  void MergeChanges();

  StoredTable table_;
  std::optional<SnapshotReader> snapshot_;
  // What the log changes, in its order; kNoRoute for a withdrawal.
  std::vector<Route> changes_;
  std::map<NextHopId, std::optional<NextHop>> next_hops_;
  std::map<NextHopId, std::optional<NextHopGroup>> groups_;
  std::deque<std::shared_ptr<const Delta>> tail_;
  size_t tail_bytes_ = 0;
  // The table's own digest, of when it was stored.
  std::string digest_ = TableDigest().ToString();
};

// The generation of a table after an entry is in its first 8 bytes. False if
// these are not there.
bool ReadGeneration(ByteCursor& cursor, uint64_t& generation);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_REPLAY_H_
