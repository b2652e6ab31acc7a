// SPDX-License-Identifier: Apache-2.0

// Measures how long the store takes to write and load a table of many routes
// and to commit small changes, on the file system of --path. The file must not
// exist.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "lpm/synthetic/synthetic.h"
#include "server/store/sqlite_store.h"
#include "server/table/table_digest.h"

ABSL_FLAG(std::string, path, "", "the database to create and remove");
ABSL_FLAG(size_t, routes, 1'000'000, "routes of the table");
ABSL_FLAG(int, changes, 1000, "commits of one route");

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

int Measure(const std::string& path) {
  auto opened = SqliteStore::Open({.path = path});
  if (!opened.ok()) return Fail(opened.status());
  std::unique_ptr<SqliteStore> store = *std::move(opened);
  const size_t count = absl::GetFlag(FLAGS_routes);
  TableDigest digest;
  Delta delta = {
      .generation = 1,
      .routes = SyntheticTable({.ipv6_routes = count * 3 / 4,
                                .ipv4_routes = count - count * 3 / 4})};
  for (const Route& route : delta.routes) digest.Add(route);
  delta.digest = digest.ToString();
  absl::Status status = store->CreateTable("default", 0);
  const auto commit = [&](absl::string_view what) {
    const AcceptedBatch batch = {.delta = std::make_shared<Delta>(delta)};
    Clock clock(what);
    status = store->Commit("default", {batch});
  };
  if (status.ok()) commit("commit all");
  for (Route& route : delta.routes) {
    digest.Remove(route);
    route.next_hop += 1000;
    digest.Add(route);
  }
  delta.generation = 2;
  delta.digest = digest.ToString();
  if (status.ok()) commit("commit all, changed");

  const int changes = absl::GetFlag(FLAGS_changes);
  std::vector<Route> routes;
  delta.routes.swap(routes);
  {
    Clock clock(absl::StrCat(changes, " commits of one route"));
    for (int i = 0; i < changes && status.ok(); ++i) {
      Route& route = routes[static_cast<size_t>(i) * 7919 % routes.size()];
      digest.Remove(route);
      ++route.next_hop;
      digest.Add(route);
      ++delta.generation;
      delta.routes = {route};
      delta.digest = digest.ToString();
      const AcceptedBatch batch = {.delta = std::make_shared<Delta>(delta)};
      status = store->Commit("default", {batch});
    }
  }
  if (!status.ok()) return Fail(status);
  const StoreCounters counters = store->counters();
  std::printf("database %zu bytes, log %zu bytes, %zu checkpoints\n",
              size_t{counters.database_bytes}, size_t{counters.wal_bytes},
              size_t{counters.checkpoints});
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
  {
    Clock clock("load");
    const auto tables = store->Load();
    if (!tables.ok()) return Fail(tables.status());
    if (tables->at(0).routes.size() != count) return 1;
  }
  {
    Clock clock("delete the table");
    status = store->DeleteTable("default", delta.generation);
  }
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
