// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "server/store/store_reader.h"

namespace planb::server {
namespace {

// Sorts by prefix and keeps the last of each.
void KeepLast(std::vector<const Route*>& routes) {
  const auto before = [](const Route* a, const Route* b) {
    return a->prefix < b->prefix;
  };
  if (!std::is_sorted(routes.begin(), routes.end(), before)) {
    std::stable_sort(routes.begin(), routes.end(), before);
  }
  // Backwards, because std::unique keeps the first of each run.
  const auto kept = std::unique(
      routes.rbegin(), routes.rend(),
      [](const Route* a, const Route* b) { return a->prefix == b->prefix; });
  routes.erase(routes.begin(), kept.base());
}

}  // namespace

StoreChanges MergeBatches(absl::Span<const AcceptedBatch> batches) {
  ABSL_RAW_CHECK(!batches.empty(), "there is something to commit");
  StoreChanges changes;
  size_t routes = 0;
  for (const AcceptedBatch& batch : batches) {
    if (batch.delta != nullptr) routes += batch.delta->routes.size();
  }
  changes.routes.reserve(routes);
  for (const AcceptedBatch& batch : batches) {
    changes.writer_epoch = batch.writer_epoch;
    if (batch.request.has_value()) changes.requests.push_back(&*batch.request);
    if (batch.delta == nullptr) continue;
    const Delta& delta = *batch.delta;
    changes.last = &delta;
    for (const Route& route : delta.routes) changes.routes.push_back(&route);
    for (NextHopId id : delta.deleted_next_hops) {
      changes.next_hops[id] = nullptr;
    }
    for (const NextHop& hop : delta.next_hops) changes.next_hops[hop.id] = &hop;
    for (NextHopId id : delta.deleted_groups) changes.groups[id] = nullptr;
    for (const NextHopGroup& group : delta.groups) {
      changes.groups[group.id] = &group;
    }
  }
  KeepLast(changes.routes);
  return changes;
}

absl::StatusOr<std::unique_ptr<StoreWriter>> StoreWriter::Create(
    Sql& sql, uint64_t request_window) {
  std::unique_ptr<StoreWriter> writer(new StoreWriter);
  writer->request_window_ = request_window;
  // REPLACE into a table without other indexes overwrites in one search.
  const std::pair<std::optional<SqlStatement>*, const char*> texts[] = {
      {&writer->put_route_, "REPLACE INTO routes VALUES (?, ?, ?, ?, ?)"},
      {&writer->delete_route_,
       "DELETE FROM routes WHERE table_id = ? AND family = ? AND address = ?"
       " AND length = ?"},
      {&writer->get_next_hop_,
       "SELECT id, gateway, interface, weight, label FROM next_hops"
       " WHERE table_id = ? AND id = ?"},
      {&writer->put_next_hop_,
       "REPLACE INTO next_hops VALUES (?, ?, ?, ?, ?, ?)"},
      {&writer->delete_next_hop_,
       "DELETE FROM next_hops WHERE table_id = ? AND id = ?"},
      {&writer->get_group_,
       "SELECT id, members, label FROM next_hop_groups"
       " WHERE table_id = ? AND id = ?"},
      {&writer->put_group_, "REPLACE INTO next_hop_groups VALUES (?, ?, ?, ?)"},
      {&writer->delete_group_,
       "DELETE FROM next_hop_groups WHERE table_id = ? AND id = ?"},
      {&writer->put_request_,
       "REPLACE INTO requests VALUES"
       " (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&writer->prune_requests_,
       "DELETE FROM requests WHERE table_id = ? AND number < ?"},
      {&writer->put_table_,
       "REPLACE INTO tables VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&writer->put_store_, "REPLACE INTO store VALUES (1, ?, ?, ?, ?, ?)"},
  };
  for (const auto& [statement, text] : texts) {
    absl::StatusOr<SqlStatement> prepared = sql.Prepare(text, /*kept=*/true);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
  }
  for (const char* text : {"DELETE FROM routes WHERE table_id = ?",
                           "DELETE FROM next_hops WHERE table_id = ?",
                           "DELETE FROM next_hop_groups WHERE table_id = ?",
                           "DELETE FROM requests WHERE table_id = ?",
                           "DELETE FROM tables WHERE id = ?"}) {
    absl::StatusOr<SqlStatement> prepared = sql.Prepare(text, /*kept=*/true);
    if (!prepared.ok()) return prepared.status();
    writer->delete_table_.push_back(*std::move(prepared));
  }
  return writer;
}

absl::Status StoreWriter::Write(const StoreChanges& changes,
                                StoredTableState& table) {
  TableRow& row = table.row;
  absl::Status status = WriteRoutes(changes, row.id);
  if (status.ok()) status = WriteNextHops(changes, table);
  if (status.ok()) status = WriteGroups(changes, table);
  if (status.ok()) status = WriteRequests(changes, row);
  if (!status.ok()) return status;
  if (changes.last != nullptr) {
    row.generation = changes.last->generation;
    row.digest = changes.last->digest;
  }
  row.writer_epoch = changes.writer_epoch;
  row.objects_digest = table.objects.ToString();
  return WriteTable(row);
}

absl::Status StoreWriter::WriteRoutes(const StoreChanges& changes,
                                      int64_t table) {
  for (const Route* route : changes.routes) {
    ABSL_RAW_CHECK(route->next_hop != kUndecided, "a next hop may be stored");
    const PackedAddress address(route->prefix.address());
    const int family = static_cast<int>(route->prefix.family());
    const int length = route->prefix.length();
    absl::Status status =
        route->next_hop == kNoRoute
            ? delete_route_->Run(table, family, SqlBlob{address.bytes()},
                                 length)
            : put_route_->Run(table, family, SqlBlob{address.bytes()}, length,
                              route->next_hop);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StoreWriter::WriteNextHops(const StoreChanges& changes,
                                        StoredTableState& table) {
  for (const auto& [id, next_hop] : changes.next_hops) {
    get_next_hop_->BindAll(table.row.id, id);
    const absl::StatusOr<bool> found = get_next_hop_->Step();
    if (!found.ok()) return found.status();
    if (*found) {
      const absl::StatusOr<NextHop> old = ReadNextHop(*get_next_hop_, 0);
      get_next_hop_->Reset();
      if (!old.ok()) return old.status();
      table.objects.Remove(*old);
    }
    absl::Status status;
    if (next_hop == nullptr) {
      status = delete_next_hop_->Run(table.row.id, id);
    } else {
      status = put_next_hop_->Run(table.row.id, id, FormatGateway(*next_hop),
                                  absl::string_view(next_hop->interface),
                                  next_hop->weight,
                                  absl::string_view(next_hop->label));
      table.objects.Add(*next_hop);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StoreWriter::WriteGroups(const StoreChanges& changes,
                                      StoredTableState& table) {
  for (const auto& [id, group] : changes.groups) {
    get_group_->BindAll(table.row.id, id);
    const absl::StatusOr<bool> found = get_group_->Step();
    if (!found.ok()) return found.status();
    if (*found) {
      const absl::StatusOr<NextHopGroup> old = ReadGroup(*get_group_, 0);
      get_group_->Reset();
      if (!old.ok()) return old.status();
      table.objects.Remove(*old);
    }
    absl::Status status;
    if (group == nullptr) {
      status = delete_group_->Run(table.row.id, id);
    } else {
      const std::string members = FormatMembers(*group);
      status = put_group_->Run(table.row.id, id, absl::string_view(members),
                               absl::string_view(group->label));
      table.objects.Add(*group);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StoreWriter::WriteRequests(const StoreChanges& changes,
                                        TableRow& row) {
  if (changes.requests.empty()) return absl::OkStatus();
  const uint64_t end = row.next_request + changes.requests.size();
  const uint64_t first =
      std::max(row.first_request, end - std::min(end, request_window_));
  for (const AnsweredRequest* request : changes.requests) {
    const uint64_t number = row.next_request++;
    if (number < first) continue;
    const UpdateOutcome& outcome = request->outcome;
    const ChangeCounts& counts = outcome.counts;
    absl::Status status = put_request_->Run(
        row.id, number, absl::string_view(request->request_id),
        request->fingerprint, outcome.generation, counts.added, counts.changed,
        counts.removed, counts.unchanged, counts.next_hops_added,
        counts.next_hops_changed, counts.next_hops_removed,
        SqlBlob{outcome.digest}, absl::ToUnixNanos(outcome.accepted),
        RequestChecksum(row.id, number, *request));
    if (!status.ok()) return status;
  }
  if (first == row.first_request) return absl::OkStatus();
  row.first_request = first;
  return prune_requests_->Run(row.id, first);
}

absl::Status StoreWriter::WriteTable(const TableRow& row) {
  return put_table_->Run(row.id, absl::string_view(row.name), row.generation,
                         row.writer_epoch, SqlBlob{row.digest},
                         SqlBlob{row.objects_digest}, row.first_request,
                         row.next_request, row.Checksum());
}

absl::Status StoreWriter::DeleteTable(int64_t id) {
  for (SqlStatement& statement : delete_table_) {
    if (absl::Status s = statement.Run(id); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status StoreWriter::WriteStore(const StoreRow& row) {
  return put_store_->Run(row.store_id, row.sequence, row.generation_floor,
                         row.tables_sum, row.Checksum());
}

}  // namespace planb::server
