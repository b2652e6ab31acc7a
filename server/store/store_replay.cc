// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_replay.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/store/store_entry.h"

namespace planb::server {
namespace {

// Batches with so many routes are merged into the table one by one, and smaller
// ones together.
constexpr size_t kLargeBatch = 20'000;
// The memory for more routes is taken as they come: a size may be damaged.
constexpr uint64_t kMostReserved = 10'000'000;

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
void ApplyRoutes(std::vector<Route> changes, std::vector<Route>& routes) {
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

}  // namespace

void LogReplay::Reserve(uint64_t bytes) {
  // About 10 bytes a route.
  changes_.reserve(std::min(bytes / 10, kMostReserved));
}

absl::Status LogReplay::Read(absl::string_view entry, bool is_part) {
  auto batches = ReadEntry(entry);
  if (!batches.ok()) return batches.status();
  for (AcceptedBatch& batch : *batches) {
    table_.writer_epoch = batch.writer_epoch;
    if (batch.request.has_value()) {
      table_.requests.push_back(*std::move(batch.request));
    }
    if (batch.delta == nullptr) continue;
    const Delta& delta = *batch.delta;
    if (is_part) {
      table_.tail_generation = delta.generation;
      table_.tail_digest = delta.digest;
    } else if (delta.previous != table_.generation ||
               delta.generation <= delta.previous) {
      return absl::DataLossError(absl::StrCat(
          "leads from generation ", delta.previous, " to ", delta.generation,
          " and comes after ", table_.generation));
    } else {
      Keep(batch.delta);
    }
    // Most large batches are sorted, and need not be sorted with others. Nor
    // need the routes of the snapshot, which `changes_` has until then.
    const bool alone = !is_part && delta.routes.size() >= kLargeBatch;
    if (alone || (!is_part && table_.routes.empty())) MergeRoutes();
    Merge(delta);
    if (alone) MergeRoutes();
  }
  return absl::OkStatus();
}

void LogReplay::Merge(const Delta& delta) {
  table_.generation = delta.generation;
  digest_ = delta.digest;
  table_.complete_since = delta.complete_since;
  changes_.insert(changes_.end(), delta.routes.begin(), delta.routes.end());
  // What a delta both deletes and adds is added.
  for (const NextHopId id : delta.deleted_next_hops) next_hops_[id].reset();
  for (const NextHop& hop : delta.next_hops) next_hops_[hop.id] = hop;
  for (const NextHopId id : delta.deleted_groups) groups_[id].reset();
  for (const NextHopGroup& group : delta.groups) groups_[group.id] = group;
}

void LogReplay::Keep(std::shared_ptr<const Delta> delta) {
  if (tail_.empty()) {
    table_.tail_generation = delta->previous;
    table_.tail_digest = digest_;
  }
  tail_bytes_ += delta->bytes();
  tail_.push_back(std::move(delta));
  for (; tail_bytes_ > StoredTable::kTailBytes; tail_.pop_front()) {
    table_.tail_generation = tail_.front()->generation;
    table_.tail_digest = tail_.front()->digest;
    tail_bytes_ -= tail_.front()->bytes();
  }
}

void LogReplay::MergeRoutes() {
  if (changes_.empty()) return;
  KeepLast(changes_);
  ApplyRoutes(std::move(changes_), table_.routes);
  changes_.clear();
}

absl::StatusOr<StoredTable> LogReplay::Finish() {
  MergeRoutes();
  MergeItems(std::move(next_hops_), table_.next_hops);
  MergeItems(std::move(groups_), table_.groups);
  std::vector<AnsweredRequest>& requests = table_.requests;
  // The newest of each id: a log may begin with requests that the snapshot has.
  absl::flat_hash_set<std::string> seen;
  const auto repeated = std::remove_if(
      requests.rbegin(), requests.rend(), [&seen](const AnsweredRequest& r) {
        return !seen.insert(r.request_id).second;
      });
  requests.erase(requests.begin(), repeated.base());
  TableDigest contents;
  for (const Route& route : table_.routes) contents.Add(route);
  for (const NextHop& next_hop : table_.next_hops) contents.Add(next_hop);
  for (const NextHopGroup& group : table_.groups) contents.Add(group);
  if (contents.ToString() != digest_) {
    return absl::DataLossError(
        absl::StrCat("the contents of table ", table_.name,
                     " are not those that were committed"));
  }
  table_.tail.assign(std::make_move_iterator(tail_.begin()),
                     std::make_move_iterator(tail_.end()));
  return std::move(table_);
}

}  // namespace planb::server
