// SPDX-License-Identifier: Apache-2.0

// Measures how long a table with a store takes to replace many routes, to
// change them and to load them, on the file system of --path. The file must not
// exist.

#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "lpm/synthetic/synthetic.h"
#include "server/store/sqlite_store.h"
#include "server/table/table.h"

ABSL_FLAG(std::string, path, "", "the database to create and remove");
ABSL_FLAG(size_t, routes, 1'000'000, "routes of the table");
ABSL_FLAG(int, changes, 1000, "updates of each kind");

namespace planb::server {
namespace {

class Clock {
 public:
  explicit Clock(absl::string_view what) : what_(what) {}
  ~Clock() {
    std::printf("%-32s %8.3f s\n", what_.c_str(),
                absl::ToDoubleSeconds(absl::Now() - start_));
  }

 private:
  const std::string what_;
  const absl::Time start_ = absl::Now();
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}

// Waits for all of these batches. The first error, if there is one.
absl::Status Await(std::vector<std::future<Table::Outcome>>& outcomes) {
  absl::Status status;
  for (auto& outcome : outcomes) status.Update(outcome.get().status());
  outcomes.clear();
  return status;
}

void ShowFiles(const SqliteStore& store) {
  const StoreCounters counters = store.counters();
  std::printf("database %zu bytes, log %zu bytes, %zu commits\n",
              size_t{counters.database_bytes}, size_t{counters.wal_bytes},
              size_t{counters.commits});
}

// Changes the table in each way, with the store or without.
absl::Status Change(Table& table, std::vector<Route> routes) {
  UpdateBatch batch;
  const auto replace = [&](absl::string_view what) {
    batch.replacement = routes;
    const Clock clock(what);
    return table.Apply(batch).status();
  };
  absl::Status status = replace("replace all");
  for (Route& route : routes) route.next_hop += 1000;
  if (status.ok()) status = replace("replace all, changed");
  batch.replacement.reset();
  const int changes = absl::GetFlag(FLAGS_changes);
  size_t changed = 0;
  const auto next = [&](NextHopId hop) {
    const Prefix& prefix = routes[changed++ * 7919 % routes.size()].prefix;
    return RouteChange{RouteChange::Op::kUpsert, prefix, hop};
  };
  {
    const Clock clock(absl::StrCat(changes, " updates of one route"));
    for (int i = 0; i < changes && status.ok(); ++i) {
      batch.changes = {next(7)};
      status = table.Apply(batch).status();
    }
  }
  {
    const Clock clock(absl::StrCat(changes, " updates of 1,000, streamed"));
    std::vector<std::future<Table::Outcome>> outcomes;
    for (int i = 0; i < changes && status.ok(); ++i) {
      batch.changes.clear();
      while (batch.changes.size() < 1000) {
        batch.changes.push_back(next(static_cast<NextHopId>(10 + i)));
      }
      outcomes.push_back(table.Submit(batch));
      // As many as a stream has credits for.
      if (outcomes.size() == 200) status.Update(Await(outcomes));
    }
    status.Update(Await(outcomes));
  }
  return status;
}

int Measure(const std::string& path) {
  auto opened = SqliteStore::Open({.path = path});
  if (!opened.ok()) return Fail(opened.status());
  std::unique_ptr<SqliteStore> store = *std::move(opened);
  const size_t count = absl::GetFlag(FLAGS_routes);
  const std::vector<Route> routes = SyntheticTable(
      {.ipv6_routes = count * 3 / 4, .ipv4_routes = count - count * 3 / 4});
  absl::Status status = store->CreateTable("default", 0).status();
  if (!status.ok()) return Fail(status);
  {
    Table table({.name = "default"}, {.store = store.get()});
    status = Change(table, routes);
  }
  if (!status.ok()) return Fail(status);
  ShowFiles(*store);
  {
    Clock clock("close");
    store.reset();
  }
  {
    Clock clock("open");
    opened = SqliteStore::Open({.path = path});
  }
  if (!opened.ok()) return Fail(opened.status());
  store = *std::move(opened);
  absl::StatusOr<std::vector<StoredTable>> tables;
  {
    Clock clock("load");
    tables = store->Load();
  }
  if (!tables.ok()) return Fail(tables.status());
  if (tables->at(0).routes.size() != count) return 1;
  {
    Clock clock("make the table");
    const Table table(tables->at(0), {.store = store.get()});
  }
  {
    Clock clock("delete the table");
    status = store->DeleteTable("default", tables->at(0).generation);
  }
  if (!status.ok()) return Fail(status);
  std::printf("without the store:\n");
  Table table(TableOptions{});
  status = Change(table, routes);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace
}  // namespace planb::server

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const std::string path = absl::GetFlag(FLAGS_path);
  if (path.empty() || std::filesystem::exists(path)) {
    std::fprintf(stderr, "--path must name a file that does not exist\n");
    return 1;
  }
  const int result = planb::server::Measure(path);
  for (const char* suffix : {"", "-wal", "-shm", "-mark"}) {
    std::filesystem::remove(absl::StrCat(path, suffix));
  }
  return result;
}
