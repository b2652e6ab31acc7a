// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/serving/visibility/update_workloads.h"
#include "follow/convert.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/synthetic.h"

namespace planb::visibility {
namespace {

// Routes in one message of a ReplaceRoutes call: some 160 KB.
constexpr size_t kRoutesPerMessage = 5000;

// Cuts `changes` into batches without repeats, at most `count`, all full.
std::vector<Batch> Cut(absl::Span<const Route> changes, size_t size,
                       size_t count) {
  std::vector<Batch> batches;
  Batch batch;
  absl::flat_hash_set<Prefix> seen;
  for (const Route& change : changes) {
    if (batches.size() == count) break;
    if (!seen.insert(change.prefix).second) continue;
    batch.push_back(change);
    if (batch.size() < size) continue;
    batches.push_back(std::move(batch));
    batch.clear();
    seen.clear();
  }
  return batches;
}

}  // namespace

absl::StatusOr<std::vector<Batch>> MakeBatches(absl::Span<const Route> routes,
                                               size_t size, size_t count,
                                               uint64_t seed) {
  // A small table repeats its prefixes soon: the more of the churn is skipped.
  constexpr size_t kMostSkipped = 64;
  for (size_t factor = 2; factor <= kMostSkipped; factor *= 2) {
    const auto churn = MakeChurn(routes, factor * size * count, seed);
    if (!churn.ok()) {
      return absl::InvalidArgumentError(churn.status().message());
    }
    std::vector<Batch> batches = Cut(*churn, size, count);
    if (batches.size() < count) continue;
    std::vector<Route> there;
    for (const Batch& batch : batches) {
      there.insert(there.end(), batch.begin(), batch.end());
    }
    const RouteSet before(routes.front().prefix.family(), routes);
    const std::vector<Route> all = ThereAndBack(before.Share(), there);
    batches.clear();
    for (size_t i = 0; i < all.size(); i += size) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(i);
      batches.emplace_back(from, from + static_cast<std::ptrdiff_t>(size));
    }
    return batches;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no batches of ", size,
                   " changes without repeats in a "
                   "table of ",
                   routes.size()));
}

std::vector<Route> OtherTable(absl::Span<const Route> routes) {
  constexpr uint64_t kOtherSeed = 4711;
  constexpr NextHopId kOtherHops = 1'000'000;
  std::vector<Route> other =
      SyntheticTable({.ipv6_routes = routes.size(), .seed = kOtherSeed});
  for (Route& route : other) route.next_hop += kOtherHops;
  return other;
}

std::vector<Route> NearTable(absl::Span<const Route> routes) {
  constexpr size_t kOneIn = 100;
  std::vector<Route> near(routes.begin(), routes.end());
  absl::flat_hash_set<Prefix> taken;
  for (const Route& route : near) taken.insert(route.prefix);
  bool prefix_turn = false;
  for (size_t i = 0; i < near.size(); i += kOneIn) {
    Route& route = near[i];
    const int length = route.prefix.length();
    prefix_turn = !prefix_turn;
    const Prefix shorter =
        Prefix::Truncate(route.prefix.address(), std::max(length - 1, 1));
    if (prefix_turn && taken.insert(shorter).second) {
      route.prefix = shorter;
    } else {
      route.next_hop = route.next_hop == 1 ? 2 : route.next_hop - 1;
    }
  }
  std::sort(near.begin(), near.end());
  return near;
}

void Encode(const Batch& batch,
            google::protobuf::RepeatedPtrField<v1::RouteUpdate>& to) {
  for (const Route& change : batch) ToProto(change, *to.Add());
}

std::vector<v1::ReplaceRoutesRequest> EncodeTable(
    absl::Span<const Route> routes) {
  std::vector<v1::ReplaceRoutesRequest> messages;
  for (size_t i = 0; i < routes.size(); i += kRoutesPerMessage) {
    v1::ReplaceRoutesRequest& message = messages.emplace_back();
    for (const Route& route : routes.subspan(i, kRoutesPerMessage)) {
      ToProto(route, *message.add_routes());
    }
  }
  if (messages.empty()) messages.emplace_back();
  messages.front().set_ack(v1::ACK_VISIBLE);
  messages.back().set_commit(true);
  return messages;
}

}  // namespace planb::visibility
