// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/workload.h"

#include <string>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/route_file.h"
#include "lpm/kernels/kernel.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/synthetic/traffic.h"

namespace planb::rpc {

absl::StatusOr<AddressForm> ParseAddressForm(absl::string_view name) {
  if (name == "full") return AddressForm::kFull;
  if (name == "upper") return AddressForm::kUpper;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is neither \"full\" nor \"upper\""));
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
  std::vector<NextHopId> answers;
  answers.reserve(addresses.size() / Width(form));
  for (size_t i = 0; i < addresses.size(); i += Width(form)) {
    std::string packed(addresses.substr(i, Width(form)));
    packed.resize(Width(AddressForm::kFull));
    const Address address = *Address::FromPacked(packed);
    answers.push_back(form == AddressForm::kUpper ? table.NextHopOfHalf(address)
                                                  : table.NextHop(address));
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
