// SPDX-License-Identifier: Apache-2.0

// Zipf draws by binary search in the sums of the weights: exact, and quick
// enough for tables of a million routes.

#include "lpm/synthetic/traffic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lpm/synthetic/random.h"

namespace planb {
namespace {

constexpr size_t kRepeated = 16;

struct Named {
  TraceKind kind;
  absl::string_view name;
};
constexpr Named kKinds[] = {{TraceKind::kMatch, "match"},
                            {TraceKind::kUniform, "uniform"},
                            {TraceKind::kZipf, "zipf"},
                            {TraceKind::kLong, "long"},
                            {TraceKind::kRepeat, "repeat"}};

// The part of the space that uniform traffic goes to.
Prefix Everything(Family family) {
  return family == Family::kIpv4
             ? Prefix()
             : Prefix::Truncate(Address::V6(absl::uint128(1) << 125), 3);
}

Address RandomIn(const Prefix& prefix, Random& random) {
  const absl::uint128 host = prefix.last() - prefix.first();
  return Address::FromBits(prefix.family(),
                           prefix.first() | (random.Next128() & host));
}

// Draws k = 0, 1, 2, ... with weights 1, 1/2, 1/3, ...
class Zipf {
 public:
  explicit Zipf(size_t count) {
    double sum = 0;
    for (size_t k = 1; k <= count; ++k) {
      sums_.push_back(sum += 1.0 / static_cast<double>(k));
    }
  }

  size_t Draw(Random& random) const {
    const double unit = static_cast<double>(random.Next() >> 11) * 0x1p-53;
    const auto it =
        std::upper_bound(sums_.begin(), sums_.end(), unit * sums_.back());
    return std::min(static_cast<size_t>(it - sums_.begin()), sums_.size() - 1);
  }

 private:
  std::vector<double> sums_;
};

// The prefixes that addresses are drawn from.
std::vector<Prefix> Drawn(TraceKind kind, Family family,
                          absl::Span<const Route> routes) {
  if (kind == TraceKind::kUniform) return {Everything(family)};
  std::vector<Prefix> prefixes;
  for (const Route& route : routes) {
    if (route.prefix.family() == family &&
        (kind != TraceKind::kLong || route.prefix.length() > 64)) {
      prefixes.push_back(route.prefix);
    }
  }
  return prefixes;
}

}  // namespace

absl::StatusOr<TraceKind> ParseTraceKind(absl::string_view name) {
  for (const Named& named : kKinds) {
    if (name == named.name) return named.kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no trace \"", name,
                   "\"; there are: match, uniform, zipf, long, repeat"));
}

absl::string_view TraceKindName(TraceKind kind) {
  for (const Named& named : kKinds) {
    if (kind == named.kind) return named.name;
  }
  return "?";
}

absl::Status MakeTraffic(TraceKind kind, Family family,
                         absl::Span<const Route> routes, size_t count,
                         uint64_t seed,
                         absl::FunctionRef<void(const Address&)> take) {
  Random random(seed);
  std::vector<Prefix> from = Drawn(kind, family, routes);
  if (from.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no route to make a trace of kind \"", TraceKindName(kind), "\" of"));
  }
  if (kind == TraceKind::kZipf) {
    random.Shuffle(from);
    const Zipf zipf(from.size());
    for (size_t i = 0; i < count; ++i) {
      take(RandomIn(from[zipf.Draw(random)], random));
    }
    return absl::OkStatus();
  }
  std::vector<Address> hot;
  for (size_t i = 0; i < count; ++i) {
    if (kind == TraceKind::kRepeat && hot.size() == kRepeated) {
      take(hot[i % kRepeated]);
      continue;
    }
    const Address address = RandomIn(from[random.Below(from.size())], random);
    if (kind == TraceKind::kRepeat) hot.push_back(address);
    take(address);
  }
  return absl::OkStatus();
}

}  // namespace planb
