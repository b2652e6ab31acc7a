// SPDX-License-Identifier: Apache-2.0

#include "server/table/rib.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

// A replacement with fewer differences than this part of the routes is applied
// as changes: the versions before and after then share most of their memory.
constexpr size_t kFewDifferences = 8;

bool IsDelete(Op op) { return op == Op::kDelete || op == Op::kDeleteStrict; }

// The indexes of `changes`, sorted by prefix and then by index. Empty if
// `changes` are strictly ascending already.
std::vector<uint32_t> OrderByPrefix(absl::Span<const RouteChange> changes) {
  const auto ascending = std::adjacent_find(
      changes.begin(), changes.end(),
      [](const auto& a, const auto& b) { return a.prefix >= b.prefix; });
  if (ascending == changes.end()) return {};
  std::vector<uint32_t> order(changes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(changes[a].prefix, a) < std::pair(changes[b].prefix, b);
  });
  return order;
}

// `order` is that of OrderByPrefix.
void CheckRepeats(const UpdateBatch& batch, absl::Span<const uint32_t> order,
                  Violations& violations) {
  std::vector<std::pair<uint32_t, uint32_t>> repeats;  // later, first
  for (size_t i = 1, first = 0; i < order.size(); ++i) {
    if (batch.changes[order[i]].prefix != batch.changes[order[first]].prefix) {
      first = i;
    } else {
      repeats.emplace_back(order[i], order[first]);
    }
  }
  std::sort(repeats.begin(), repeats.end());
  for (const auto& [later, first] : repeats) {
    violations.Add(absl::StatusCode::kInvalidArgument, "PREFIX_REPEATED",
                   absl::StrCat(batch.ChangeField(later), ".prefix"),
                   absl::StrCat(batch.changes[later].prefix.ToString(),
                                " is already in ", batch.ChangeField(first)));
  }
}

// Counts a change of one route, or undoes that: `times` is 1 or -1.
void Count(NextHopId before, NextHopId after, int64_t times,
           Rib::Change& change) {
  const auto count = static_cast<uint64_t>(times);
  if (before == after) {
    change.counts.unchanged += count;
    return;
  }
  if (before != kNoRoute) change.uses[before] -= times;
  if (after != kNoRoute) change.uses[after] += times;
  (before == kNoRoute  ? change.counts.added
   : after == kNoRoute ? change.counts.removed
                       : change.counts.changed) += count;
}

// Counts a route that was set, and adds it to the delta if it changed.
void Record(const Prefix& prefix, NextHopId before, NextHopId after,
            Rib::Change& change) {
  Count(before, after, 1, change);
  if (before != after) change.delta.routes.push_back({prefix, after});
}

// Counts an operation by its result, or undoes that: `times` is 1 or -1.
void CountOperation(Op op, NextHopId before, NextHopId after, int64_t times,
                    Rib::Change& change) {
  const auto result =
      before == after ? OperationCounts::kUnchanged : OperationCounts::kChanged;
  change.operations.counts[CountedOp(op)][result] +=
      static_cast<uint64_t>(times);
}

// What the batch does with each of `prefixes`, which ascend; nothing if it does
// not name one. A replacement sets all that are not listed to no route.
std::vector<std::optional<Op>> OpsFor(const UpdateBatch& batch,
                                      absl::Span<const Prefix> prefixes) {
  std::vector<std::optional<Op>> ops(prefixes.size());
  if (batch.replacement.has_value()) {
    std::fill(ops.begin(), ops.end(), Op::kUpsert);
  }
  for (const RouteChange& change : batch.changes) {
    const auto at =
        std::lower_bound(prefixes.begin(), prefixes.end(), change.prefix);
    if (at == prefixes.end() || *at != change.prefix) continue;
    ops[static_cast<size_t>(at - prefixes.begin())] = change.op;
  }
  return ops;
}

bool LacksWeights(const NextHopGroup& group) {
  return std::any_of(
      group.members.begin(), group.members.end(),
      [](const NextHopGroup::Member& member) { return member.weight == 0; });
}

size_t TextBytes(const NextHop& next_hop) { return next_hop.text_bytes(); }

size_t TextBytes(const NextHopGroup& group) {
  return group.label.size() +
         group.members.size() * sizeof(NextHopGroup::Member);
}

// The names of a request's lists and the words of errors about their entries.
struct ListNames {
  absl::string_view upserts;
  absl::string_view deletes;
  absl::string_view absent_reason;
  absl::string_view noun;
};

// Adds what upserts and deletes of one kind change in `map` to `changed` and
// `deleted`.
template <typename Map, typename Entry>
void FindChanges(absl::Span<const Entry> upserts,
                 absl::Span<const NextHopId> deletes, bool replace,
                 const ListNames& names, const Map& map, Violations& violations,
                 std::vector<Entry>& changed, std::vector<NextHopId>& deleted) {
  std::unordered_set<NextHopId> seen;
  const auto once = [&](NextHopId id, absl::string_view field) {
    if (seen.insert(id).second) return true;
    violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_REPEATED",
                   field, absl::StrCat("id ", id, " appears twice"));
    return false;
  };
  for (size_t i = 0; i < upserts.size(); ++i) {
    const Entry& entry = upserts[i];
    if (!once(entry.id, absl::StrCat(names.upserts, "[", i, "].id"))) continue;
    const Entry* const before = map.Find(entry.id);
    if (before == nullptr || *before != entry) changed.push_back(entry);
  }
  for (size_t i = 0; i < deletes.size(); ++i) {
    const NextHopId id = deletes[i];
    const std::string field = absl::StrCat(names.deletes, "[", i, "]");
    if (!once(id, field)) continue;
    if (map.Find(id) != nullptr) {
      deleted.push_back(id);
      continue;
    }
    violations.Add(absl::StatusCode::kNotFound, names.absent_reason, field,
                   absl::StrCat("no ", names.noun, " has the id ", id));
  }
  if (!replace) return;
  for (const Entry& entry : map) {
    if (!seen.contains(entry.id)) deleted.push_back(entry.id);
  }
}

bool HasAttributes(const NextHop& hop) { return !hop.attributes.empty(); }
bool HasAttributes(const NextHopGroup&) { return false; }

template <typename Entry>
size_t CountAttributes(const std::vector<Entry>& entries) {
  return static_cast<size_t>(
      std::count_if(entries.begin(), entries.end(),
                    [](const Entry& entry) { return HasAttributes(entry); }));
}

template <typename Entry>
size_t TextBytes(const std::vector<Entry>& entries) {
  size_t bytes = 0;
  for (const Entry& entry : entries) bytes += TextBytes(entry);
  return bytes;
}

// Replaces `before` by `after` in a digest.
template <typename Entry>
void Update(const std::vector<Entry>& before, const std::vector<Entry>& after,
            TableDigest& digest) {
  for (const Entry& entry : before) digest.Remove(entry);
  for (const Entry& entry : after) digest.Add(entry);
}

// Refuses an id that a request deletes as one kind and adds as the other.
void CheckOtherKind(const UpdateBatch& batch, Violations& violations) {
  const auto repeated = [&](absl::string_view field, NextHopId id) {
    violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_REPEATED",
                   field, absl::StrCat("id ", id, " appears twice"));
  };
  const std::unordered_set<NextHopId> deleted(batch.deleted_next_hops.begin(),
                                              batch.deleted_next_hops.end());
  for (size_t i = 0; i < batch.groups.size() && !deleted.empty(); ++i) {
    if (!deleted.contains(batch.groups[i].id)) continue;
    repeated(absl::StrCat(batch.fields->groups, "[", i, "].id"),
             batch.groups[i].id);
  }
  if (batch.deleted_groups.empty()) return;
  std::unordered_set<NextHopId> upserted;
  for (const NextHop& next_hop : batch.next_hops) upserted.insert(next_hop.id);
  for (size_t i = 0; i < batch.deleted_groups.size(); ++i) {
    if (!upserted.contains(batch.deleted_groups[i])) continue;
    repeated(absl::StrCat(batch.fields->deleted_groups, "[", i, "]"),
             batch.deleted_groups[i]);
  }
}

}  // namespace

template <typename Map, typename Entry>
std::vector<Entry> NextHopSet::ApplyKind(const std::vector<Entry>& changed,
                                         absl::Span<const NextHopId> deleted,
                                         ChangeCounts& counts, Map& map) {
  std::vector<Entry> before;
  for (const NextHopId id : deleted) {
    const auto at = map.Locate(id);
    if (!at.found) continue;
    before.push_back(map.At(at));
    map.Remove(at);
    ++counts.next_hops_removed;
  }
  for (const Entry& entry : changed) {
    const auto at = map.Locate(entry.id);
    if (at.found) before.push_back(map.At(at));
    map.Put(at, entry);
    ++(at.found ? counts.next_hops_changed : counts.next_hops_added);
  }
  text_bytes_ += TextBytes(changed);
  text_bytes_ -= TextBytes(before);
  attributed_ += CountAttributes(changed);
  attributed_ -= CountAttributes(before);
  Update(before, changed, digest_);
  return before;
}

void NextHopSet::ApplyGroups(const Delta& delta, ChangeCounts& counts) {
  const std::vector<NextHopGroup> before =
      ApplyKind(delta.groups, delta.deleted_groups, counts, groups_);
  CountMembers(delta.groups, 1);
  CountMembers(before, -1);
}

void NextHopSet::Apply(const UpdateBatch& batch, Violations& violations,
                       ChangeCounts& counts, Delta& delta) {
  FindChanges<NextHopMap, NextHop>(
      batch.next_hops, batch.deleted_next_hops, batch.replace_next_hops,
      {batch.fields->next_hops, batch.fields->deleted_next_hops,
       "NEXT_HOP_NOT_FOUND", "next hop"},
      next_hops_, violations, delta.next_hops, delta.deleted_next_hops);
  ApplyKind(delta.next_hops, delta.deleted_next_hops, counts, next_hops_);
  std::vector<NextHopGroup> weighted;
  absl::Span<const NextHopGroup> groups = batch.groups;
  if (std::any_of(groups.begin(), groups.end(), LacksWeights)) {
    weighted = batch.groups;
    TakeWeights(batch.fields->groups, violations, weighted);
    groups = weighted;
  }
  FindChanges<NextHopGroupMap, NextHopGroup>(
      groups, batch.deleted_groups, batch.replace_next_hops,
      {batch.fields->groups, batch.fields->deleted_groups, "GROUP_NOT_FOUND",
       "group"},
      groups_, violations, delta.groups, delta.deleted_groups);
  ApplyGroups(delta, counts);
  CheckOtherKind(batch, violations);
  if (!delta.next_hops.empty() || !delta.groups.empty()) {
    CheckKinds(*batch.fields, batch.next_hops, batch.groups, violations);
  }
}

void NextHopSet::Apply(const Delta& delta, Violations& violations,
                       ChangeCounts& counts) {
  ApplyKind(delta.next_hops, delta.deleted_next_hops, counts, next_hops_);
  ApplyGroups(delta, counts);
  CheckKinds(kUpdateFields, delta.next_hops, delta.groups, violations);
  for (const NextHopGroup& group : delta.groups) {
    if (!LacksWeights(group)) continue;
    violations.Add(absl::StatusCode::kInvalidArgument, "GROUP_INVALID",
                   kUpdateFields.groups,
                   absl::StrCat("group ", group.id, " has no weights"));
  }
}

void NextHopSet::TakeWeights(absl::string_view field, Violations& violations,
                             std::vector<NextHopGroup>& groups) const {
  for (size_t i = 0; i < groups.size(); ++i) {
    uint64_t sum = 0;
    for (NextHopGroup::Member& member : groups[i].members) {
      if (member.weight == 0) {
        const NextHop* const next_hop = Find(member.next_hop);
        member.weight =
            next_hop == nullptr ? 1 : std::max(next_hop->weight, 1U);
      }
      sum += member.weight;
    }
    if (sum <= std::numeric_limits<uint32_t>::max()) continue;
    violations.Add(absl::StatusCode::kInvalidArgument, "GROUP_INVALID",
                   absl::StrCat(field, "[", i, "]"),
                   "weights add up to more than 4294967295");
  }
}

NextHopUses NextHopSet::Uses(NextHopId id) const {
  const NextHopUses* const uses = uses_.Find(id);
  return uses == nullptr ? NextHopUses{.id = id} : *uses;
}

void NextHopSet::Count(NextHopId id, int64_t routes, int64_t groups) {
  const NextHopUsesMap::Position at = uses_.Locate(id);
  NextHopUses uses = at.found ? uses_.At(at) : NextHopUses{.id = id};
  uses.routes += static_cast<uint64_t>(routes);
  uses.groups += static_cast<uint64_t>(groups);
  if (uses.routes != 0 || uses.groups != 0) {
    uses_.Put(at, uses);
  } else if (at.found) {
    uses_.Remove(at);
  }
}

void NextHopSet::CountMembers(absl::Span<const NextHopGroup> groups,
                              int64_t change) {
  for (const NextHopGroup& group : groups) {
    for (const NextHopGroup::Member& member : group.members) {
      Count(member.next_hop, 0, change);
    }
  }
}

void NextHopSet::CheckKinds(const UpdateFields& fields,
                            absl::Span<const NextHop> next_hops,
                            absl::Span<const NextHopGroup> groups,
                            Violations& violations) const {
  if (groups_.empty()) return;
  for (size_t i = 0; i < next_hops.size(); ++i) {
    if (FindGroup(next_hops[i].id) == nullptr) continue;
    violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_IS_GROUP",
                   absl::StrCat(fields.next_hops, "[", i, "].id"),
                   absl::StrCat("id ", next_hops[i].id, " is a group's"));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const NextHopGroup& group = groups[i];
    const std::string field = absl::StrCat(fields.groups, "[", i, "]");
    if (Find(group.id) != nullptr) {
      violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_IS_GROUP",
                     absl::StrCat(field, ".id"),
                     absl::StrCat("id ", group.id, " is a next hop's"));
    }
    if (Uses(group.id).groups > 0) {
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

size_t NextHopSet::bytes() const {
  return next_hops_.bytes() + groups_.bytes() + uses_.bytes() + text_bytes_;
}

Rib Rib::Share() const {
  Rib shared(limits_);
  shared.routes_ = routes_.Share();
  shared.next_hops_ = next_hops_;
  shared.complete_since_ = complete_since_;
  return shared;
}

absl::StatusOr<Rib::Change> Rib::Apply(const UpdateBatch& batch) {
  const uint64_t routes_before = size();
  const size_t next_hops_before = next_hops_.size();
  Change change;
  Violations violations;
  next_hops_.Apply(batch, violations, change.counts, change.delta);
  if (batch.replacement.has_value()) {
    Replace(batch, violations, change);
  } else {
    const std::vector<uint32_t> order = OrderByPrefix(batch.changes);
    CheckRepeats(batch, order, violations);
    if (violations.empty()) ApplyChanges(batch, order, violations, change);
  }
  for (const auto& [id, routes] : change.uses) {
    next_hops_.CountRoutes(id, routes);
  }
  if (violations.empty()) CheckUnused(batch, change.delta, violations);
  if (!violations.empty()) return violations.ToStatus();
  const absl::Status fits = CheckLimits(routes_before, next_hops_before);
  if (!fits.ok()) return fits;
  Finish(batch, change);
  return change;
}

absl::StatusOr<ChangeCounts> Rib::Apply(const Delta& delta) {
  const auto wrong = std::adjacent_find(
      delta.routes.begin(), delta.routes.end(),
      [](const Route& a, const Route& b) { return a.prefix >= b.prefix; });
  if (wrong != delta.routes.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prefix after ", wrong->prefix.ToString(),
                     " is the same, or not in its place"));
  }
  Change change;
  Violations violations;
  next_hops_.Apply(delta, violations, change.counts);
  if (!violations.empty()) return violations.ToStatus();
  SetRoutes(delta.routes, change);
  complete_since_ = delta.complete_since;
  for (const auto& [id, routes] : change.uses) {
    next_hops_.CountRoutes(id, routes);
  }
  return change.counts;
}

void Rib::Finish(const UpdateBatch& batch, Change& change) const {
  if (batch.replacement.has_value()) {
    using Operations = OperationCounts;
    auto& counts = change.operations.counts;
    counts[Operations::kUpsert] = {change.counts.added + change.counts.changed,
                                   change.counts.unchanged, 0};
    counts[Operations::kDelete] = {change.counts.removed, 0, 0};
  }
  change.delta.digest = digest();
  // Most changes may have had no effect, and watchers keep the delta.
  std::vector<Route>& routes = change.delta.routes;
  if (routes.capacity() > 2 * routes.size()) routes.shrink_to_fit();
}

bool Rib::CanRebase(const UpdateBatch& batch) {
  if (batch.require_next_hops || batch.replace_next_hops) return false;
  if (!batch.next_hops.empty() || !batch.deleted_next_hops.empty() ||
      !batch.groups.empty() || !batch.deleted_groups.empty()) {
    return false;
  }
  return std::all_of(batch.changes.begin(), batch.changes.end(),
                     [](const RouteChange& change) {
                       return change.op == Op::kUpsert ||
                              change.op == Op::kDelete;
                     });
}

void Rib::RebaseRoutes(const UpdateBatch& batch, const Rib& base,
                       const Rib& head, absl::Span<const Prefix> touched,
                       Change& change) {
  const std::vector<std::optional<Op>> ops = OpsFor(batch, touched);
  std::vector<Route> routes;  // of the delta
  routes.reserve(change.delta.routes.size() + touched.size());
  auto old = change.delta.routes.begin();
  const auto end = change.delta.routes.end();
  for (size_t i = 0; i < touched.size(); ++i) {
    const Prefix& prefix = touched[i];
    for (; old != end && old->prefix < prefix; ++old) routes.push_back(*old);
    if (old != end && old->prefix == prefix) ++old;
    const auto next_hop_in = [&](const Rib& rib) {
      return rib.routes(prefix.family()).Find(prefix);
    };
    const NextHopId earlier = next_hop_in(base);
    const NextHopId before = next_hop_in(head);
    const NextHopId after = next_hop_in(*this);
    if (!ops[i].has_value()) {
      routes_.Exchange(prefix, before);
      continue;
    }
    const auto count = [&](NextHopId from, int64_t times) {
      if (!batch.replacement.has_value()) {
        CountOperation(*ops[i], from, after, times, change);
      } else if (from == kNoRoute && after == kNoRoute) {
        return;  // a replacement does not see this prefix
      }
      Count(from, after, times, change);
    };
    count(earlier, -1);
    count(before, 1);
    if (before != after) routes.push_back({prefix, after});
  }
  routes.insert(routes.end(), old, end);
  change.delta.routes = std::move(routes);
}

absl::Status Rib::Rebase(const UpdateBatch& batch, const Rib& base,
                         const Rib& head, absl::Span<const Prefix> touched,
                         Change& change) {
  if (!touched.empty()) RebaseRoutes(batch, base, head, touched, change);
  next_hops_ = head.next_hops_;
  for (const auto& [id, routes] : change.uses) {
    next_hops_.CountRoutes(id, routes);
  }
  const absl::Status fits = CheckLimits(head.size(), next_hops_.size());
  if (!fits.ok()) return fits;
  Finish(batch, change);
  return absl::OkStatus();
}

void Rib::ApplyChanges(const UpdateBatch& batch,
                       absl::Span<const uint32_t> order, Violations& violations,
                       Change& change) {
  change.delta.routes.reserve(batch.changes.size());
  // Changes that may be wrong: their index, and the next hop before.
  std::vector<std::pair<uint32_t, NextHopId>> suspects;
  // Neighbours in the order of prefixes share memory of the route set.
  for (size_t n = 0; n < batch.changes.size(); ++n) {
    const auto index = [order](size_t at) {
      return order.empty() ? static_cast<uint32_t>(at) : order[at];
    };
    routes_.Prefetch(n, batch.changes.size(), [&](size_t at) -> const Prefix& {
      return batch.changes[index(at)].prefix;
    });
    const uint32_t i = index(n);
    const auto& [op, prefix, next_hop] = batch.changes[i];
    const NextHopId after = IsDelete(op) ? kNoRoute : next_hop;
    const NextHopId before = routes_.Exchange(prefix, after);
    Record(prefix, before, after, change);
    CountOperation(op, before, after, 1, change);
    if ((op == Op::kInsert && before != kNoRoute) ||
        ((op == Op::kReplace || op == Op::kDeleteStrict) &&
         before == kNoRoute) ||
        (batch.require_next_hops && !IsDelete(op) &&
         !next_hops_.Has(next_hop))) {
      suspects.emplace_back(i, before);
    }
  }
  std::sort(suspects.begin(), suspects.end());
  for (const auto& [i, before] : suspects) {
    const RouteChange& refused = batch.changes[i];
    const auto wrong = [&, index = i](
                           absl::StatusCode code, absl::string_view reason,
                           absl::string_view field, absl::string_view why) {
      violations.Add(code, reason,
                     absl::StrCat(batch.ChangeField(index), ".", field), why);
    };
    if (refused.op == Op::kInsert && before != kNoRoute) {
      wrong(absl::StatusCode::kAlreadyExists, "ROUTE_EXISTS", "prefix",
            absl::StrCat(refused.prefix.ToString(), " has a route"));
    }
    if ((refused.op == Op::kReplace || refused.op == Op::kDeleteStrict) &&
        before == kNoRoute) {
      wrong(absl::StatusCode::kNotFound, "ROUTE_NOT_FOUND", "prefix",
            absl::StrCat(refused.prefix.ToString(), " has no route"));
    }
    if (batch.require_next_hops && !IsDelete(refused.op) &&
        !next_hops_.Has(refused.next_hop)) {
      wrong(absl::StatusCode::kNotFound, "NEXT_HOP_NOT_FOUND", "next_hop_id",
            absl::StrCat("no next hop or group has the id ", refused.next_hop));
    }
  }
}

template <typename Use>
void Rib::ForEachDifference(const std::vector<Route>& wanted, Use use) const {
  auto next = wanted.begin();
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const Route& old : routes(family)) {
      for (; next != wanted.end() && next->prefix < old.prefix; ++next) {
        use(next->prefix, kNoRoute, next->next_hop);
      }
      if (next != wanted.end() && next->prefix == old.prefix) {
        use(old.prefix, old.next_hop, next->next_hop);
        ++next;
      } else {
        use(old.prefix, old.next_hop, kNoRoute);
      }
    }
  }
  for (; next != wanted.end(); ++next) {
    use(next->prefix, kNoRoute, next->next_hop);
  }
}

void Rib::Replace(const UpdateBatch& batch, Violations& violations,
                  Change& change) {
  const std::vector<Route>& all = *batch.replacement;
  const auto twice = std::adjacent_find(
      all.begin(), all.end(),
      [](const Route& a, const Route& b) { return a.prefix == b.prefix; });
  if (twice != all.end()) {
    violations.Add(absl::StatusCode::kInvalidArgument, "PREFIX_REPEATED",
                   batch.fields->replacement,
                   absl::StrCat(twice->prefix.ToString(), " appears twice"));
    return;
  }
  // Counts first, so that a large delta is allocated once.
  size_t differences = 0;
  ForEachDifference(all, [&](const Prefix&, NextHopId before, NextHopId after) {
    differences += before != after ? 1 : 0;
  });
  std::vector<Route>& changed = change.delta.routes;
  changed.reserve(differences);
  if (differences < size() / kFewDifferences) {
    ForEachDifference(
        all, [&](const Prefix& prefix, NextHopId before, NextHopId after) {
          if (before != after) {
            changed.push_back({prefix, after});
          } else {
            ++change.counts.unchanged;
          }
        });
    SetRoutes(changed, change);
    return;
  }
  ForEachDifference(
      all, [&](const Prefix& prefix, NextHopId before, NextHopId after) {
        Record(prefix, before, after, change);
      });
  routes_ = TableRoutes(all);
}

void Rib::SetRoutes(absl::Span<const Route> routes, Change& change) {
  for (size_t i = 0; i < routes.size(); ++i) {
    routes_.Prefetch(i, routes.size(), [routes](size_t at) -> const Prefix& {
      return routes[at].prefix;
    });
    const auto& [prefix, next_hop] = routes[i];
    Count(routes_.Exchange(prefix, next_hop), next_hop, 1, change);
  }
}

void Rib::CheckUnused(const UpdateBatch& batch, const Delta& delta,
                      Violations& violations) const {
  if (delta.deleted_next_hops.empty() && delta.deleted_groups.empty()) return;
  // A replacement may leave routes without their next-hop object.
  if (batch.replace_next_hops) return;
  const auto check = [&](absl::Span<const NextHopId> ids,
                         absl::string_view list, bool members_count) {
    for (NextHopId id : ids) {
      NextHopUses uses = next_hops_.Uses(id);
      if (!members_count) uses.groups = 0;
      if (next_hops_.Has(id) || uses.routes + uses.groups == 0) continue;
      violations.Add(absl::StatusCode::kFailedPrecondition, "NEXT_HOP_IN_USE",
                     list,
                     absl::StrCat("id ", id, " is named by ", uses.routes,
                                  " routes and ", uses.groups, " groups"));
    }
  };
  check(delta.deleted_next_hops, batch.fields->deleted_next_hops, true);
  // A batch may delete a group and name its id as a member: the id then has
  // neither object, which is allowed.
  check(delta.deleted_groups, batch.fields->deleted_groups, false);
}

absl::Status Rib::CheckLimits(uint64_t routes_before,
                              size_t next_hops_before) const {
  if (size() > routes_before && size() > limits_.max_routes) {
    return QuotaError(
        "TABLE_FULL", "routes",
        absl::StrCat("the table would hold ", size(), " routes; its limit is ",
                     limits_.max_routes, " (--max_routes)"));
  }
  if (next_hops_.size() > next_hops_before &&
      next_hops_.size() > limits_.max_next_hops) {
    return QuotaError("NEXT_HOPS_FULL", "next_hops",
                      absl::StrCat("the table would hold ", next_hops_.size(),
                                   " next hops and groups; its limit is ",
                                   limits_.max_next_hops,
                                   " (--max_next_hops); \"planbctl nexthop "
                                   "prune\" deletes those that are unused"));
  }
  return absl::OkStatus();
}

size_t Rib::bytes() const {
  return sizeof(*this) + routes_.bytes() + next_hops_.bytes();
}

}  // namespace planb::server
