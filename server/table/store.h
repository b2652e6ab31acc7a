// SPDX-License-Identifier: Apache-2.0

// Where accepted batches survive a crash: what a table needs of a store.

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

// One table as it was when its last batch was committed.
struct StoredTable {
  std::string name;
  uint64_t generation = 0;
  uint64_t writer_epoch = 0;
  std::vector<Route> routes;  // strictly ascending by prefix
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<AnsweredRequest> requests;  // the newest, oldest first
};

// Thread-safe. When a call has returned OK its effect survives kill -9, and
// power loss as far as the disk keeps what it was told to sync; a call that
// returned an error, or none, has had all of its effect or nothing.
//
// Errors of all that write: RESOURCE_EXHAUSTED (STORE_FULL) for a full disk,
// UNAVAILABLE (STORE_FAILED) for all else. After an error the store can be used
// again, and works as soon as what ailed it is gone.
class Store {
 public:
  virtual ~Store() = default;

  // "sqlite", and the file.
  virtual absl::string_view kind() const = 0;
  virtual const std::string& path() const = 0;

  // Everything, verified, ordered by name. Errors: DATA_LOSS (STORE_CORRUPT),
  // naming the file, what is wrong with it, and the way out.
  virtual absl::StatusOr<std::vector<StoredTable>> Load() = 0;

  // REQUIRES: there is no table of that name.
  virtual absl::Status CreateTable(const std::string& name,
                                   uint64_t generation) = 0;

  // Deletes the table and raises the floor to at least `generation`.
  virtual absl::Status DeleteTable(const std::string& name,
                                   uint64_t generation) = 0;

  // The last generation of all tables deleted so far; 0 if there is none.
  virtual uint64_t generation_floor() const = 0;

  // Writes batches of one table, in this order, in one transaction. Their
  // deltas' generations ascend by 1 from the table's. REQUIRES: the table is
  // there.
  virtual absl::Status Commit(const std::string& table,
                              absl::Span<const AcceptedBatch> batches) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_STORE_H_
