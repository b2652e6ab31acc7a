// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/table/table_digest.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

template <typename Key, typename Value>
NextHopId Find(const std::map<Key, Value>& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? kNoRoute : it->second;
}

void CountRoute(NextHopId before, NextHopId after, ChangeCounts& counts) {
  if (before == after) {
    ++counts.unchanged;
  } else if (before == kNoRoute) {
    ++counts.added;
  } else if (after == kNoRoute) {
    ++counts.removed;
  } else {
    ++counts.changed;
  }
}

// Upserts, then deletes, those of one kind.
template <typename Entry>
void ApplyObjects(const std::vector<Entry>& upserts,
                  const std::vector<NextHopId>& deletes,
                  const char* absent_reason, ModelResult& result,
                  std::map<NextHopId, Entry>& objects) {
  for (const Entry& entry : upserts) {
    const auto it = objects.find(entry.id);
    if (it == objects.end()) {
      ++result.counts.next_hops_added;
    } else if (!(it->second == entry)) {
      ++result.counts.next_hops_changed;
    }
    objects[entry.id] = entry;
  }
  for (NextHopId id : deletes) {
    if (objects.erase(id) == 0) {
      result.refusals.insert(absent_reason);
    } else {
      ++result.counts.next_hops_removed;
    }
  }
}

void ApplyChange(const RouteChange& change, bool require_next_hops,
                 ModelResult& result) {
  ModelTable& table = result.after;
  const bool deletes =
      change.op == Op::kDelete || change.op == Op::kDeleteStrict;
  const NextHopId before = Find(table.routes, change.prefix);
  const NextHopId after = deletes ? kNoRoute : change.next_hop;
  if (change.op == Op::kInsert && before != kNoRoute) {
    result.refusals.insert("ROUTE_EXISTS");
  }
  if ((change.op == Op::kReplace || change.op == Op::kDeleteStrict) &&
      before == kNoRoute) {
    result.refusals.insert("ROUTE_NOT_FOUND");
  }
  if (require_next_hops && !deletes && table.next_hops.count(after) == 0 &&
      table.groups.count(after) == 0) {
    result.refusals.insert("NEXT_HOP_NOT_FOUND");
  }
  CountRoute(before, after, result.counts);
  if (after == kNoRoute) {
    table.routes.erase(change.prefix);
  } else {
    table.routes[change.prefix] = after;
  }
}

void Replace(const std::vector<Route>& routes, ModelResult& result) {
  std::map<Prefix, NextHopId> wanted;
  for (const Route& route : routes) wanted[route.prefix] = route.next_hop;
  for (const auto& [prefix, next_hop] : wanted) {
    CountRoute(Find(result.after.routes, prefix), next_hop, result.counts);
  }
  for (const auto& [prefix, next_hop] : result.after.routes) {
    if (wanted.count(prefix) == 0) {
      CountRoute(next_hop, kNoRoute, result.counts);
    }
  }
  result.after.routes = std::move(wanted);
}

// What must hold of next hops and groups in any table.
void CheckObjects(const UpdateBatch& batch, ModelResult& result) {
  const ModelTable& table = result.after;
  std::set<NextHopId> by_routes, by_groups;
  for (const auto& [prefix, next_hop] : table.routes) {
    by_routes.insert(next_hop);
  }
  for (const auto& [id, group] : table.groups) {
    if (table.next_hops.count(id) > 0) {
      result.refusals.insert("NEXT_HOP_IS_GROUP");
    }
    for (const NextHopGroup::Member& member : group.members) {
      by_groups.insert(member.next_hop);
      if (table.groups.count(member.next_hop) > 0) {
        result.refusals.insert("GROUP_NESTED");
      }
    }
  }
  const auto in_use = [&](NextHopId id) {
    if (table.next_hops.count(id) > 0 || table.groups.count(id) > 0) return;
    result.refusals.insert("NEXT_HOP_IN_USE");
  };
  for (NextHopId id : batch.deleted_next_hops) {
    if (by_routes.count(id) + by_groups.count(id) > 0) in_use(id);
  }
  // A member is a next hop's id: no group can name another.
  for (NextHopId id : batch.deleted_groups) {
    if (by_routes.count(id) > 0) in_use(id);
  }
}

template <typename Entry>
void DifferObjects(const std::map<NextHopId, Entry>& before,
                   const std::map<NextHopId, Entry>& after,
                   std::vector<Entry>& upserts,
                   std::vector<NextHopId>& deletes) {
  for (const auto& [id, entry] : after) {
    const auto it = before.find(id);
    if (it == before.end() || !(it->second == entry)) upserts.push_back(entry);
  }
  for (const auto& [id, entry] : before) {
    if (after.count(id) == 0) deletes.push_back(id);
  }
}

}  // namespace

ModelResult ApplyToModel(const ModelTable& before, uint64_t generation,
                         const UpdateBatch& batch) {
  ModelResult result;
  result.after = before;
  if (batch.expected_generation.value_or(generation) != generation) {
    result.refusals.insert("GENERATION_MISMATCH");
  }
  ApplyObjects(batch.next_hops, batch.deleted_next_hops, "NEXT_HOP_NOT_FOUND",
               result, result.after.next_hops);
  ApplyObjects(batch.groups, batch.deleted_groups, "GROUP_NOT_FOUND", result,
               result.after.groups);
  for (const RouteChange& change : batch.changes) {
    ApplyChange(change, batch.require_next_hops, result);
  }
  if (batch.replacement.has_value()) Replace(*batch.replacement, result);
  CheckObjects(batch, result);
  return result;
}

Delta Difference(const ModelTable& before, const ModelTable& after) {
  Delta delta;
  for (const auto& [prefix, next_hop] : after.routes) {
    if (Find(before.routes, prefix) != next_hop) {
      delta.routes.push_back({prefix, next_hop});
    }
  }
  for (const auto& [prefix, next_hop] : before.routes) {
    if (after.routes.count(prefix) == 0) {
      delta.routes.push_back({prefix, kNoRoute});
    }
  }
  DifferObjects(before.next_hops, after.next_hops, delta.next_hops,
                delta.deleted_next_hops);
  DifferObjects(before.groups, after.groups, delta.groups,
                delta.deleted_groups);
  delta.digest = DigestOf(after);
  SortDelta(delta);
  return delta;
}

void SortDelta(Delta& delta) {
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::sort(delta.routes.begin(), delta.routes.end());
  std::sort(delta.next_hops.begin(), delta.next_hops.end(), by_id);
  std::sort(delta.groups.begin(), delta.groups.end(), by_id);
  std::sort(delta.deleted_next_hops.begin(), delta.deleted_next_hops.end());
  std::sort(delta.deleted_groups.begin(), delta.deleted_groups.end());
}

std::string CompareDeltas(const Delta& actual, const Delta& expected) {
  if (actual.routes != expected.routes) {
    std::string text = "routes";
    const auto list = [&text](const char* name, const Delta& delta) {
      absl::StrAppend(&text, " ", name, " {");
      for (const Route& route : delta.routes) {
        absl::StrAppend(&text, route.prefix.ToString(), "=", route.next_hop,
                        " ");
      }
      absl::StrAppend(&text, "}");
    };
    list("are", actual);
    list("should be", expected);
    return text;
  }
  if (actual.next_hops != expected.next_hops ||
      actual.deleted_next_hops != expected.deleted_next_hops) {
    return "next hops differ";
  }
  if (actual.groups != expected.groups ||
      actual.deleted_groups != expected.deleted_groups) {
    return "groups differ";
  }
  return actual.digest == expected.digest ? "" : "the digest differs";
}

std::string DigestOf(const ModelTable& table) {
  TableDigest digest;
  for (const auto& [prefix, next_hop] : table.routes) {
    digest.Add(Route{prefix, next_hop});
  }
  return digest.ToString();
}

NextHopId LongestMatch(const ModelTable& table, const Address& address) {
  NextHopId best = kNoRoute;
  int length = -1;
  for (const auto& [prefix, next_hop] : table.routes) {
    if (prefix.length() > length && prefix.Contains(address)) {
      length = prefix.length();
      best = next_hop;
    }
  }
  return best;
}

}  // namespace planb::server
