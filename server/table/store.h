// SPDX-License-Identifier: Apache-2.0

// The interface of a durable store: it keeps accepted batches across a crash.

#ifndef PLANB_SERVER_TABLE_STORE_H_
#define PLANB_SERVER_TABLE_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"
#include "server/table/update.h"

namespace planb::server {

// One table as of its last committed batch.
struct StoredTable {
  std::string name;
  uint64_t generation = 0;
  uint64_t writer_epoch = 0;
  std::vector<Route> routes;  // strictly ascending by prefix
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<AnsweredRequest> requests;  // the newest ones, oldest first
};

// Thread-safe. The effect of a call that returned OK survives kill -9. It also
// survives a power loss if the disk keeps the bytes that it has synced. A call
// that returned an error, or did not return, took effect in full or not at all.
//
// Errors of all calls that write: RESOURCE_EXHAUSTED (STORE_FULL) for a full
// disk, UNAVAILABLE (STORE_FAILED) otherwise. The store remains usable after an
// error: later calls succeed once the cause (for example a full disk) is
// resolved.
class Store {
 public:
  virtual ~Store() = default;

  // The kind of store, such as "sqlite", and its file.
  virtual absl::string_view kind() const = 0;
  virtual const std::string& path() const = 0;

  // All tables, verified, ordered by name. Errors: DATA_LOSS (STORE_CORRUPT),
  // with the file, the damage and the remedy.
  virtual absl::StatusOr<std::vector<StoredTable>> Load() = 0;

  // REQUIRES: no table has that name.
  virtual absl::Status CreateTable(const std::string& name,
                                   uint64_t generation) = 0;

  // Deletes the table and raises the floor to at least `generation`.
  virtual absl::Status DeleteTable(const std::string& name,
                                   uint64_t generation) = 0;

  // The highest generation of all tables deleted so far; 0 if there is none.
  virtual uint64_t generation_floor() const = 0;

  // Writes batches of one table, in this order, in one transaction.
  // REQUIRES: the table exists; the generations of the deltas ascend by 1 from
  // the table's.
  virtual absl::Status Commit(const std::string& table,
                              absl::Span<const AcceptedBatch> batches) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_STORE_H_
