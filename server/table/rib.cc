// SPDX-License-Identifier: Apache-2.0

#include "server/table/rib.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

bool IsDelete(Op op) { return op == Op::kDelete || op == Op::kDeleteStrict; }

// The indexes of `changes` in the order of their prefixes; those of one prefix
// as they came. Empty if that is the order they are in, with none repeated.
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

void CheckRepeats(const UpdateBatch& batch, Violations& violations) {
  const std::vector<uint32_t> order = OrderByPrefix(batch.changes);
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
    violations.Add(
        absl::StatusCode::kInvalidArgument, "PREFIX_REPEATED",
        absl::StrCat(batch.fields->changes, "[", later, "].prefix"),
        absl::StrCat(batch.changes[later].prefix.ToString(), " is already in ",
                     batch.fields->changes, "[", first, "]"));
  }
}

}  // namespace

Rib Rib::Share() const {
  Rib shared(limits_);
  shared.v4_ = v4_.Share();
  shared.v6_ = v6_.Share();
  shared.next_hops_ = next_hops_;
  shared.digest_ = digest_;
  shared.lengths_ = lengths_;
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
    CheckRepeats(batch, violations);
    if (violations.empty()) ApplyChanges(batch, violations, change);
  }
  if (violations.empty()) CheckUnused(batch, change.delta, violations);
  if (!violations.empty()) return violations.ToStatus();
  const absl::Status fits = CheckLimits(routes_before, next_hops_before);
  if (!fits.ok()) return fits;
  change.delta.digest = digest();
  return change;
}

void Rib::ApplyChanges(const UpdateBatch& batch, Violations& violations,
                       Change& change) {
  change.delta.routes.reserve(batch.changes.size());
  for (size_t i = 0; i < batch.changes.size(); ++i) {
    const auto& [op, prefix, next_hop] = batch.changes[i];
    const auto wrong = [&, &prefix = prefix](
                           absl::StatusCode code, absl::string_view reason,
                           absl::string_view field, absl::string_view why) {
      violations.Add(code, reason,
                     absl::StrCat(batch.fields->changes, "[", i, "].", field),
                     why);
    };
    const NextHopId before =
        Set(prefix, IsDelete(op) ? kNoRoute : next_hop, change);
    if (op == Op::kInsert && before != kNoRoute) {
      wrong(absl::StatusCode::kAlreadyExists, "ROUTE_EXISTS", "prefix",
            absl::StrCat(prefix.ToString(), " has a route"));
    }
    if ((op == Op::kReplace || op == Op::kDeleteStrict) && before == kNoRoute) {
      wrong(absl::StatusCode::kNotFound, "ROUTE_NOT_FOUND", "prefix",
            absl::StrCat(prefix.ToString(), " has no route"));
    }
    if (batch.require_next_hops && !IsDelete(op) && !next_hops_.Has(next_hop)) {
      wrong(absl::StatusCode::kNotFound, "NEXT_HOP_NOT_FOUND", "next_hop_id",
            absl::StrCat("no next hop or group has the id ", next_hop));
    }
  }
}

NextHopId Rib::Set(const Prefix& prefix, NextHopId next_hop, Change& change) {
  const NextHopId before =
      mutable_routes(prefix.family()).Exchange(prefix, next_hop);
  Book(prefix, before, next_hop, change);
  return before;
}

void Rib::Book(const Prefix& prefix, NextHopId before, NextHopId after,
               Change& change) {
  if (before == after) {
    ++change.counts.unchanged;
    return;
  }
  uint64_t& length = lengths_[prefix.family() == Family::kIpv6 ? 1 : 0]
                             [static_cast<size_t>(prefix.length())];
  if (before != kNoRoute) digest_.Remove(Route{prefix, before});
  if (after != kNoRoute) digest_.Add(Route{prefix, after});
  if (before == kNoRoute) {
    ++length;
    ++change.counts.added;
  } else if (after == kNoRoute) {
    --length;
    ++change.counts.removed;
  } else {
    ++change.counts.changed;
  }
  change.delta.routes.push_back({prefix, after});
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
  // Twice: what is large is not to be copied while it grows.
  size_t differences = 0;
  ForEachDifference(all, [&](const Prefix&, NextHopId before, NextHopId after) {
    differences += before != after ? 1 : 0;
  });
  change.delta.routes.reserve(differences);
  ForEachDifference(
      all, [&](const Prefix& prefix, NextHopId before, NextHopId after) {
        Book(prefix, before, after, change);
      });
  const auto v6 = std::partition_point(
      all.begin(), all.end(),
      [](const Route& r) { return r.prefix.family() == Family::kIpv4; });
  const auto v4_size = static_cast<size_t>(v6 - all.begin());
  const absl::Span<const Route> span = all;
  v4_ = RouteSet(Family::kIpv4, span.first(v4_size));
  v6_ = RouteSet(Family::kIpv6, span.subspan(v4_size));
}

void Rib::CheckUnused(const UpdateBatch& batch, const Delta& delta,
                      Violations& violations) const {
  if (delta.deleted_next_hops.empty() && delta.deleted_groups.empty()) return;
  // Who replaces everything means it.
  if (batch.replace_next_hops) return;
  absl::flat_hash_map<NextHopId, uint64_t> uses;
  for (NextHopId id : delta.deleted_next_hops) uses[id] = 0;
  for (NextHopId id : delta.deleted_groups) uses[id] = 0;
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const Route& route : routes(family)) {
      const auto it = uses.find(route.next_hop);
      if (it != uses.end()) ++it->second;
    }
  }
  const auto members = next_hops_.Members();
  const auto check = [&](absl::Span<const NextHopId> ids,
                         absl::string_view list, bool members_count) {
    for (NextHopId id : ids) {
      const auto member = members.find(id);
      const uint64_t groups =
          members_count && member != members.end() ? member->second : 0;
      if (next_hops_.Has(id) || uses[id] + groups == 0) continue;
      violations.Add(absl::StatusCode::kFailedPrecondition, "NEXT_HOP_IN_USE",
                     list,
                     absl::StrCat("id ", id, " is named by ", uses[id],
                                  " routes and ", groups, " groups"));
    }
  };
  check(delta.deleted_next_hops, batch.fields->deleted_next_hops, true);
  check(delta.deleted_groups, batch.fields->deleted_groups, false);
}

absl::Status Rib::CheckLimits(uint64_t routes_before,
                              size_t next_hops_before) const {
  if (size() > routes_before && size() > limits_.max_routes) {
    return QuotaError(
        "TABLE_FULL", "routes",
        absl::StrCat("the table would hold ", size(), " routes; its limit is ",
                     limits_.max_routes));
  }
  if (next_hops_.size() > next_hops_before &&
      next_hops_.size() > limits_.max_next_hops) {
    return QuotaError("NEXT_HOPS_FULL", "next_hops",
                      absl::StrCat("the table would hold ", next_hops_.size(),
                                   " next hops and groups; its limit is ",
                                   limits_.max_next_hops));
  }
  return absl::OkStatus();
}

size_t Rib::bytes() const {
  return sizeof(*this) + v4_.bytes() + v6_.bytes() + next_hops_.bytes();
}

}  // namespace planb::server
