// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_reader.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lpm/io/byte_source.h"
#include "server/base/error.h"
#include "server/store/store_entry.h"
#include "server/store/store_replay.h"

namespace planb::server {
namespace {

using ReadRow = absl::FunctionRef<absl::Status(const SqlStatement&)>;

// Runs a query by the first and the last key of a range.
absl::Status ForEachInRange(Sql& sql, const char* text, int64_t first,
                            int64_t last, ReadRow read) {
  absl::StatusOr<SqlStatement> statement = sql.Prepare(text);
  if (!statement.ok()) return statement.status();
  statement->BindAll(first, last);
  return ForEachRow(sql, *statement, read);
}

absl::StatusOr<StoreRow> ReadStoreRow(Sql& sql) {
  auto statement = sql.Prepare(
      "SELECT store_id, sequence, generation_floor, heads_sum, checksum"
      " FROM store");
  if (!statement.ok()) return statement.status();
  StoreRow store;
  int rows = 0;
  bool right = true;
  absl::Status status =
      ForEachRow(sql, *statement, [&](const SqlStatement& row) {
        ++rows;
        store = {.store_id = row.Unsigned(0),
                 .sequence = row.Unsigned(1),
                 .generation_floor = row.Unsigned(2),
                 .heads_sum = row.Unsigned(3)};
        right = row.Unsigned(4) == store.Checksum();
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (rows != 1 || !right) {
    return DamagedStore(sql, "the row of store is damaged");
  }
  return store;
}

// Completes `head` with the last entry and the sizes.
absl::Status ReadEnd(Sql& sql, TableHead& head) {
  const TableRow& row = head.row;
  const int64_t first = EntryKey(row.id, row.first);
  const int64_t last = LastEntryKey(row.id);
  head.next = row.first;
  head.chain = row.base;
  head.generation = row.generation;
  absl::Status status = ForEachInRange(
      sql,
      "SELECT id, checksum, entry FROM log WHERE id BETWEEN ? AND ?"
      " ORDER BY id DESC LIMIT 1",
      first, last, [&head](const SqlStatement& entry) -> absl::Status {
        head.next =
            static_cast<uint64_t>(entry.Integer(0) - EntryKey(head.row.id, 0)) +
            1;
        head.chain = entry.Unsigned(1);
        ByteCursor cursor(entry.Bytes(2));
        if (ReadGeneration(cursor, head.generation)) return absl::OkStatus();
        return absl::DataLossError(
            absl::StrCat("an entry of table ", head.row.name, " is damaged"));
      });
  if (!status.ok()) return status;
  status = ForEachInRange(
      sql, "SELECT total(length(entry)) FROM log WHERE id BETWEEN ? AND ?",
      first, last, [&head](const SqlStatement& sum) {
        head.log_bytes = sum.Unsigned(0);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return ForEachInRange(
      sql,
      "SELECT total(length(bytes)) FROM snapshots WHERE id BETWEEN ? AND ?",
      PartKey(row.snapshot, 0), PartKey(row.snapshot + 1, 0) - 1,
      [&head](const SqlStatement& sum) {
        head.snapshot_bytes = sum.Unsigned(0);
        return absl::OkStatus();
      });
}

// Reads one table: its snapshot, and the log after that.
class TableReader {
 public:
  TableReader(Sql& sql, const TableHead& head) : sql_(sql), head_(head) {
    StoredTable& table = replay_.table();
    table.name = head.row.name;
    table.fib.prefix_lengths = head.row.prefix_lengths;
    table.generation = head.row.generation;
  }

  absl::StatusOr<StoredTable> Read() {
    absl::Status status = ReadSnapshot();
    if (status.ok()) status = ReadLog();
    if (!status.ok()) return status;
    absl::StatusOr<StoredTable> table = replay_.Finish();
    if (table.ok()) return table;
    return DamagedStore(sql_, table.status().message());
  }

 private:
  absl::Status Wrong(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(what));
  }

  absl::Status ReadSnapshot();
  absl::Status ReadLog();

  Sql& sql_;
  const TableHead& head_;
  LogReplay replay_;
};

absl::Status TableReader::ReadSnapshot() {
  const TableRow& row = head_.row;
  if (row.snapshot == 0) return absl::OkStatus();
  replay_.BeginSnapshot(head_.snapshot_bytes);
  uint64_t part = 0;
  uint64_t chain = row.snapshot;
  absl::Status status = ForEachInRange(
      sql_,
      "SELECT id, bytes FROM snapshots WHERE id BETWEEN ? AND ? ORDER BY id",
      PartKey(row.snapshot, 0), PartKey(row.snapshot + 1, 0) - 1,
      [&](const SqlStatement& bytes) -> absl::Status {
        if (bytes.Integer(0) != PartKey(row.snapshot, part)) {
          return Wrong(absl::StrCat("a part of the snapshot of table ",
                                    row.name, " is missing"));
        }
        ++part;
        chain = ChainChecksum(bytes.Bytes(1), chain);
        const absl::Status pushed = replay_.PushSnapshot(bytes.Bytes(1));
        if (pushed.ok()) return pushed;
        return Wrong(absl::StrCat("the snapshot of table ", row.name, ": ",
                                  pushed.message()));
      });
  if (!status.ok()) return status;
  if (part != row.parts || chain != row.snapshot_checksum) {
    return DamagedStore(sql_,
                        absl::StrCat("the snapshot of table ", row.name,
                                     " is not the one that was committed"));
  }
  const absl::Status ended = replay_.EndSnapshot();
  if (ended.ok()) return ended;
  return DamagedStore(sql_, absl::StrCat("the snapshot of table ", row.name,
                                         ": ", ended.message()));
}

absl::Status TableReader::ReadLog() {
  const TableRow& row = head_.row;
  uint64_t number = row.first;
  uint64_t chain = row.base;
  absl::Status status = ForEachInRange(
      sql_,
      "SELECT id, checksum, entry FROM log WHERE id BETWEEN ? AND ?"
      " ORDER BY id",
      EntryKey(row.id, row.first), LastEntryKey(row.id),
      [&](const SqlStatement& entry) -> absl::Status {
        const auto damaged = [&](absl::string_view why) {
          return Wrong(absl::StrCat("entry ", number, " of the log of table ",
                                    row.name, " ", why));
        };
        if (entry.Integer(0) != EntryKey(row.id, number)) {
          return damaged("is missing");
        }
        chain = ChainChecksum(entry.Bytes(2), chain);
        if (entry.Unsigned(1) != chain) {
          return damaged("is damaged, or does not follow the one before it");
        }
        const absl::Status read = replay_.ReadEntry(entry.Bytes(2));
        if (!read.ok()) return damaged(read.message());
        ++number;
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (number != head_.next || chain != head_.chain) {
    return DamagedStore(sql_, absl::StrCat("the log of table ", row.name,
                                           " ends at another entry than the"
                                           " last one"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DamagedStore(const Sql& sql, absl::string_view what) {
  return Error(
      absl::StatusCode::kDataLoss, "STORE_CORRUPT",
      absl::StrCat(sqlite3_db_filename(sql.sql(), "main"), ": ", what));
}

absl::Status ForEachRow(Sql& sql, SqlStatement& statement, ReadRow read) {
  while (true) {
    const absl::StatusOr<bool> row = statement.Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    const absl::Status status = read(statement);
    if (!status.ok()) {
      statement.Reset();
      return DamagedStore(sql, status.message());
    }
  }
}

absl::StatusOr<StoreState> ReadStoreState(Sql& sql) {
  const absl::StatusOr<StoreRow> store = ReadStoreRow(sql);
  if (!store.ok()) return store.status();
  StoreState state = {.row = *store};
  auto statement = sql.Prepare(
      "SELECT id, name, generation, snapshot, parts, snapshot_checksum, first,"
      " base, prefix_lengths FROM tables ORDER BY id");
  if (!statement.ok()) return statement.status();
  absl::Status status =
      ForEachRow(sql, *statement, [&](const SqlStatement& row) -> absl::Status {
        TableHead head = {.row = {.id = row.Integer(0),
                                  .name = std::string(row.Bytes(1)),
                                  .generation = row.Unsigned(2),
                                  .snapshot = row.Unsigned(3),
                                  .parts = row.Unsigned(4),
                                  .snapshot_checksum = row.Unsigned(5),
                                  .first = row.Unsigned(6),
                                  .base = row.Unsigned(7),
                                  .prefix_lengths = row.Integer(8) == 1}};
        const TableRow& of = head.row;
        if (row.Unsigned(8) > 1 || of.id < 1 ||
            static_cast<uint64_t>(of.id) > kMaxTableId ||
            of.first >= uint64_t{1} << kEntryBits ||
            of.snapshot >= uint64_t{1} << (62 - kPartBits) ||
            !state.tables.try_emplace(of.name, head).second) {
          return absl::DataLossError(
              absl::StrCat("the row of table ", of.id, " is damaged"));
        }
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  uint64_t sum = 0;
  for (auto& [name, head] : state.tables) {
    if (absl::Status s = ReadEnd(sql, head); !s.ok()) return s;
    sum += head.Checksum();
  }
  if (sum != store->heads_sum) {
    return DamagedStore(
        sql,
        "a row of tables or the last entry of a log is damaged or missing, or"
        " is not the newest");
  }
  return state;
}

absl::StatusOr<std::vector<StoredTable>> ReadStoredTables(
    Sql& sql, const StoreState& state) {
  // Detects damaged pages even if all rows are intact.
  const auto structure = sql.Text("PRAGMA quick_check(1)");
  if (!structure.ok()) return structure.status();
  if (*structure != "ok") return DamagedStore(sql, *structure);
  std::vector<StoredTable> tables;
  for (const auto& [name, head] : state.tables) {
    auto table = TableReader(sql, head).Read();
    if (!table.ok()) return table.status();
    tables.push_back(*std::move(table));
  }
  return tables;
}

}  // namespace planb::server
