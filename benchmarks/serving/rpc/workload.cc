// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/workload.h"

#include <cstring>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/load/reference_table.h"
#include "lpm/io/route_file.h"
#include "lpm/kernels/kernel.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/synthetic/traffic.h"

namespace planb::rpc {
namespace {

using client::ReferenceTable;

// The addresses below one upper half at which the answer may change.
using Changes = absl::flat_hash_map<uint64_t, std::vector<absl::uint128>>;

Changes ChangesWithinHalves(absl::Span<const Route> routes) {
  Changes changes;
  for (const Route& route : routes) {
    if (route.prefix.length() <= 64) continue;
    const absl::uint128 first = route.prefix.first();
    const absl::uint128 next = route.prefix.last() + 1;
    std::vector<absl::uint128>& here = changes[absl::Uint128High64(first)];
    here.push_back(first);
    if (absl::Uint128High64(next) == absl::Uint128High64(first)) {
      here.push_back(next);
    }
  }
  return changes;
}

NextHopId NextHopAt(const ReferenceTable& table, absl::uint128 bits) {
  return table.NextHop(Address::FromBits(Family::kIpv6, bits));
}

NextHopId UpperAnswer(const ReferenceTable& table, const Changes& changes,
                      uint64_t half) {
  const NextHopId first = NextHopAt(table, absl::MakeUint128(half, 0));
  const auto at = changes.find(half);
  if (at == changes.end()) return first;
  for (const absl::uint128 bits : at->second) {
    if (NextHopAt(table, bits) != first) return kUndecided;
  }
  return first;
}

uint64_t BigEndian(const char* bytes) {
  uint64_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return __builtin_bswap64(value);
}

}  // namespace

absl::StatusOr<AddressForm> ParseAddressForm(absl::string_view name) {
  if (name == "full") return AddressForm::kFull;
  if (name == "upper") return AddressForm::kUpper;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is neither \"full\" nor \"upper\""));
}

absl::string_view AddressFormName(AddressForm form) {
  return form == AddressForm::kFull ? "full" : "upper";
}

absl::StatusOr<std::vector<Route>> LoadRoutes(const std::string& path,
                                              uint64_t generate) {
  if (path.empty() == (generate == 0)) {
    return absl::InvalidArgumentError("give either --routes or --generate");
  }
  std::vector<Route> routes;
  if (path.empty()) {
    routes = SyntheticTable({.ipv6_routes = generate});
  } else {
    RouteCollector collector;
    const auto report = ReadRouteFile(path, {}, collector);
    if (!report.ok()) return report.status();
    for (const Route& route : collector.TakeRoutes()) {
      if (route.prefix.family() == Family::kIpv6) routes.push_back(route);
    }
  }
  if (routes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no IPv6 route"));
  }
  return routes;
}

std::string PackedTrace(absl::Span<const Route> routes, AddressForm form,
                        size_t count) {
  std::string bytes;
  bytes.reserve(count * Width(form));
  const absl::Status made =
      MakeTraffic(TraceKind::kMatch, Family::kIpv6, routes, count, /*seed=*/1,
                  [&](const Address& address) {
                    bytes += address.ToPacked().substr(0, Width(form));
                  });
  ABSL_RAW_CHECK(made.ok(), "there are routes to draw from");
  return bytes;
}

std::vector<NextHopId> ExpectedAnswers(absl::Span<const Route> routes,
                                       AddressForm form,
                                       absl::string_view addresses) {
  const ReferenceTable table(routes);
  const Changes changes =
      form == AddressForm::kUpper ? ChangesWithinHalves(routes) : Changes();
  std::vector<NextHopId> answers;
  answers.reserve(addresses.size() / Width(form));
  for (size_t i = 0; i < addresses.size(); i += Width(form)) {
    const uint64_t half = BigEndian(addresses.data() + i);
    answers.push_back(
        form == AddressForm::kUpper
            ? UpperAnswer(table, changes, half)
            : NextHopAt(table, absl::MakeUint128(
                                   half, BigEndian(addresses.data() + i + 8))));
  }
  return answers;
}

void Answer(const Fib& fib, AddressForm form, const char* addresses,
            size_t count, char* next_hops) {
  const Kernel& kernel = *AvailableKernels().front();
  if (form == AddressForm::kUpper) {
    fib.LookupUpper(addresses, count, next_hops, kernel);
  } else {
    fib.Lookup(addresses, count, next_hops, kernel);
  }
}

}  // namespace planb::rpc
