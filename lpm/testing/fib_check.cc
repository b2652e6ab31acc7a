// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/fib_check.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/numeric/int128.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lpm/fib/fib.h"
#include "lpm/testing/oracle.h"

namespace planb {

void PrintTo(Family family, std::ostream* out) { *out << FamilyName(family); }

std::string FormName(Form form) {
  return std::string(FamilyName(FamilyOf(form))) +
         (form == Form::kIpv6Upper ? "Upper"
          : HasLengths(form)       ? "Lengths"
                                   : "");
}

void PrintTo(Form form, std::ostream* out) { *out << FormName(form); }

std::vector<char> PackAs(Form form, absl::Span<const Address> addresses) {
  const size_t size = BytesOf(form);
  std::vector<char> packed(addresses.size() * size);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Address& address = addresses[i];
    ABSL_RAW_CHECK(address.family() == FamilyOf(form), "of another family");
    const uint64_t bytes[2] = {htobe64(absl::Uint128High64(address.bits())),
                               htobe64(absl::Uint128Low64(address.bits()))};
    std::memcpy(&packed[i * size], bytes, size);
  }
  return packed;
}

void LookupAs(Form form, const Fib& fib, const void* packed, size_t count,
              void* next_hops, const Kernel& kernel) {
  if (form == Form::kIpv6Upper) {
    fib.LookupUpper(packed, count, next_hops, kernel);
  } else if (HasLengths(form)) {
    // Exactly the bytes that may be written.
    const auto lengths = std::make_unique<uint8_t[]>(count);
    fib.LookupWithLengths(packed, count, next_hops, lengths.get(), kernel);
    auto* const bytes = static_cast<char*>(next_hops);
    for (size_t i = 0; i < count; ++i) {
      uint32_t answer;
      std::memcpy(&answer, bytes + i * sizeof(answer), sizeof(answer));
      answer = htole32(WithLength(le32toh(answer), lengths[i]));
      std::memcpy(bytes + i * sizeof(answer), &answer, sizeof(answer));
    }
  } else {
    fib.Lookup(packed, count, next_hops, kernel);
  }
}

std::vector<NextHopId> RightAnswersAs(Form form, absl::Span<const Route> routes,
                                      absl::Span<const Address> addresses) {
  if (form == Form::kIpv6Upper) return RightUpperAnswers(routes, addresses);
  if (!HasLengths(form)) {
    return RightAnswers(routes, addresses);
  }
  std::vector<Route> answers(routes.begin(), routes.end());
  for (Route& route : answers) {
    route.next_hop = WithLength(route.next_hop, route.prefix.length());
  }
  return RightAnswers(answers, addresses);
}

namespace {

// Up to this many halves are also looked up one by one, and in a batch that
// repeats them.
constexpr size_t kFew = 100;

}  // namespace

PackedProbes::PackedProbes(Form form, std::vector<Address> addresses,
                           size_t at_least)
    : form_(form),
      addresses_(std::move(addresses)),
      count_(addresses_.empty() ? 0 : std::max(at_least, addresses_.size())),
      packed_(count_ * BytesOf(form)) {
  const std::vector<char> once = PackAs(form, addresses_);
  for (size_t at = 0, n = 0; at < packed_.size(); at += n) {
    n = std::min(once.size(), packed_.size() - at);
    std::copy_n(once.begin(), n, packed_.begin() + static_cast<ptrdiff_t>(at));
  }
}

std::string PackedProbes::Differences(const Fib& fib,
                                      absl::Span<const NextHopId> expected,
                                      size_t batch) const {
  ABSL_RAW_CHECK(expected.size() == addresses_.size(), "not as many answers");
  std::string differences;
  std::vector<uint32_t> found(count_);
  for (const Kernel* kernel : AvailableKernels()) {
    // Wrong answers, which show where a lookup writes nothing.
    for (size_t i = 0, n = 0; i < count_; ++i, ++n) {
      if (n == expected.size()) n = 0;
      found[i] = htole32(~expected[n]);
    }
    for (size_t i = 0, n = 0; i < count_; i += n) {
      n = std::min(batch, count_ - i);
      LookupAs(form_, fib, packed_.data() + i * BytesOf(form_), n,
               found.data() + i, *kernel);
    }
    int wrong = 0;
    for (size_t i = 0, n = 0; i < count_; ++i, ++n) {
      if (n == expected.size()) n = 0;
      if (le32toh(found[i]) == expected[n] || ++wrong > 3) continue;
      absl::StrAppend(&differences, KernelName(*kernel), ": ", FormName(form_),
                      " ", addresses_[n].ToString(), " (number ", i, " of ",
                      count_, ") -> ", le32toh(found[i]), ", not ", expected[n],
                      "\n");
    }
    if (wrong > 3) absl::StrAppend(&differences, wrong, " wrong in all\n");
  }
  return differences;
}

std::string UpperDifferences(const Fib& fib, absl::Span<const Route> routes,
                             absl::Span<const Address> addresses) {
  if (fib.family() != Family::kIpv6) return "";
  // Neighbours that share a half count once.
  std::vector<Address> halves;
  for (const Address& address : addresses) {
    if (halves.empty() || absl::Uint128High64(halves.back().bits()) !=
                              absl::Uint128High64(address.bits())) {
      halves.push_back(address);
    }
  }
  const std::vector<NextHopId> expected = RightUpperAnswers(routes, halves);
  const bool few = halves.size() <= kFew;
  const PackedProbes probes(Form::kIpv6Upper, std::move(halves),
                            few ? 3 * kFew / 2 : 0);
  std::string differences = probes.Differences(fib, expected);
  if (few) {
    absl::StrAppend(&differences, probes.Differences(fib, expected, 1));
  }
  return differences;
}

std::string LengthDifferences(const Fib& fib, absl::Span<const Route> routes,
                              absl::Span<const Address> addresses) {
  if (!fib.keeps_prefix_lengths()) return "";
  const Form form = LengthsForm(fib.family());
  const PackedProbes probes(form, {addresses.begin(), addresses.end()});
  return probes.Differences(fib, RightAnswersAs(form, routes, addresses));
}

std::string DifferencesAtBoundaries(const Fib& fib,
                                    absl::Span<const Route> routes) {
  std::vector<Address> probes = BoundaryProbes(routes);
  const Address zero = Address::FromBits(fib.family(), 0);
  probes.insert(probes.end(), {zero, PreviousAddress(zero)});
  const std::vector<NextHopId> expected = RightAnswers(routes, probes);
  const std::string differences = UpperDifferences(fib, routes, probes) +
                                  LengthDifferences(fib, routes, probes);
  return differences + PackedProbes(fib.family(), std::move(probes))
                           .Differences(fib, expected);
}

void ExpectAnswers(const Fib& fib, absl::Span<const Address> addresses,
                   absl::Span<const NextHopId> expected) {
  const PackedProbes probes(fib.family(), {addresses.begin(), addresses.end()});
  EXPECT_EQ(probes.Differences(fib, expected), "");
}

void ExpectLikeOracle(Family family, std::vector<Route> routes,
                      absl::Span<const Address> probes) {
  std::sort(routes.begin(), routes.end());
  std::vector<Address> addresses = BoundaryProbes(routes);
  addresses.insert(addresses.end(), probes.begin(), probes.end());
  const Address zero = Address::FromBits(family, 0);
  addresses.insert(addresses.end(),
                   {zero, NextAddress(zero), PreviousAddress(zero),
                    PreviousAddress(PreviousAddress(zero))});
  const std::vector<NextHopId> expected = AnswersByOracle(routes, addresses);
  for (const bool lengths : {false, true}) {
    const auto fib =
        Fib::Build(family, routes, {.prefix_lengths = lengths}).value();
    ASSERT_EQ(fib->family(), family);
    ASSERT_EQ(fib->keeps_prefix_lengths(), lengths);
    EXPECT_EQ(UpperDifferences(*fib, routes, addresses), "");
    EXPECT_EQ(LengthDifferences(*fib, routes, addresses), "");
    for (size_t i = 0; i < addresses.size(); ++i) {
      EXPECT_EQ(fib->Lookup(addresses[i]), expected[i])
          << addresses[i].ToString();
    }
    ExpectAnswers(*fib, addresses, expected);
  }
}

LiveTable::LiveTable(Family family, absl::Span<const Route> routes,
                     const FibOptions& options, const FibPacking& packing)
    : routes_(family, routes),
      compiler_(FibLimitsPeer::Compiler(family, packing, options)) {
  for (const Route& route : routes) model_[route.prefix] = route.next_hop;
  fib_ = compiler_->Compile(routes_).value();
}

std::vector<Prefix> MakeChanges(absl::Span<const Change> changes,
                                RouteSet& routes) {
  std::vector<Prefix> changed;
  changed.reserve(changes.size());
  for (const Change& change : changes) {
    changed.push_back(change.prefix);
    if (change.next_hop == kNoRoute) {
      routes.Withdraw(change.prefix);
    } else {
      routes.Announce(change.prefix, change.next_hop);
    }
  }
  return changed;
}

std::shared_ptr<const Fib> LiveTable::Apply(
    absl::Span<const Change> changes, absl::Span<const Prefix> also_named) {
  std::vector<Prefix> named = MakeChanges(changes, routes_);
  for (const Change& change : changes) {
    if (change.next_hop == kNoRoute) {
      model_.erase(change.prefix);
    } else {
      model_[change.prefix] = change.next_hop;
    }
  }
  named.insert(named.end(), also_named.begin(), also_named.end());
  fib_ = compiler_->Update(routes_, named).value();
  return fib_;
}

std::shared_ptr<const Fib> LiveTable::Recompile() {
  fib_ = compiler_->Compile(routes_).value();
  return fib_;
}

std::string LiveTable::DifferencesAround(
    absl::Span<const Change> changes) const {
  const PackedProbes probes(fib_->family(), BoundaryProbes(changes));
  std::vector<NextHopId> expected;
  for (const Address& probe : probes.addresses()) {
    const auto match = routes_.Match(probe);
    expected.push_back(match ? match->next_hop : kNoRoute);
  }
  return probes.Differences(*fib_, expected);
}

std::string LiveTable::Check(std::vector<Address> addresses,
                             OldVersions& old) const {
  const Family family = fib_->family();
  const std::vector<Route> routes = ModelRoutes();
  const auto probes =
      std::make_shared<const PackedProbes>(family, std::move(addresses));
  std::vector<NextHopId> expected = RightAnswers(routes, probes->addresses());
  std::string differences =
      probes->Differences(*fib_, expected) +
      UpperDifferences(*fib_, routes, probes->addresses()) +
      LengthDifferences(*fib_, routes, probes->addresses());
  const std::string of_old = old.Keep(fib_, probes, std::move(expected));
  if (!of_old.empty()) absl::StrAppend(&differences, "an old FIB:\n", of_old);
  return differences;
}

std::vector<Route> LiveTable::ModelRoutes() const {
  std::vector<Route> routes;
  routes.reserve(model_.size());
  for (const auto& [prefix, next_hop] : model_) {
    routes.push_back({prefix, next_hop});
  }
  return routes;
}

namespace {

constexpr absl::uint128 BitAt(int position) {
  return absl::uint128(1) << (127 - position);
}

// The world's address with those of `value` as first `taken` varying bits, the
// first one uppermost.
Address AddressOf(const SmallWorld& world, size_t taken, size_t value) {
  absl::uint128 bits = world.base;
  for (size_t i = 0; i < taken; ++i) {
    const absl::uint128 bit = BitAt(world.positions[i]);
    bits = (value >> (taken - 1 - i)) & 1 ? bits | bit : bits & ~bit;
  }
  return Address::FromBits(world.family, bits);
}

}  // namespace

void PrintTo(const SmallWorld& world, std::ostream* out) {
  *out << FamilyName(world.family) << "Bits"
       << absl::StrJoin(world.positions, "_") << "On"
       << absl::StrReplaceAll(
              Address::FromBits(world.family, world.base).ToString(),
              {{":", "_"}, {".", "_"}})
       << (world.options.prefix_lengths ? "Lengths" : "");
}

std::vector<Prefix> PrefixesOf(const SmallWorld& world) {
  std::vector<Prefix> prefixes;
  for (size_t taken = 0; taken <= world.positions.size(); ++taken) {
    const int length =
        taken == 0 ? world.positions[0] : world.positions[taken - 1] + 1;
    for (size_t value = 0; value < size_t{1} << taken; ++value) {
      prefixes.push_back(
          Prefix::Truncate(AddressOf(world, taken, value), length));
    }
  }
  return prefixes;
}

std::vector<Address> ProbesOf(const SmallWorld& world) {
  std::vector<Route> routes;
  for (const Prefix& prefix : PrefixesOf(world)) routes.push_back({prefix});
  std::vector<Address> probes = BoundaryProbes(routes);
  const size_t bits = world.positions.size();
  for (size_t value = 0; value < size_t{1} << bits; ++value) {
    probes.push_back(AddressOf(world, bits, value));
  }
  const Address zero = Address::FromBits(world.family, 0);
  probes.insert(probes.end(), {zero, PreviousAddress(zero)});
  std::sort(probes.begin(), probes.end());
  probes.erase(std::unique(probes.begin(), probes.end()), probes.end());
  return probes;
}

std::vector<std::vector<int>> Positions(absl::string_view text) {
  std::vector<std::vector<int>> all;
  for (const absl::string_view set : absl::StrSplit(text, ' ')) {
    std::vector<int>& positions = all.emplace_back();
    for (const absl::string_view number : absl::StrSplit(set, ',')) {
      ABSL_RAW_CHECK(absl::SimpleAtoi(number, &positions.emplace_back()),
                     "no position");
    }
  }
  return all;
}

std::vector<SmallWorld> SmallWorlds(
    Family family, const std::vector<std::vector<int>>& positions,
    const std::vector<std::string>& bases, const FibOptions& options) {
  std::vector<SmallWorld> worlds;
  for (const auto& where : positions) {
    for (const std::string& base : bases) {
      worlds.push_back(
          {family, where, Address::Parse(base).value().bits(), options});
    }
  }
  return worlds;
}

}  // namespace planb
