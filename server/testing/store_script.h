// SPDX-License-Identifier: Apache-2.0

// An endless random history of a store, the same for the same seed. It is
// applied to a plain model in memory and to the store under test.

#ifndef PLANB_SERVER_TESTING_STORE_SCRIPT_H_
#define PLANB_SERVER_TESTING_STORE_SCRIPT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/table/store.h"

namespace planb::server {

struct StoreScriptOptions {
  uint64_t seed = 1;
  size_t max_requests = 20;  // of each table that have an id
  size_t max_tables = 4;
  // The number of prefixes. Few, so that routes are replaced and withdrawn.
  size_t prefixes = 200;
  size_t max_routes_a_batch = 30;
};

// Each step is one transaction of the store. Thread-compatible.
class StoreScript {
 public:
  explicit StoreScript(const StoreScriptOptions& options);

  // Applies the next step to the model and, unless it is null, to `log`.
  // Returns the status of `log`. If that is an error, the model is ahead of
  // the store.
  absl::Status Step(TableLog* log);

  // Applies the last step once more, to `log` only.
  absl::Status Retry(TableLog& log) const { return last_(log); }

  uint64_t steps() const { return steps_; }

  // What Load() and generation_floor() of the store have to return.
  std::vector<StoredTable> Tables() const;
  uint64_t generation_floor() const { return floor_; }

 private:
  struct Table {
    FibOptions fib;
    uint64_t generation = 0;
    uint64_t writer_epoch = 0;
    uint64_t complete_since = 0;
    std::map<Prefix, NextHopId> routes;
    std::map<NextHopId, NextHop> next_hops;
    std::map<NextHopId, NextHopGroup> groups;
    std::vector<AnsweredRequest> requests;
  };

  using Action = std::function<absl::Status(TableLog&)>;

  static StoredTable ToStored(const std::string& name, const Table& table);
  static std::string Digest(const Table& table);

  // Applies a step to the model; the result applies it to a store.
  Action RandomAction();
  uint64_t Below(uint64_t end) { return random_() % end; }
  AcceptedBatch RandomBatch(Table& table);
  Delta RandomDelta(Table& table);

  const StoreScriptOptions options_;
  std::mt19937_64 random_;
  std::vector<Prefix> prefixes_;
  std::map<std::string, Table> tables_;
  uint64_t floor_ = 0;
  uint64_t steps_ = 0;
  Action last_;
};

// The version that a snapshot of the table is written from.
TableVersion MakeVersion(const StoredTable& table);

// The first difference; "" if there is none.
std::string StoreDifference(const std::vector<StoredTable>& expected,
                            const std::vector<StoredTable>& actual);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_STORE_SCRIPT_H_
