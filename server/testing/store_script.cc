// SPDX-License-Identifier: Apache-2.0

#include "server/testing/store_script.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/routes/table_digest.h"

namespace planb::server {
namespace {

// A quote, a NUL and a letter that is not ASCII.
constexpr absl::string_view kOddLabel("l'\"\0\xc3\xbc", 6);

}  // namespace

StoreScript::StoreScript(const StoreScriptOptions& options)
    : options_(options), random_(options.seed) {
  // Special cases: whole families, last addresses, zero bytes inside.
  for (const char* text :
       {"0.0.0.0/0", "::/0", "::/128", "255.255.255.255/32", "0.0.0.0/32",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "0.0.0.0/1", "::/1",
        "10.0.0.0/8", "10.0.0.0/24", "1.0.0.1/32", "2001:db8::/32",
        "2001:db8::/48", "2001:db8::1/128", "2001::/16", "100::/8"}) {
    prefixes_.push_back(Prefix::Parse(text).value());
  }
  while (prefixes_.size() < options_.prefixes) {
    if (Below(2) == 0) {
      prefixes_.push_back(
          Prefix::Truncate(Address::V4(static_cast<uint32_t>(random_())),
                           static_cast<int>(Below(33))));
    } else {
      prefixes_.push_back(
          Prefix::Truncate(Address::V6(absl::MakeUint128(random_(), random_())),
                           static_cast<int>(Below(129))));
    }
  }
}

absl::Status StoreScript::Step(TableLog* log) {
  ++steps_;
  last_ = RandomAction();
  return log == nullptr ? absl::OkStatus() : last_(*log);
}

StoreScript::Action StoreScript::RandomAction() {
  const std::string name = absl::StrCat("table-", Below(options_.max_tables));
  const auto found = tables_.find(name);
  if (found == tables_.end()) {
    // Above the floor, if a table was deleted.
    const uint64_t generation = floor_ + Below(3) + (floor_ == 0 ? 0 : 1);
    Table& table = tables_[name];
    table.generation = generation;
    table.fib.prefix_lengths = Below(2) == 1;
    return [name, generation, fib = table.fib](TableLog& log) {
      return log.CreateTable(name, generation, fib).status();
    };
  }
  if (Below(15) == 0) {
    const uint64_t generation = found->second.generation;
    floor_ = std::max(floor_, generation);
    tables_.erase(found);
    return [name, generation](TableLog& log) {
      return log.DeleteTable(name, generation);
    };
  }
  std::vector<AcceptedBatch> batches;
  const uint64_t count = Below(3) == 0 ? 1 + Below(8) : 1;
  for (uint64_t i = 0; i < count; ++i) {
    batches.push_back(RandomBatch(found->second));
  }
  const auto after =
      std::make_shared<const StoredTable>(ToStored(name, found->second));
  return [name, batches = std::move(batches), after](TableLog& log) {
    absl::Status status = log.Append(name, batches);
    if (status.ok()) {
      log.OfferSnapshot(name, [&] { return MakeVersion(*after); });
    }
    return status;
  };
}

AcceptedBatch StoreScript::RandomBatch(Table& table) {
  AcceptedBatch batch;
  if (Below(10) != 0) {
    batch.delta = std::make_shared<const Delta>(RandomDelta(table));
  }
  if (Below(10) == 0) table.writer_epoch += 1 + Below(1ULL << 63);
  batch.writer_epoch = table.writer_epoch;
  if (table.requests.size() < options_.max_requests && Below(2) == 0) {
    AnsweredRequest request;
    request.request_id = absl::StrCat("request ", random_());
    request.fingerprint = random_();
    request.outcome.generation = table.generation;
    request.outcome.counts = {.added = Below(9),
                              .changed = Below(9),
                              .removed = Below(9),
                              .unchanged = Below(9),
                              .next_hops_added = Below(9),
                              .next_hops_changed = Below(9),
                              .next_hops_removed = random_()};
    request.outcome.digest = Digest(table);
    request.outcome.accepted =
        absl::FromUnixNanos(static_cast<int64_t>(random_() >> 2));
    table.requests.push_back(request);
    batch.request = std::move(request);
  }
  return batch;
}

Delta StoreScript::RandomDelta(Table& table) {
  Delta delta;
  delta.previous = table.generation;
  // Generations need not be consecutive.
  delta.generation = table.generation += 1 + Below(3) / 2;
  std::set<Prefix> prefixes;
  const uint64_t routes = Below(options_.max_routes_a_batch + 1);
  for (uint64_t i = 0; i < routes; ++i) {
    const Prefix prefix = prefixes_[Below(prefixes_.size())];
    if (!prefixes.insert(prefix).second) continue;
    const auto next_hop =
        Below(3) == 0 ? kNoRoute
                      : static_cast<NextHopId>(1 + Below(kUndecided - 1));
    // A withdrawal may name a prefix without a route.
    delta.routes.push_back({prefix, next_hop});
    if (next_hop == kNoRoute) {
      table.routes.erase(prefix);
    } else {
      table.routes[prefix] = next_hop;
    }
  }
  for (NextHopId id = 1; id <= 10; ++id) {
    const uint64_t dice = Below(12);
    if (dice == 0) {
      // Some ids are above 2^31.
      NextHop next_hop = {
          .id = id * 400'000'000U,
          .interface = absl::StrCat("eth", Below(4)),
          .weight = static_cast<uint32_t>(random_()),
          .label = std::string(Below(2) == 0 ? "" : kOddLabel),
          .attributes = Attributes(std::string(Below(40), 'a'))};
      if (Below(2) == 0) {
        next_hop.gateway =
            Below(2) == 0
                ? Address::V4(static_cast<uint32_t>(random_()))
                : Address::V6(absl::MakeUint128(random_(), random_()));
      }
      table.next_hops[next_hop.id] = next_hop;
      delta.next_hops.push_back(std::move(next_hop));
    } else if (dice == 1) {
      table.next_hops.erase(id * 400'000'000U);
      delta.deleted_next_hops.push_back(id * 400'000'000U);
    } else if (dice == 2) {
      NextHopGroup group = {.id = id, .label = absl::StrCat("g", Below(99))};
      for (uint64_t i = Below(5); i > 0; --i) {
        group.members.push_back({.next_hop = static_cast<NextHopId>(random_()),
                                 .weight = static_cast<uint32_t>(random_())});
      }
      table.groups[id] = group;
      delta.groups.push_back(std::move(group));
    } else if (dice == 3) {
      table.groups.erase(id);
      delta.deleted_groups.push_back(id);
    }
  }
  delta.digest = Digest(table);
  if (Below(5) == 0) table.complete_since = Below(2) * random_();
  delta.complete_since = table.complete_since;
  return delta;
}

std::string StoreScript::Digest(const Table& table) {
  TableDigest digest;
  for (const auto& [prefix, hop] : table.routes) digest.Add({prefix, hop});
  for (const auto& [id, next_hop] : table.next_hops) digest.Add(next_hop);
  for (const auto& [id, group] : table.groups) digest.Add(group);
  return digest.ToString();
}

std::vector<StoredTable> StoreScript::Tables() const {
  std::vector<StoredTable> tables;
  for (const auto& [name, table] : tables_) {
    tables.push_back(ToStored(name, table));
  }
  return tables;
}

StoredTable StoreScript::ToStored(const std::string& name, const Table& table) {
  StoredTable stored = {.name = name,
                        .fib = table.fib,
                        .generation = table.generation,
                        .writer_epoch = table.writer_epoch,
                        .complete_since = table.complete_since,
                        .requests = table.requests};
  for (const auto& [prefix, next_hop] : table.routes) {
    stored.routes.push_back({prefix, next_hop});
  }
  for (const auto& [id, hop] : table.next_hops) {
    stored.next_hops.push_back(hop);
  }
  for (const auto& [id, group] : table.groups) {
    stored.groups.push_back(group);
  }
  return stored;
}

TableVersion MakeVersion(const StoredTable& table) {
  TableVersion version = {.position = table.position,
                          .generation = table.generation,
                          .writer_epoch = table.writer_epoch,
                          .rib = Rib(RibLimits()),
                          .requests = table.requests};
  UpdateBatch batch;
  batch.replacement = table.routes;
  batch.next_hops = table.next_hops;
  batch.groups = table.groups;
  ABSL_RAW_CHECK(version.rib.Apply(batch).ok(), "the table is valid");
  version.rib.SetCompleteSince(table.complete_since);
  return version;
}

std::string StoreDifference(const std::vector<StoredTable>& expected,
                            const std::vector<StoredTable>& actual) {
  if (expected.size() != actual.size()) {
    return absl::StrCat(actual.size(), " tables, not ", expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const StoredTable& a = expected[i];
    const StoredTable& b = actual[i];
    if (a.name != b.name) return absl::StrCat(b.name, ", not ", a.name);
    if (a.generation != b.generation) {
      return absl::StrCat(a.name, ": generation ", b.generation, ", not ",
                          a.generation);
    }
    if (a.fib.prefix_lengths != b.fib.prefix_lengths) {
      return absl::StrCat(a.name, ": options differ");
    }
    if (a.writer_epoch != b.writer_epoch) {
      return absl::StrCat(a.name, ": writer epochs differ");
    }
    if (a.complete_since != b.complete_since) {
      return absl::StrCat(a.name, ": complete since ", b.complete_since,
                          ", not ", a.complete_since);
    }
    if (a.routes != b.routes) return absl::StrCat(a.name, ": routes differ");
    if (a.next_hops != b.next_hops) {
      return absl::StrCat(a.name, ": next hops differ");
    }
    if (a.groups != b.groups) return absl::StrCat(a.name, ": groups differ");
    if (a.requests != b.requests) {
      return absl::StrCat(a.name, ": answered requests differ");
    }
  }
  return "";
}

}  // namespace planb::server
