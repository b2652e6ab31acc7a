// SPDX-License-Identifier: Apache-2.0

// Short ways to open a store and to write a batch.

#ifndef PLANB_SERVER_TESTING_SMALL_STORE_H_
#define PLANB_SERVER_TESTING_SMALL_STORE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lpm/routes/table_digest.h"
#include "server/store/sqlite_store.h"

namespace planb::server {

// Opens a store that does not sync.
inline std::unique_ptr<SqliteStore> OpenStore(const std::string& path) {
  auto store = SqliteStore::Open({.path = path, .sync = StoreSync::kOff});
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

inline Route MakeRoute(absl::string_view prefix, NextHopId next_hop) {
  return {Prefix::Parse(prefix).value(), next_hop};
}

// A batch that turns an empty table of the generation before into `routes`.
inline AcceptedBatch Batch(uint64_t generation, std::vector<Route> routes) {
  TableDigest digest;
  for (const Route& route : routes) digest.Add(route);
  return {.delta = std::make_shared<const Delta>(
              Delta{.generation = generation,
                    .previous = generation - 1,
                    .routes = std::move(routes),
                    .digest = digest.ToString()})};
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_SMALL_STORE_H_
