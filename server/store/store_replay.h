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
#include "lpm/routes/table_digest.h"
#include "server/table/store.h"

namespace planb::server {

// Reads the snapshot first, if there is one, then the entries in order. Merges
// the changes of many entries at once. Thread-compatible.
class LogReplay {
 public:
  // REQUIRES: name, options and generation of the table are set before the
  // first call of another method.
  StoredTable& table() { return table_; }

  // There is a snapshot of about so many bytes.
  void Reserve(uint64_t bytes);
  // An entry, or a part of the snapshot, whose deltas lead from nothing to the
  // whole. Errors: DATA_LOSS and INVALID_ARGUMENT, saying how it is damaged.
  absl::Status Read(absl::string_view entry, bool is_part);

  // Of the table after the last entry.
  const std::string& digest() const { return digest_; }

  // The table. Errors: DATA_LOSS if its contents are not those of its digest.
  absl::StatusOr<StoredTable> Finish();

 private:
  void Merge(const Delta& delta);
  // Adds a delta to the tail, and drops the oldest ones.
  void Keep(std::shared_ptr<const Delta> delta);
  void MergeRoutes();

  StoredTable table_;
  // What the log changes, in its order; kNoRoute for a withdrawal.
  std::vector<Route> changes_;
  std::map<NextHopId, std::optional<NextHop>> next_hops_;
  std::map<NextHopId, std::optional<NextHopGroup>> groups_;
  std::deque<std::shared_ptr<const Delta>> tail_;
  size_t tail_bytes_ = 0;
  // The table's own digest, of when it was stored.
  std::string digest_ = TableDigest().ToString();
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_REPLAY_H_
