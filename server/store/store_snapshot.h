// SPDX-License-Identifier: Apache-2.0

// Snapshots: a table as a sequence of bytes that is cut into parts. First the
// writer epoch and the answered requests, then a table file.

#ifndef PLANB_SERVER_STORE_STORE_SNAPSHOT_H_
#define PLANB_SERVER_STORE_STORE_SNAPSHOT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"
#include "lpm/routes/route_set.h"
#include "server/table/store.h"

namespace planb::server {

// Makes the parts of a snapshot, in the memory of one part. Thread-compatible.
class SnapshotSource {
 public:
  SnapshotSource(const std::string& table, TableVersion version);
  SnapshotSource(const SnapshotSource&) = delete;
  SnapshotSource& operator=(const SnapshotSource&) = delete;

  // The next part; empty after the last one. Errors: INVALID_ARGUMENT if the
  // table does not fit in a table file.
  absl::StatusOr<std::string> Next();

  const TableVersion& version() const { return version_; }

 private:
  // Adds what is before the items: the requests, which may take several parts.
  // True at their end.
  absl::StatusOr<bool> Begin();
  // Adds items from `next` on until the part is full. True at their end.
  template <typename Items, typename Iterator>
  absl::StatusOr<bool> Add(const Items& items, Iterator& next);

  const std::string table_;
  const TableVersion version_;
  std::string part_;
  TableFileWriter writer_;
  NextHopMap::const_iterator next_hop_;
  NextHopGroupMap::const_iterator group_;
  RouteSet::const_iterator v4_, v6_;
  size_t request_ = 0;  // the next one
  bool begun_ = false;
  bool ended_ = false;
};

// Reads a snapshot, in order, in pieces of any size. Thread-compatible.
class SnapshotReader final : private TableFileSink {
 public:
  // Fills `table`, which must outlive this and has its name already.
  explicit SnapshotReader(StoredTable& table) : table_(table), reader_(*this) {}

  // Errors of both: those of TableFileReader; DATA_LOSS.
  absl::Status Push(absl::string_view part);
  absl::Status Finish();

  // Table.digest, as the table had it.
  const std::string& digest() const { return digest_; }

 private:
  absl::Status OnHeader(const TableFileHeader& header) override;
  absl::Status OnNextHop(const NextHop& next_hop) override;
  absl::Status OnGroup(const NextHopGroup& group) override;
  absl::Status OnRoute(const Route& route) override;
  absl::Status OnEnd(const TableFileCounts& counts) override;

  StoredTable& table_;
  TableFileReader reader_;
  std::string digest_;
  bool begun_ = false;     // with the writer's epoch
  uint32_t requests_ = 0;  // that are still to come
  std::string held_;       // the begin of what the next part ends
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_STORE_SNAPSHOT_H_
