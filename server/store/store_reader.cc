// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_reader.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

using ReadRow = absl::FunctionRef<absl::Status(const SqlStatement&)>;

absl::Status Wrong(const Sql& sql, absl::string_view what) {
  return Error(
      absl::StatusCode::kDataLoss, "STORE_CORRUPT",
      absl::StrCat(sqlite3_db_filename(sql.sql(), "main"), ": ", what));
}

absl::Status ForEachRow(Sql& sql, const char* text, ReadRow read) {
  absl::StatusOr<SqlStatement> statement = sql.Prepare(text);
  if (!statement.ok()) return statement.status();
  while (true) {
    const absl::StatusOr<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    absl::Status status = read(*statement);
    if (!status.ok()) return Wrong(sql, status.message());
  }
}

// A table while its rows are read.
struct Reading {
  const StoredTableState* expected;
  StoredTable table;
  TableDigest routes, objects;
  uint64_t next_request;
};

// Finds tables by id, quickly for rows that are ordered by it.
class Readings {
 public:
  explicit Readings(absl::Span<const StoredTableState> tables) {
    for (const StoredTableState& state : tables) {
      const TableRow& row = state.row;
      all_.push_back({.expected = &state,
                      .table = {.name = row.name,
                                .generation = row.generation,
                                .writer_epoch = row.writer_epoch},
                      .next_request = row.first_request});
    }
  }

  absl::StatusOr<Reading*> Find(int64_t id) {
    if (last_ < all_.size() && all_[last_].expected->row.id == id) {
      return &all_[last_];
    }
    for (last_ = 0; last_ < all_.size(); ++last_) {
      if (all_[last_].expected->row.id == id) return &all_[last_];
    }
    return absl::DataLossError(
        absl::StrCat("there are rows of table ", id, ", which does not exist"));
  }

  std::vector<Reading>& all() { return all_; }

 private:
  std::vector<Reading> all_;
  size_t last_ = 0;
};

absl::Status ReadObjects(Sql& sql, Readings& readings) {
  absl::Status status = ForEachRow(
      sql,
      "SELECT table_id, id, gateway, interface, weight, label FROM next_hops"
      " ORDER BY table_id, id",
      [&readings](const SqlStatement& row) -> absl::Status {
        const absl::StatusOr<Reading*> reading = readings.Find(row.Integer(0));
        if (!reading.ok()) return reading.status();
        absl::StatusOr<NextHop> next_hop = ReadNextHop(row, 1);
        if (!next_hop.ok()) return next_hop.status();
        (*reading)->objects.Add(*next_hop);
        (*reading)->table.next_hops.push_back(*std::move(next_hop));
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return ForEachRow(sql,
                    "SELECT table_id, id, members, label FROM next_hop_groups"
                    " ORDER BY table_id, id",
                    [&readings](const SqlStatement& row) -> absl::Status {
                      const absl::StatusOr<Reading*> reading =
                          readings.Find(row.Integer(0));
                      if (!reading.ok()) return reading.status();
                      absl::StatusOr<NextHopGroup> group = ReadGroup(row, 1);
                      if (!group.ok()) return group.status();
                      (*reading)->objects.Add(*group);
                      (*reading)->table.groups.push_back(*std::move(group));
                      return absl::OkStatus();
                    });
}

absl::Status ReadRoutes(Sql& sql, Readings& readings) {
  return ForEachRow(
      sql,
      "SELECT table_id, family, address, length, next_hop FROM routes"
      " ORDER BY table_id, family, address, length",
      [&readings](const SqlStatement& row) -> absl::Status {
        const absl::StatusOr<Reading*> reading = readings.Find(row.Integer(0));
        if (!reading.ok()) return reading.status();
        const absl::StatusOr<Prefix> prefix =
            UnpackPrefix(row.Integer(1), row.Bytes(2), row.Integer(3));
        if (!prefix.ok()) return prefix.status();
        const absl::StatusOr<NextHopId> next_hop =
            UnpackNextHopId(row.Integer(4));
        if (!next_hop.ok()) return next_hop.status();
        std::vector<Route>& routes = (*reading)->table.routes;
        if (!routes.empty() && !(routes.back().prefix < *prefix)) {
          return absl::DataLossError(
              absl::StrCat("route ", prefix->ToString(), " is out of order"));
        }
        routes.push_back({*prefix, *next_hop});
        (*reading)->routes.Add(routes.back());
        return absl::OkStatus();
      });
}

absl::Status ReadRequests(Sql& sql, Readings& readings) {
  return ForEachRow(
      sql,
      "SELECT table_id, number, request_id, fingerprint, generation, added,"
      " changed, removed, unchanged, next_hops_added, next_hops_changed,"
      " next_hops_removed, digest, accepted_nanos, checksum FROM requests"
      " ORDER BY table_id, number",
      [&readings](const SqlStatement& row) -> absl::Status {
        const absl::StatusOr<Reading*> reading = readings.Find(row.Integer(0));
        if (!reading.ok()) return reading.status();
        AnsweredRequest request = {
            .request_id = std::string(row.Bytes(2)),
            .fingerprint = row.Unsigned(3),
            .outcome = {.generation = row.Unsigned(4),
                        .counts = {.added = row.Unsigned(5),
                                   .changed = row.Unsigned(6),
                                   .removed = row.Unsigned(7),
                                   .unchanged = row.Unsigned(8),
                                   .next_hops_added = row.Unsigned(9),
                                   .next_hops_changed = row.Unsigned(10),
                                   .next_hops_removed = row.Unsigned(11)},
                        .digest = std::string(row.Bytes(12)),
                        .accepted = absl::FromUnixNanos(row.Integer(13))}};
        const uint64_t number = (*reading)->next_request++;
        if (row.Unsigned(1) != number ||
            row.Unsigned(14) !=
                RequestChecksum(row.Integer(0), number, request)) {
          return absl::DataLossError(
              absl::StrCat("an answered request of table ",
                           (*reading)->table.name, " is damaged or missing"));
        }
        (*reading)->table.requests.push_back(std::move(request));
        return absl::OkStatus();
      });
}

absl::StatusOr<StoreRow> ReadStoreRow(Sql& sql) {
  StoreRow store;
  int rows = 0;
  bool right = true;
  absl::Status status = ForEachRow(
      sql,
      "SELECT store_id, sequence, generation_floor, tables_sum, checksum"
      " FROM store",
      [&](const SqlStatement& row) {
        ++rows;
        store = {.store_id = row.Unsigned(0),
                 .sequence = row.Unsigned(1),
                 .generation_floor = row.Unsigned(2),
                 .tables_sum = row.Unsigned(3)};
        right = row.Unsigned(4) == store.Checksum();
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (rows != 1 || !right) return Wrong(sql, "the row of store is damaged");
  return store;
}

}  // namespace

absl::StatusOr<NextHop> ReadNextHop(const SqlStatement& statement, int column) {
  const auto id = UnpackNextHopId(statement.Integer(column));
  if (!id.ok()) return id.status();
  const auto weight = UnpackWeight(statement.Integer(column + 3));
  if (!weight.ok()) return weight.status();
  NextHop next_hop = {.id = *id,
                      .interface = std::string(statement.Bytes(column + 2)),
                      .weight = *weight,
                      .label = std::string(statement.Bytes(column + 4))};
  if (!statement.IsNull(column + 1)) {
    const auto gateway = ParseGateway(statement.Bytes(column + 1));
    if (!gateway.ok()) return gateway.status();
    next_hop.gateway = *gateway;
  }
  return next_hop;
}

absl::StatusOr<NextHopGroup> ReadGroup(const SqlStatement& statement,
                                       int column) {
  const auto id = UnpackNextHopId(statement.Integer(column));
  if (!id.ok()) return id.status();
  auto members = ParseMembers(statement.Bytes(column + 1));
  if (!members.ok()) return members.status();
  return NextHopGroup{.id = *id,
                      .members = *std::move(members),
                      .label = std::string(statement.Bytes(column + 2))};
}

absl::StatusOr<StoreState> ReadStoreState(Sql& sql) {
  const absl::StatusOr<StoreRow> store = ReadStoreRow(sql);
  if (!store.ok()) return store.status();
  StoreState state = {.store = *store};

  uint64_t sum = 0;
  std::set<std::string> names;
  absl::Status status = ForEachRow(
      sql,
      "SELECT id, name, generation, writer_epoch, digest, objects_digest,"
      " first_request, next_request, checksum FROM tables ORDER BY id",
      [&](const SqlStatement& row) -> absl::Status {
        TableRow table = {.id = row.Integer(0),
                          .name = std::string(row.Bytes(1)),
                          .generation = row.Unsigned(2),
                          .writer_epoch = row.Unsigned(3),
                          .digest = std::string(row.Bytes(4)),
                          .objects_digest = std::string(row.Bytes(5)),
                          .first_request = row.Unsigned(6),
                          .next_request = row.Unsigned(7)};
        if (row.Unsigned(8) != table.Checksum() ||
            !names.insert(table.name).second) {
          return absl::DataLossError(
              absl::StrCat("the row of table ", table.id, " is damaged"));
        }
        sum += table.Checksum();
        state.tables.push_back({.row = std::move(table)});
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (sum != store->tables_sum) {
    return Wrong(sql, "a row of tables is missing, or is not the newest");
  }

  Readings readings(state.tables);
  status = ReadObjects(sql, readings);
  if (!status.ok()) return status;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    StoredTableState& table = state.tables[i];
    table.objects = readings.all()[i].objects;
    if (table.objects.ToString() != table.row.objects_digest) {
      return Wrong(sql, absl::StrCat("the next hops of table ", table.row.name,
                                     " are not those that were committed"));
    }
  }
  return state;
}

absl::StatusOr<std::vector<StoredTable>> ReadStoredTables(
    Sql& sql, const StoreState& state) {
  // Detects damaged pages even if all rows are intact.
  const auto structure = sql.Text("PRAGMA quick_check(1)");
  if (!structure.ok()) return structure.status();
  if (*structure != "ok") return Wrong(sql, *structure);

  Readings readings(state.tables);
  absl::Status status = ReadObjects(sql, readings);
  if (status.ok()) status = ReadRoutes(sql, readings);
  if (status.ok()) status = ReadRequests(sql, readings);
  if (!status.ok()) return status;

  std::vector<StoredTable> tables;
  for (Reading& reading : readings.all()) {
    const TableRow& expected = reading.expected->row;
    if (reading.routes.ToString() != expected.digest) {
      return Wrong(sql, absl::StrCat("the routes of table ", expected.name,
                                     " are not those that were committed"));
    }
    if (reading.objects.ToString() != expected.objects_digest) {
      return Wrong(sql, absl::StrCat("the next hops of table ", expected.name,
                                     " are not those that were committed"));
    }
    if (reading.next_request != expected.next_request) {
      return Wrong(sql, absl::StrCat("answered requests of table ",
                                     expected.name, " are missing"));
    }
    tables.push_back(std::move(reading.table));
  }
  std::sort(tables.begin(), tables.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return tables;
}

}  // namespace planb::server
