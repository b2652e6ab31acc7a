#include "benchmarks/traces.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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

std::vector<Prefix> Shuffled(std::vector<Prefix> prefixes, Random& random) {
  for (size_t i = prefixes.size(); i > 1; --i) {
    std::swap(prefixes[i - 1], prefixes[random.Below(i)]);
  }
  return prefixes;
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

Trace::Trace(Family family, size_t count)
    : family_(family),
      size_(count),
      width_(static_cast<size_t>(AddressBytes(family))),
      octets_(count * width_) {}

Address Trace::address(size_t i) const {
  return *Address::FromPacked(absl::string_view(at(i), width_));
}

void Trace::Set(size_t i, const Address& address) {
  const std::string packed = address.ToPacked();
  std::memcpy(octets_.data() + i * width_, packed.data(), width_);
}

absl::StatusOr<Trace> MakeTrace(TraceKind kind, Family family,
                                absl::Span<const Route> routes, size_t count,
                                uint64_t seed) {
  Random random(seed);
  std::vector<Prefix> from;
  if (kind == TraceKind::kUniform) {
    from.push_back(Everything(family));
  } else {
    for (const Route& route : routes) {
      if (kind != TraceKind::kLong || route.prefix.length() > 64) {
        from.push_back(route.prefix);
      }
    }
  }
  if (from.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no route to make a trace of kind \"", TraceKindName(kind), "\" of"));
  }
  Trace trace(family, count);
  if (kind == TraceKind::kZipf) {
    from = Shuffled(std::move(from), random);
    const Zipf zipf(from.size());
    for (size_t i = 0; i < count; ++i) {
      trace.Set(i, RandomIn(from[zipf.Draw(random)], random));
    }
    return trace;
  }
  std::vector<Address> hot;
  for (size_t i = 0; i < count; ++i) {
    if (kind == TraceKind::kRepeat && hot.size() == kRepeated) {
      trace.Set(i, hot[i % kRepeated]);
      continue;
    }
    hot.push_back(RandomIn(from[random.Below(from.size())], random));
    trace.Set(i, hot.back());
    if (kind != TraceKind::kRepeat) hot.clear();
  }
  return trace;
}

}  // namespace planb
