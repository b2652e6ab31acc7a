// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_reader.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/io/table_file.h"
#include "server/store/store_replay.h"

namespace planb::server {
namespace {

absl::Status Wrong(absl::string_view what) { return absl::DataLossError(what); }

absl::Status ReadSnapshot(Sql& sql, const TableRow& row, LogReplay& replay) {
  if (row.snapshot == 0) return absl::OkStatus();
  const std::string of = absl::StrCat("the snapshot of table ", row.name);
  replay.BeginSnapshot(row.snapshot_bytes);
  uint64_t part = 0;
  uint64_t chain = row.snapshot;
  absl::Status status = sql.ForEach(
      "SELECT id, bytes FROM snapshots WHERE id >= ? AND id < ? ORDER BY id",
      [&](const SqlStatement& bytes) -> absl::Status {
        if (bytes.Integer(0) != PartKey(row.snapshot, part)) {
          return Wrong(absl::StrCat("a part of ", of, " is missing"));
        }
        ++part;
        chain = Xxh3(bytes.Bytes(1), chain);
        const absl::Status pushed = replay.PushSnapshot(bytes.Bytes(1));
        if (pushed.ok()) return pushed;
        return Wrong(absl::StrCat(of, ": ", pushed.message()));
      },
      PartKey(row.snapshot, 0), PartKey(row.snapshot + 1, 0));
  if (!status.ok()) return status;
  if (part != row.parts || chain != row.snapshot_checksum) {
    return sql.Damaged(absl::StrCat(of, " is not the one that was committed"));
  }
  const absl::Status ended = replay.EndSnapshot();
  if (ended.ok()) return ended;
  return sql.Damaged(absl::StrCat(of, ": ", ended.message()));
}

absl::Status ReadLog(Sql& sql, const TableRow& row, LogReplay& replay) {
  uint64_t number = row.first;
  uint64_t chain = row.base;
  absl::Status status = sql.ForEach(
      "SELECT id, checksum, entry FROM log WHERE id BETWEEN ? AND ?"
      " ORDER BY id",
      [&](const SqlStatement& entry) -> absl::Status {
        const auto damaged = [&](absl::string_view why) {
          return Wrong(absl::StrCat("entry ", number, " of the log of table ",
                                    row.name, " ", why));
        };
        if (entry.Integer(0) != EntryKey(row.id, number)) {
          return damaged("is missing");
        }
        chain = Xxh3(entry.Bytes(2), chain);
        if (entry.Unsigned(1) != chain) {
          return damaged("is damaged, or does not follow the one before it");
        }
        const absl::Status read = replay.ReadEntry(entry.Bytes(2));
        if (!read.ok()) return damaged(read.message());
        ++number;
        return absl::OkStatus();
      },
      EntryKey(row.id, row.first), LastEntryKey(row.id));
  if (status.ok() && (number != row.next || chain != row.chain)) {
    return sql.Damaged(
        absl::StrCat("the log of table ", row.name, " is cut short"));
  }
  return status;
}

absl::StatusOr<StoredTable> ReadTable(Sql& sql, const TableRow& row) {
  LogReplay replay;
  replay.table().name = row.name;
  replay.table().fib.prefix_lengths = row.prefix_lengths;
  replay.table().generation = row.generation;
  absl::Status status = ReadSnapshot(sql, row, replay);
  if (status.ok()) status = ReadLog(sql, row, replay);
  if (!status.ok()) return status;
  absl::StatusOr<StoredTable> table = replay.Finish();
  if (table.ok()) return table;
  return sql.Damaged(table.status().message());
}

}  // namespace

absl::StatusOr<std::vector<StoredTable>> ReadStoredTables(
    Sql& sql, const TableRows& tables) {
  // Detects damaged pages even if all rows are intact.
  const auto structure = sql.Text("PRAGMA quick_check(1)");
  if (!structure.ok()) return structure.status();
  if (*structure != "ok") return sql.Damaged(*structure);
  std::vector<StoredTable> stored;
  for (const auto& [name, row] : tables) {
    auto table = ReadTable(sql, row);
    if (!table.ok()) return table.status();
    stored.push_back(*std::move(table));
  }
  return stored;
}

}  // namespace planb::server
