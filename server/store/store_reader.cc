// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_reader.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lpm/io/byte_source.h"
#include "server/base/error.h"
#include "server/store/store_entry.h"
#include "server/store/store_snapshot.h"
#include "server/table/table_digest.h"

namespace planb::server {
namespace {

using ReadRow = absl::FunctionRef<absl::Status(const SqlStatement&)>;

// Runs a query whose parameters are the first and the last key of a range.
absl::Status ForEachInRange(Sql& sql, const char* text, int64_t first,
                            int64_t last, ReadRow read) {
  absl::StatusOr<SqlStatement> statement = sql.Prepare(text);
  if (!statement.ok()) return statement.status();
  statement->BindAll(first, last);
  return ForEachRow(sql, *statement, read);
}

// The generation of a table after an entry is in its first 8 bytes.
bool ReadGeneration(ByteCursor& cursor, uint64_t& generation) {
  return cursor.ReadLittle(&generation);
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

// Batches with so many routes are merged into the table one by one, and smaller
// ones together.
constexpr size_t kLargeBatch = 20'000;

// Reads one table: its snapshot, and the log after that.
class TableReader {
 public:
  TableReader(Sql& sql, const TableHead& head, uint64_t request_window)
      : sql_(sql), head_(head), request_window_(request_window) {
    table_.name = head.row.name;
    table_.fib.prefix_lengths = head.row.prefix_lengths;
    table_.generation = head.row.generation;
  }

  absl::StatusOr<StoredTable> Read() {
    absl::Status status = ReadSnapshot();
    if (status.ok()) status = ReadLog();
    if (status.ok()) status = Merge();
    if (!status.ok()) return status;
    table_.tail.assign(std::make_move_iterator(tail_.begin()),
                       std::make_move_iterator(tail_.end()));
    return std::move(table_);
  }

 private:
  absl::Status Wrong(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(what));
  }

  absl::Status ReadSnapshot();
  absl::Status ReadLog();
  absl::Status ReadEntry(absl::string_view entry);
  absl::Status Apply(ReadBatchResult& batch);
  // Adds a delta to the tail, and drops the oldest ones.
  void Keep(const Delta& delta);
  void MergeChanges();
  absl::Status Merge();

  Sql& sql_;
  const TableHead& head_;
  const uint64_t request_window_;
  StoredTable table_;
  // What the log changes, in its order; kNoRoute for a withdrawal.
  std::vector<Route> changes_;
  std::map<NextHopId, std::optional<NextHop>> next_hops_;
  std::map<NextHopId, std::optional<NextHopGroup>> groups_;
  std::deque<std::shared_ptr<const Delta>> tail_;
  size_t tail_bytes_ = 0;
  // The table's own digest, of when it was stored.
  std::string digest_ = TableDigest().ToString();
};

absl::Status TableReader::ReadSnapshot() {
  const TableRow& row = head_.row;
  if (row.snapshot == 0) return absl::OkStatus();
  // About 10 bytes a route.
  table_.routes.reserve(head_.snapshot_bytes / 10);
  SnapshotReader reader(table_);
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
        const absl::Status pushed = reader.Push(bytes.Bytes(1));
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
  if (absl::Status s = reader.Finish(); !s.ok()) {
    return DamagedStore(sql_, absl::StrCat("the snapshot of table ", row.name,
                                           ": ", s.message()));
  }
  digest_ = reader.digest();
  return absl::OkStatus();
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
        const absl::Status read = ReadEntry(entry.Bytes(2));
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

absl::Status TableReader::ReadEntry(absl::string_view entry) {
  ByteCursor cursor(entry);
  uint64_t generation = 0;
  if (!ReadGeneration(cursor, generation)) return Wrong("ends too early");
  ReadBatchResult batch;
  while (!cursor.empty()) {
    absl::Status status = ReadBatch(cursor, batch);
    if (status.ok()) status = Apply(batch);
    if (!status.ok()) return status;
  }
  if (generation == table_.generation) return absl::OkStatus();
  return Wrong(absl::StrCat("names generation ", generation, " and ends at ",
                            table_.generation));
}

absl::Status TableReader::Apply(ReadBatchResult& batch) {
  table_.writer_epoch = batch.writer_epoch;
  if (batch.request.has_value()) {
    table_.requests.push_back(*std::move(batch.request));
  }
  if (!batch.delta.has_value()) return absl::OkStatus();
  Delta& delta = *batch.delta;
  if (delta.previous != table_.generation) {
    return Wrong(absl::StrCat("changes generation ", delta.previous,
                              " and comes after ", table_.generation));
  }
  Keep(delta);
  table_.generation = delta.generation;
  digest_ = delta.digest;
  if (delta.routes.size() >= kLargeBatch) {
    // Most large batches are sorted, and need not be sorted with others.
    MergeChanges();
    changes_ = std::move(delta.routes);
    MergeChanges();
  } else {
    changes_.insert(changes_.end(), delta.routes.begin(), delta.routes.end());
  }
  // What a delta both deletes and adds is added.
  for (NextHopId id : delta.deleted_next_hops) next_hops_[id].reset();
  for (NextHop& next_hop : delta.next_hops) {
    next_hops_[next_hop.id] = std::move(next_hop);
  }
  for (NextHopId id : delta.deleted_groups) groups_[id].reset();
  for (NextHopGroup& group : delta.groups) {
    groups_[group.id] = std::move(group);
  }
  return absl::OkStatus();
}

void TableReader::Keep(const Delta& delta) {
  const bool fits = delta.bytes() <= StoredTable::kTailBytes;
  if (fits) {
    if (tail_.empty()) {
      table_.tail_generation = delta.previous;
      table_.tail_digest = digest_;
    }
    tail_.push_back(std::make_shared<const Delta>(delta));
    tail_bytes_ += tail_.back()->bytes();
  }
  while (!tail_.empty() && (!fits || tail_bytes_ > StoredTable::kTailBytes)) {
    table_.tail_generation = tail_.front()->generation;
    table_.tail_digest = tail_.front()->digest;
    tail_bytes_ -= tail_.front()->bytes();
    tail_.pop_front();
  }
}

// Sorts by prefix and keeps the last of each.
void KeepLast(std::vector<Route>& routes) {
  const auto before = [](const Route& a, const Route& b) {
    return a.prefix < b.prefix;
  };
  if (!std::is_sorted(routes.begin(), routes.end(), before)) {
    std::stable_sort(routes.begin(), routes.end(), before);
  }
  // Backwards, because std::unique keeps the first of each run.
  const auto kept = std::unique(
      routes.rbegin(), routes.rend(),
      [](const Route& a, const Route& b) { return a.prefix == b.prefix; });
  routes.erase(routes.begin(), kept.base());
}

// Applies `changes`, one a prefix and ascending, to ascending `routes`.
void MergeRoutes(std::vector<Route> changes, std::vector<Route>& routes) {
  std::vector<Route> before = std::move(routes);
  if (before.empty()) {
    std::erase_if(
        changes, [](const Route& route) { return route.next_hop == kNoRoute; });
    routes = std::move(changes);
    return;
  }
  routes = {};
  routes.reserve(before.size() + changes.size());
  auto old = before.begin();
  for (const Route& change : changes) {
    for (; old != before.end() && old->prefix < change.prefix; ++old) {
      routes.push_back(*old);
    }
    if (old != before.end() && old->prefix == change.prefix) ++old;
    if (change.next_hop != kNoRoute) routes.push_back(change);
  }
  routes.insert(routes.end(), old, before.end());
}

// Applies changes by id to ascending `items`.
template <typename Item>
void MergeItems(std::map<NextHopId, std::optional<Item>> changes,
                std::vector<Item>& items) {
  if (changes.empty()) return;
  for (Item& item : items) {
    const NextHopId id = item.id;
    changes.try_emplace(id, std::move(item));
  }
  items.clear();
  for (auto& [id, item] : changes) {
    if (item.has_value()) items.push_back(*std::move(item));
  }
}

void TableReader::MergeChanges() {
  if (changes_.empty()) return;
  KeepLast(changes_);
  MergeRoutes(std::move(changes_), table_.routes);
  changes_.clear();
}

absl::Status TableReader::Merge() {
  MergeChanges();
  MergeItems(std::move(next_hops_), table_.next_hops);
  MergeItems(std::move(groups_), table_.groups);
  std::vector<AnsweredRequest>& requests = table_.requests;
  if (requests.size() > request_window_) {
    requests.erase(requests.begin(),
                   requests.end() - static_cast<ptrdiff_t>(request_window_));
  }
  TableDigest digest, objects;
  for (const Route& route : table_.routes) digest.Add(route);
  for (const NextHop& next_hop : table_.next_hops) objects.Add(next_hop);
  for (const NextHopGroup& group : table_.groups) objects.Add(group);
  if (!IsStoredDigest(digest_, digest, objects)) {
    return DamagedStore(sql_,
                        absl::StrCat("the contents of table ", table_.name,
                                     " are not those that were"
                                     " committed"));
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
    Sql& sql, const StoreState& state, uint64_t request_window) {
  // Detects damaged pages even if all rows are intact.
  const auto structure = sql.Text("PRAGMA quick_check(1)");
  if (!structure.ok()) return structure.status();
  if (*structure != "ok") return DamagedStore(sql, *structure);
  std::vector<StoredTable> tables;
  for (const auto& [name, head] : state.tables) {
    auto table = TableReader(sql, head, request_window).Read();
    if (!table.ok()) return table.status();
    tables.push_back(*std::move(table));
  }
  return tables;
}

}  // namespace planb::server
