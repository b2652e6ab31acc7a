// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "follow/convert.h"
#include "lpm/routes/table_digest.h"

namespace planb::server {

using Kind = WriteCall::Kind;
using Outcome = WriteCall::Outcome;

Instant NextDeath(const ModelHistory& history, Instant end) {
  Instant death = kNever;
  for (const ServerLife& life : history.lives) {
    if (life.end >= end) death = std::min(death, life.end);
  }
  return death;
}

std::string Describe(const WriteCall& call) {
  static constexpr const char* kKinds[] = {"UpdateRoutes", "StreamUpdates",
                                           "ReplaceRoutes", "UpdateNextHops",
                                           "ImportSnapshot"};
  static constexpr const char* kOps[] = {"+", "insert ", "replace ", "-",
                                         "delete! "};
  const UpdateBatch& batch = call.batch;
  std::string text =
      absl::StrCat(kKinds[static_cast<int>(call.kind)], "[", call.begin, "..",
                   call.end, " epoch ", batch.writer_epoch,
                   batch.validate_only ? " validate_only" : "",
                   batch.request_id.empty() ? "" : " id ", batch.request_id);
  if (batch.expected_generation.has_value()) {
    absl::StrAppend(&text, " expects ", *batch.expected_generation);
  }
  for (const RouteChange& change : batch.changes) {
    absl::StrAppend(&text, " ", kOps[static_cast<int>(change.op)],
                    change.prefix.ToString(), "=", change.next_hop);
  }
  if (batch.replacement.has_value()) {
    absl::StrAppend(&text, " ", batch.replacement->size(), " routes");
  }
  absl::StrAppend(&text, "] -> ");
  switch (call.outcome) {
    case Outcome::kDone:
      return absl::StrCat(text, "generation ", call.generation, " +",
                          call.counts.added, " ~", call.counts.changed, " -",
                          call.counts.removed);
    case Outcome::kRefused:
      return text + call.reason;
    default:
      return absl::StrCat(text, "unknown ", call.reason);
  }
}

std::string CompareCounts(const WriteCall& call, const ChangeCounts& model) {
  ChangeCounts wanted = model;
  if (call.kind == Kind::kNextHops) {
    wanted = {.added = model.next_hops_added,
              .changed = model.next_hops_changed,
              .removed = model.next_hops_removed};
  }
  const ChangeCounts& told = call.counts;
  if (std::tie(told.added, told.changed, told.removed, told.unchanged) ==
      std::tie(wanted.added, wanted.changed, wanted.removed,
               wanted.unchanged)) {
    return "";
  }
  const auto text = [](const ChangeCounts& c) {
    return absl::StrCat("+", c.added, " ~", c.changed, " -", c.removed, " =",
                        c.unchanged);
  };
  return absl::StrCat("was told ", text(told), ", the model says ",
                      text(wanted));
}

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

// Applies the upserts, then the deletes, of one kind of object. With `replace`
// the objects that are not upserted are deleted too.
template <typename Entry>
void ApplyObjects(const std::vector<Entry>& upserts,
                  const std::vector<NextHopId>& deletes, bool replace,
                  const char* absent_reason, ModelResult& result,
                  std::map<NextHopId, Entry>& objects) {
  if (replace) {
    result.counts.next_hops_removed +=
        std::erase_if(objects, [&](const auto& object) {
          return std::none_of(
              upserts.begin(), upserts.end(),
              [&](const Entry& entry) { return entry.id == object.first; });
        });
  }
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

// Checks the references between routes, groups and next hops.
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
  // Groups have no groups as members, so only routes can use a group.
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
  ApplyObjects(batch.next_hops, batch.deleted_next_hops,
               batch.replace_next_hops, "NEXT_HOP_NOT_FOUND", result,
               result.after.next_hops);
  ApplyObjects(batch.groups, batch.deleted_groups, batch.replace_next_hops,
               "GROUP_NOT_FOUND", result, result.after.groups);
  for (const RouteChange& change : batch.changes) {
    ApplyChange(change, batch.require_next_hops, result);
  }
  if (batch.replacement.has_value()) Replace(*batch.replacement, result);
  CheckObjects(batch, result);
  result.after.complete = batch.complete.value_or(before.complete);
  result.completes = result.after.complete != before.complete;
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
  for (const auto& [id, next_hop] : table.next_hops) digest.Add(next_hop);
  for (const auto& [id, group] : table.groups) digest.Add(group);
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

namespace {

// Chains to the full length, siblings, prefixes that end where another begins,
// and both ends of the address space.
constexpr const char* kPrefixes[] = {
    "0.0.0.0/0",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.1.0/24",
    "10.1.1.0/25",
    "10.1.1.1/32",
    "10.1.1.192/26",
    "10.1.2.0/24",
    "10.2.0.0/15",
    "10.128.0.0/9",
    "10.255.255.255/32",
    "11.0.0.0/8",
    "172.16.0.0/12",
    "255.255.255.254/31",
    "255.255.255.255/32",
    "::/0",
    "::/128",
    "2001:db8::/32",
    "2001:db8::/48",
    "2001:db8::/64",
    "2001:db8::/127",
    "2001:db8::1/128",
    "2001:db8:0:1::/64",
    "2001:db8:0:1:8000::/65",
    "2001:db8:0:1:8000::/66",
    "2001:db8:0:1:ffff:ffff:ffff:0/112",
    "2001:db8:1::/48",
    "2001:db8:8000::/33",
    "2001:db8:ffff::/48",
    "2001:db8:ffff:ffff::/64",
    "2001:db9::/32",
    "2001:db9:0:8000::/49",
    "2600::/12",
    "2600:1::/32",
    "fc00::/7",
    "fe80::/10",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"};

constexpr NextHopId kNextHops = 12;    // 1..12
constexpr NextHopId kFirstGroup = 21;  // 21..24
constexpr NextHopId kGroups = 4;

NextHopId RandomNextHop(Random& random) {
  return static_cast<NextHopId>(Chance(random, 15)
                                    ? kFirstGroup + Below(random, kGroups)
                                    : 1 + Below(random, kNextHops));
}

NextHop RandomObject(NextHopId id, Random& random) {
  NextHop next_hop;
  next_hop.id = id;
  if (Chance(random, 50)) {
    next_hop.gateway = Address::V4(static_cast<uint32_t>(1 + Below(random, 3)));
  }
  next_hop.interface = absl::StrCat("eth", Below(random, 2));
  next_hop.weight = static_cast<uint32_t>(1 + Below(random, 2));
  if (Chance(random, 50)) {
    v1::Attributes attributes;
    attributes.set_med(static_cast<uint32_t>(Below(random, 2)));
    next_hop.attributes = *FromProto(attributes);
  }
  return next_hop;
}

NextHopGroup RandomGroup(NextHopId id, Random& random) {
  NextHopGroup group;
  group.id = id;
  for (NextHopId member = 1; member <= kNextHops; ++member) {
    if (Chance(random, 20)) group.members.push_back({member, 1});
  }
  // A group as a member is refused.
  if (Chance(random, 5)) group.members.push_back({kFirstGroup, 2});
  if (group.members.empty()) group.members.push_back({1, 1});
  return group;
}

// Each id once, in a random order.
std::vector<NextHopId> RandomIds(NextHopId first, NextHopId count,
                                 Random& random) {
  std::vector<NextHopId> ids(count);
  for (NextHopId i = 0; i < count; ++i) ids[i] = first + i;
  std::shuffle(ids.begin(), ids.end(), random);
  return ids;
}

}  // namespace

const std::vector<Prefix>& WorldPrefixes() {
  static const auto& prefixes = *new std::vector<Prefix>([] {
    std::vector<Prefix> all;
    for (const char* text : kPrefixes) {
      const auto prefix = Prefix::Parse(text);
      ABSL_RAW_CHECK(prefix.ok(), text);
      all.push_back(*prefix);
    }
    std::sort(all.begin(), all.end());
    return all;
  }());
  return prefixes;
}

const std::vector<Address>& WorldProbes() {
  static const auto& probes = *new std::vector<Address>([] {
    std::vector<Address> all;
    for (Family family : {Family::kIpv6, Family::kIpv4}) {
      const absl::uint128 step =
          family == Family::kIpv6 ? absl::uint128(1) : absl::uint128(1) << 96;
      std::set<Address> some;
      for (const Prefix& prefix : WorldPrefixes()) {
        if (prefix.family() != family) continue;
        // Unsigned: the neighbour of the last address is the first one.
        const absl::uint128 last =
            family == Family::kIpv6 ? prefix.last() : prefix.last() >> 96 << 96;
        for (absl::uint128 bits :
             {prefix.first() - step, prefix.first(), last, last + step}) {
          some.insert(Address::FromBits(family, bits));
        }
      }
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }());
  return probes;
}

UpdateBatch RandomChanges(Random& random) {
  using Op = RouteChange::Op;
  UpdateBatch batch;
  std::vector<Prefix> prefixes = WorldPrefixes();
  std::shuffle(prefixes.begin(), prefixes.end(), random);
  const uint64_t count = Chance(random, 10) ? 15 : 1 + Below(random, 4);
  for (uint64_t i = 0; i < count; ++i) {
    static constexpr Op kOps[] = {Op::kUpsert, Op::kUpsert,      Op::kUpsert,
                                  Op::kInsert, Op::kReplace,     Op::kDelete,
                                  Op::kDelete, Op::kDeleteStrict};
    // A batch of many strict changes is always refused.
    const Op op = count > 4 ? (Chance(random, 50) ? Op::kUpsert : Op::kDelete)
                            : kOps[Below(random, std::size(kOps))];
    const bool deletes = op == Op::kDelete || op == Op::kDeleteStrict;
    batch.changes.push_back(
        {op, prefixes[i], deletes ? kNoRoute : RandomNextHop(random)});
  }
  if (Chance(random, 10)) {
    const auto id = static_cast<NextHopId>(1 + Below(random, kNextHops));
    batch.next_hops.push_back(RandomObject(id, random));
  }
  if (Chance(random, 5)) {
    const auto id =
        static_cast<NextHopId>(kFirstGroup + Below(random, kGroups));
    batch.groups.push_back(RandomGroup(id, random));
  }
  batch.require_next_hops = Chance(random, 10);
  return batch;
}

UpdateBatch RandomReplacement(Random& random) {
  UpdateBatch batch;
  batch.replacement.emplace();
  for (const Prefix& prefix : WorldPrefixes()) {
    if (Chance(random, 50)) {
      batch.replacement->push_back({prefix, RandomNextHop(random)});
    }
  }
  return batch;
}

UpdateBatch RandomImport(Random& random) {
  UpdateBatch batch = RandomReplacement(random);
  batch.replace_next_hops = true;
  for (NextHopId id = 1; id <= kNextHops; ++id) {
    if (Chance(random, 50)) batch.next_hops.push_back(RandomObject(id, random));
  }
  for (NextHopId id = kFirstGroup; id < kFirstGroup + kGroups; ++id) {
    if (Chance(random, 50)) batch.groups.push_back(RandomGroup(id, random));
  }
  return batch;
}

UpdateBatch RandomObjects(Random& random) {
  UpdateBatch batch;
  const auto ids = RandomIds(1, kNextHops, random);
  for (size_t i = 0; i < 3; ++i) {
    if (Chance(random, 50)) {
      batch.next_hops.push_back(RandomObject(ids[i], random));
    }
  }
  if (Chance(random, 30)) batch.deleted_next_hops.push_back(ids[3]);
  const auto group_ids = RandomIds(kFirstGroup, kGroups, random);
  if (Chance(random, 40)) {
    batch.groups.push_back(RandomGroup(group_ids[0], random));
  }
  if (Chance(random, 20)) batch.deleted_groups.push_back(group_ids[1]);
  return batch;
}

}  // namespace planb::server
