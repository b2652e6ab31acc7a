#include "server/rib.h"

#include <endian.h>
#include <xxhash.h>

#include <cstring>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/error.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

size_t Index(Family family) { return family == Family::kIpv6 ? 1 : 0; }

// XXH3-128 of address, length, family and next hop; the same on any machine.
absl::uint128 Hash(const Route& route) {
  struct {
    uint64_t high, low;
    uint32_t next_hop;
    uint8_t length, family;
    uint16_t zero;
  } key = {htole64(absl::Uint128High64(route.prefix.first())),
           htole64(absl::Uint128Low64(route.prefix.first())),
           htole32(route.next_hop),
           static_cast<uint8_t>(route.prefix.length()),
           static_cast<uint8_t>(route.prefix.family()),
           0};
  static_assert(sizeof(key) == 24);
  const XXH128_hash_t hash = XXH3_128bits(&key, sizeof(key));
  return absl::MakeUint128(hash.high64, hash.low64);
}

bool IsDelete(Op op) { return op == Op::kDelete || op == Op::kDeleteStrict; }

// The effect of one change on a prefix whose next hop is `now`, if any.
void CountChange(const RouteChange& change, std::optional<NextHopId> now,
                 ChangeCounts& counts) {
  if (IsDelete(change.op)) {
    ++(now.has_value() ? counts.removed : counts.unchanged);
  } else if (!now.has_value()) {
    ++counts.added;
  } else {
    ++(*now == change.next_hop ? counts.unchanged : counts.changed);
  }
}

std::string UpdateField(size_t index, absl::string_view field) {
  return absl::StrCat("updates[", index, "].", field);
}

}  // namespace

absl::StatusOr<ChangeCounts> Rib::Check(absl::Span<const RouteChange> changes,
                                        absl::Span<const NextHop> next_hops,
                                        bool require_next_hops) const {
  ChangeCounts counts;
  Violations violations;

  uint64_t new_objects = 0;
  absl::flat_hash_set<NextHopId> ids;
  for (size_t i = 0; i < next_hops.size(); ++i) {
    if (!ids.insert(next_hops[i].id).second) {
      violations.Add(
          absl::StatusCode::kInvalidArgument, "NEXT_HOP_REPEATED",
          absl::StrCat("next_hops[", i, "].id"),
          absl::StrCat("id ", next_hops[i].id, " appears twice in this batch"));
    }
    const auto known = next_hops_->find(next_hops[i].id);
    if (known == next_hops_->end()) ++new_objects;
    if (known == next_hops_->end() || known->second != next_hops[i]) {
      counts.next_hops_changed = true;
    }
  }

  absl::flat_hash_map<Prefix, size_t> first_seen;
  first_seen.reserve(changes.size());
  for (size_t i = 0; i < changes.size(); ++i) {
    const RouteChange& change = changes[i];
    const auto [seen, fresh] = first_seen.try_emplace(change.prefix, i);
    if (!fresh) {
      violations.Add(
          absl::StatusCode::kInvalidArgument, "PREFIX_REPEATED",
          UpdateField(i, "prefix"),
          absl::StrCat(change.prefix.ToString(), " is already in updates[",
                       seen->second, "]"));
      continue;
    }
    const auto it = routes_.find(change.prefix);
    const bool exists = it != routes_.end();
    if (change.op == Op::kInsert && exists) {
      violations.Add(absl::StatusCode::kAlreadyExists, "ROUTE_EXISTS",
                     UpdateField(i, "prefix"),
                     absl::StrCat(change.prefix.ToString(), " has a route"));
    }
    if ((change.op == Op::kReplace || change.op == Op::kDeleteStrict) &&
        !exists) {
      violations.Add(absl::StatusCode::kNotFound, "ROUTE_NOT_FOUND",
                     UpdateField(i, "prefix"),
                     absl::StrCat(change.prefix.ToString(), " has no route"));
    }
    if (require_next_hops && !IsDelete(change.op) &&
        !ids.contains(change.next_hop) &&
        next_hops_->find(change.next_hop) == next_hops_->end()) {
      violations.Add(
          absl::StatusCode::kNotFound, "NEXT_HOP_NOT_FOUND",
          UpdateField(i, "next_hop_id"),
          absl::StrCat("no next-hop object has the id ", change.next_hop));
    }
    CountChange(change, exists ? std::optional(it->second) : std::nullopt,
                counts);
  }
  if (!violations.empty()) return violations.ToStatus();

  const uint64_t routes = size() + counts.added - counts.removed;
  if (counts.added > 0 && routes > limits_.max_routes) {
    return QuotaError(
        "TABLE_FULL", "routes",
        absl::StrCat("the table would hold ", routes, " routes; its limit is ",
                     limits_.max_routes));
  }
  const uint64_t objects = next_hops_->size() + new_objects;
  if (new_objects > 0 && objects > limits_.max_next_hops) {
    return QuotaError("NEXT_HOPS_FULL", "next_hops",
                      absl::StrCat("the table would hold ", objects,
                                   " next-hop objects; its limit is ",
                                   limits_.max_next_hops));
  }
  return counts;
}

void Rib::Apply(absl::Span<const RouteChange> changes,
                absl::Span<const NextHop> next_hops) {
  if (!next_hops.empty()) {
    auto updated = std::make_shared<NextHopMap>(*next_hops_);
    for (const NextHop& next_hop : next_hops) {
      updated->insert_or_assign(next_hop.id, next_hop);
    }
    next_hops_ = std::move(updated);
  }
  for (const RouteChange& change : changes) {
    const auto it = routes_.find(change.prefix);
    if (it != routes_.end()) Count({it->first, it->second}, /*add=*/false);
    if (IsDelete(change.op)) {
      if (it != routes_.end()) routes_.erase(it);
      continue;
    }
    routes_.insert_or_assign(change.prefix, change.next_hop);
    Count({change.prefix, change.next_hop}, /*add=*/true);
  }
}

void Rib::Count(const Route& route, bool add) {
  uint64_t& length = lengths_[Index(route.prefix.family())]
                             [static_cast<size_t>(route.prefix.length())];
  length += add ? uint64_t{1} : ~uint64_t{0};
  digest_ += add ? Hash(route) : -Hash(route);
}

std::vector<Route> Rib::Routes() const {
  std::vector<Route> routes;
  routes.reserve(routes_.size());
  for (const auto& [prefix, next_hop] : routes_) {
    routes.push_back({prefix, next_hop});
  }
  return routes;
}

uint64_t Rib::size(Family family) const {
  uint64_t sum = 0;
  for (uint64_t count : lengths(family)) sum += count;
  return sum;
}

const std::array<uint64_t, 129>& Rib::lengths(Family family) const {
  return lengths_[Index(family)];
}

std::string Rib::digest() const {
  const std::array<uint64_t, 2> words = {htobe64(absl::Uint128High64(digest_)),
                                         htobe64(absl::Uint128Low64(digest_))};
  std::string octets(sizeof(words), '\0');
  std::memcpy(octets.data(), words.data(), sizeof(words));
  return octets;
}

uint64_t Rib::bytes() const {
  // B-tree nodes are at least half full, on average about three quarters.
  return sizeof(*this) +
         routes_.size() * (sizeof(Prefix) + sizeof(NextHopId)) * 4 / 3 +
         next_hops_->size() * (sizeof(NextHop) + 64);
}

}  // namespace planb::server
