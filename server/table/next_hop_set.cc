// SPDX-License-Identifier: Apache-2.0

#include "server/table/next_hop_set.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace planb::server {
namespace {

// What a map's node costs beside its value.
constexpr size_t kNodeBytes = 48;

size_t TextBytes(const NextHop& next_hop) {
  return next_hop.interface.size() + next_hop.label.size();
}

size_t TextBytes(const NextHopGroup& group) {
  return group.label.size() +
         group.members.size() * sizeof(NextHopGroup::Member);
}

// How a list of a request is called, and what is said of its entries.
struct ListNames {
  absl::string_view upserts;
  absl::string_view deletes;
  absl::string_view absent_reason;
  absl::string_view noun;
};

// Applies upserts and deletes of one kind to a copy of `map`.
template <typename Map, typename Entry>
void ApplyKind(absl::Span<const Entry> upserts,
               absl::Span<const NextHopId> deletes, bool replace,
               const ListNames& names, Violations& violations,
               ChangeCounts& counts, size_t& text_bytes,
               std::vector<Entry>& changed, std::vector<NextHopId>& deleted,
               std::shared_ptr<const Map>& map) {
  if (upserts.empty() && deletes.empty() && !(replace && !map->empty())) return;
  Map next = *map;
  absl::flat_hash_set<NextHopId> seen;
  const auto once = [&](NextHopId id, absl::string_view field) {
    if (seen.insert(id).second) return true;
    violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_REPEATED",
                   field, absl::StrCat("id ", id, " appears twice"));
    return false;
  };
  for (size_t i = 0; i < upserts.size(); ++i) {
    const Entry& entry = upserts[i];
    if (!once(entry.id, absl::StrCat(names.upserts, "[", i, "].id"))) continue;
    const auto [it, fresh] = next.try_emplace(entry.id, entry);
    if (!fresh && it->second == entry) continue;
    if (!fresh) text_bytes -= TextBytes(it->second);
    it->second = entry;
    text_bytes += TextBytes(entry);
    ++(fresh ? counts.next_hops_added : counts.next_hops_changed);
    changed.push_back(entry);
  }
  const auto erase = [&](typename Map::iterator it) {
    text_bytes -= TextBytes(it->second);
    ++counts.next_hops_removed;
    deleted.push_back(it->first);
    return next.erase(it);
  };
  for (size_t i = 0; i < deletes.size(); ++i) {
    const std::string field = absl::StrCat(names.deletes, "[", i, "]");
    if (!once(deletes[i], field)) continue;
    const auto it = next.find(deletes[i]);
    if (it != next.end()) {
      erase(it);
      continue;
    }
    violations.Add(absl::StatusCode::kNotFound, names.absent_reason, field,
                   absl::StrCat("no ", names.noun, " has the id ", deletes[i]));
  }
  for (auto it = next.begin(); replace && it != next.end();) {
    it = seen.contains(it->first) ? std::next(it) : erase(it);
  }
  if (changed.empty() && deleted.empty()) return;
  map = std::make_shared<const Map>(std::move(next));
}

// An id is in one of a request's lists, also if one kind goes and the other
// comes.
void CheckOtherKind(const UpdateBatch& batch, Violations& violations) {
  const auto repeated = [&](absl::string_view field, NextHopId id) {
    violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_REPEATED",
                   field, absl::StrCat("id ", id, " appears twice"));
  };
  const absl::flat_hash_set<NextHopId> deleted(batch.deleted_next_hops.begin(),
                                               batch.deleted_next_hops.end());
  for (size_t i = 0; i < batch.groups.size() && !deleted.empty(); ++i) {
    if (!deleted.contains(batch.groups[i].id)) continue;
    repeated(absl::StrCat(batch.fields->groups, "[", i, "].id"),
             batch.groups[i].id);
  }
  if (batch.deleted_groups.empty()) return;
  absl::flat_hash_set<NextHopId> upserted;
  for (const NextHop& next_hop : batch.next_hops) upserted.insert(next_hop.id);
  for (size_t i = 0; i < batch.deleted_groups.size(); ++i) {
    if (!upserted.contains(batch.deleted_groups[i])) continue;
    repeated(absl::StrCat(batch.fields->deleted_groups, "[", i, "]"),
             batch.deleted_groups[i]);
  }
}

}  // namespace

void NextHopSet::Apply(const UpdateBatch& batch, Violations& violations,
                       ChangeCounts& counts, Delta& delta) {
  ApplyKind<NextHopMap, NextHop>(
      batch.next_hops, batch.deleted_next_hops, batch.replace_next_hops,
      {batch.fields->next_hops, batch.fields->deleted_next_hops,
       "NEXT_HOP_NOT_FOUND", "next hop"},
      violations, counts, text_bytes_, delta.next_hops, delta.deleted_next_hops,
      next_hops_);
  ApplyKind<NextHopGroupMap, NextHopGroup>(
      batch.groups, batch.deleted_groups, batch.replace_next_hops,
      {batch.fields->groups, batch.fields->deleted_groups, "GROUP_NOT_FOUND",
       "group"},
      violations, counts, text_bytes_, delta.groups, delta.deleted_groups,
      groups_);
  CheckOtherKind(batch, violations);
  if (!delta.next_hops.empty() || !delta.groups.empty()) {
    CheckKinds(batch, violations);
  }
}

void NextHopSet::CheckKinds(const UpdateBatch& batch,
                            Violations& violations) const {
  if (groups_->empty()) return;
  const absl::flat_hash_map<NextHopId, uint64_t> members = Members();
  for (size_t i = 0; i < batch.next_hops.size(); ++i) {
    if (FindGroup(batch.next_hops[i].id) == nullptr) continue;
    violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_IS_GROUP",
                   absl::StrCat(batch.fields->next_hops, "[", i, "].id"),
                   absl::StrCat("id ", batch.next_hops[i].id, " is a group's"));
  }
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    const NextHopGroup& group = batch.groups[i];
    const std::string field = absl::StrCat(batch.fields->groups, "[", i, "]");
    if (Find(group.id) != nullptr) {
      violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_IS_GROUP",
                     absl::StrCat(field, ".id"),
                     absl::StrCat("id ", group.id, " is a next hop's"));
    }
    if (members.contains(group.id)) {
      violations.Add(absl::StatusCode::kInvalidArgument, "GROUP_NESTED",
                     absl::StrCat(field, ".id"),
                     absl::StrCat("id ", group.id, " is a member of a group"));
    }
    for (size_t m = 0; m < group.members.size(); ++m) {
      const NextHopId member = group.members[m].next_hop;
      if (FindGroup(member) == nullptr) continue;
      violations.Add(
          absl::StatusCode::kInvalidArgument, "GROUP_NESTED",
          absl::StrCat(field, ".members[", m, "].next_hop_id"),
          absl::StrCat("id ", member, " is a group's; groups do not nest"));
    }
  }
}

const NextHop* NextHopSet::Find(NextHopId id) const {
  const auto it = next_hops_->find(id);
  return it == next_hops_->end() ? nullptr : &it->second;
}

const NextHopGroup* NextHopSet::FindGroup(NextHopId id) const {
  const auto it = groups_->find(id);
  return it == groups_->end() ? nullptr : &it->second;
}

absl::flat_hash_map<NextHopId, uint64_t> NextHopSet::Members() const {
  absl::flat_hash_map<NextHopId, uint64_t> members;
  for (const auto& [id, group] : *groups_) {
    for (const NextHopGroup::Member& member : group.members) {
      ++members[member.next_hop];
    }
  }
  return members;
}

size_t NextHopSet::bytes() const {
  return next_hops_->size() * (sizeof(NextHop) + kNodeBytes) +
         groups_->size() * (sizeof(NextHopGroup) + kNodeBytes) + text_bytes_;
}

}  // namespace planb::server
