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
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lpm/fib/fib.h"
#include "lpm/testing/oracle.h"

namespace planb {

std::string FormName(Form form) {
  return std::string(FamilyName(FamilyOf(form))) +
         (form == Form::kIpv6Upper ? "Upper" : "");
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
  } else {
    fib.Lookup(packed, count, next_hops, kernel);
  }
}

std::vector<NextHopId> RightAnswersAs(Form form, absl::Span<const Route> routes,
                                      absl::Span<const Address> addresses) {
  return form == Form::kIpv6Upper
             ? RightUpperAnswers(routes, addresses)
             : RightAnswers(FamilyOf(form), routes, addresses);
}

namespace {

// So few halves are also looked up one by one, and several times over.
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
    // Where a lookup writes nothing, what stays is a wrong answer.
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
  // Once each half, where neighbours have the same.
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

std::string DifferencesAtBoundaries(const Fib& fib,
                                    absl::Span<const Route> routes) {
  std::vector<Address> probes = BoundaryProbes(routes);
  const Address zero = Address::FromBits(fib.family(), 0);
  probes.insert(probes.end(), {zero, PreviousAddress(zero)});
  const std::vector<NextHopId> expected =
      RightAnswers(fib.family(), routes, probes);
  const std::string differences = UpperDifferences(fib, routes, probes);
  return differences + PackedProbes(fib.family(), std::move(probes))
                           .Differences(fib, expected);
}

std::vector<NextHopId> LookupAll(Form form, const Fib& fib,
                                 absl::Span<const Address> addresses,
                                 const Kernel& kernel) {
  const std::vector<char> packed = PackAs(form, addresses);
  // Filled with what no lookup may leave behind: tests use smaller next hops,
  // or check these values themselves.
  std::vector<uint32_t> answers(addresses.size(), htole32(0xdeadbeef));
  LookupAs(form, fib, packed.data(), addresses.size(), answers.data(), kernel);
  for (uint32_t& answer : answers) answer = le32toh(answer);
  return answers;
}

void ExpectAnswers(const Fib& fib, absl::Span<const Address> addresses,
                   absl::Span<const NextHopId> expected) {
  ASSERT_EQ(addresses.size(), expected.size());
  for (const Kernel* kernel : AvailableKernels()) {
    const std::vector<NextHopId> answers =
        LookupAll(WholeForm(fib.family()), fib, addresses, *kernel);
    if (std::equal(answers.begin(), answers.end(), expected.begin())) continue;
    size_t wrong = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i] == expected[i] || ++wrong > 5) continue;
      ADD_FAILURE() << KernelName(*kernel) << ": " << addresses[i].ToString()
                    << " (number " << i << " of " << answers.size() << ") -> "
                    << answers[i] << ", not " << expected[i];
    }
    ADD_FAILURE() << KernelName(*kernel) << ": " << wrong << " wrong answers";
  }
}

void ExpectLikeOracle(Family family, std::vector<Route> routes,
                      absl::Span<const Address> probes) {
  std::sort(routes.begin(), routes.end());
  const auto fib = Fib::Build(family, routes).value();
  ASSERT_EQ(fib->family(), family);
  std::vector<Address> addresses = BoundaryProbes(routes);
  addresses.insert(addresses.end(), probes.begin(), probes.end());
  const Address zero = Address::FromBits(family, 0);
  addresses.insert(addresses.end(),
                   {zero, NextAddress(zero), PreviousAddress(zero),
                    PreviousAddress(PreviousAddress(zero))});
  EXPECT_EQ(UpperDifferences(*fib, routes, addresses), "");
  const Oracle oracle(std::move(routes));
  std::vector<NextHopId> expected;
  for (const Address& address : addresses) {
    const auto route = oracle.Lookup(address);
    expected.push_back(route ? route->next_hop : kNoRoute);
    EXPECT_EQ(fib->Lookup(address), expected.back()) << address.ToString();
  }
  ExpectAnswers(*fib, addresses, expected);
}

LiveTable::LiveTable(Family family, absl::Span<const Route> routes)
    : routes_(family, routes), compiler_(family) {
  for (const Route& route : routes) model_[route.prefix] = route.next_hop;
  fib_ = compiler_.Compile(routes_).value();
}

std::shared_ptr<const Fib> LiveTable::Apply(
    absl::Span<const Change> changes, absl::Span<const Prefix> also_named) {
  std::vector<Prefix> named;
  named.reserve(changes.size() + also_named.size());
  for (const Change& change : changes) {
    named.push_back(change.prefix);
    if (change.next_hop == kNoRoute) {
      routes_.Withdraw(change.prefix);
      model_.erase(change.prefix);
    } else {
      routes_.Announce(change.prefix, change.next_hop);
      model_[change.prefix] = change.next_hop;
    }
  }
  named.insert(named.end(), also_named.begin(), also_named.end());
  fib_ = compiler_.Update(routes_, named).value();
  return fib_;
}

std::shared_ptr<const Fib> LiveTable::Recompile() {
  fib_ = compiler_.Compile(routes_).value();
  return fib_;
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

// The world's address whose first `taken` varying bits are those of `value`,
// the first one uppermost.
Address AddressOf(const SmallWorld& world, size_t taken, size_t value) {
  absl::uint128 bits = world.base;
  for (size_t i = 0; i < taken; ++i) {
    const absl::uint128 bit = BitAt(world.positions[i]);
    bits = (value >> (taken - 1 - i)) & 1 ? bits | bit : bits & ~bit;
  }
  return Address::FromBits(world.family, bits);
}

std::string BaseText(const SmallWorld& world) {
  return Address::FromBits(world.family, world.base).ToString();
}

}  // namespace

void PrintTo(const SmallWorld& world, std::ostream* out) {
  *out << FamilyName(world.family) << " bits "
       << absl::StrJoin(world.positions, ",") << " on " << BaseText(world);
}

std::string SmallWorldName(const SmallWorld& world) {
  return absl::StrCat(
      "Bits", absl::StrJoin(world.positions, "_"), "On",
      absl::StrReplaceAll(BaseText(world), {{":", "_"}, {".", "_"}}));
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

std::vector<SmallWorld> SmallWorlds(
    Family family, const std::vector<std::vector<int>>& positions,
    const std::vector<std::string>& bases) {
  std::vector<SmallWorld> worlds;
  for (const auto& where : positions) {
    for (const std::string& base : bases) {
      worlds.push_back({family, where, Address::Parse(base).value().bits()});
    }
  }
  return worlds;
}

std::vector<std::vector<int>> PositionsAround(Family family,
                                              const std::vector<int>& edges,
                                              int bits) {
  std::vector<std::vector<int>> all;
  for (const int edge : edges) {
    for (int first = edge - bits; first <= edge; ++first) {
      if (first < 0 || first + bits > AddressBits(family)) continue;
      std::vector<int> positions;
      for (int i = 0; i < bits; ++i) positions.push_back(first + i);
      all.push_back(positions);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

namespace {

// Wide enough for any kernel's widest part and for some of its rest.
constexpr size_t kBatch = 150;

}  // namespace

WorldTable::WorldTable(const SmallWorld& world, std::vector<Route> background)
    : family_(world.family),
      prefixes_(PrefixesOf(world)),
      background_(std::move(background)),
      state_(prefixes_.size(), kNoRoute),
      old_(/*most=*/80, /*seed=*/1) {
  std::erase_if(background_, [this](const Route& route) {
    return std::count(prefixes_.begin(), prefixes_.end(), route.prefix) > 0;
  });
  forms_ = {WholeForm(family_)};
  if (family_ == Family::kIpv6) forms_.push_back(Form::kIpv6Upper);
  for (const Form form : forms_) {
    probes_.push_back(
        std::make_shared<PackedProbes>(form, ProbesOf(world), kBatch));
  }
  Restart();
}

WorldTable::~WorldTable() {
  while (!old_.empty()) EXPECT_EQ(old_.DropOne(), "") << "of an old version";
}

void WorldTable::Restart() {
  std::fill(state_.begin(), state_.end(), kNoRoute);
  table_ = std::make_unique<LiveTable>(family_, background_);
  Check({});
}

void WorldTable::Go(const State& next) {
  std::vector<Change> changes;
  for (size_t i = 0; i < prefixes_.size(); ++i) {
    if (next[i] != state_[i]) changes.push_back({prefixes_[i], next[i]});
  }
  state_ = next;
  table_->Apply(changes);
  Check(changes);
}

void WorldTable::Set(size_t i, NextHopId next_hop) {
  const Change change = {prefixes_[i], next_hop};
  state_[i] = next_hop;
  table_->Apply({&change, 1});
  Check({&change, 1});
}

void WorldTable::Check(absl::Span<const Change> changes) {
  std::vector<Route> routes = background_;
  for (size_t i = 0; i < prefixes_.size(); ++i) {
    if (state_[i] != kNoRoute) routes.push_back({prefixes_[i], state_[i]});
  }
  for (size_t i = 0; i < forms_.size(); ++i) {
    std::vector<NextHopId> expected =
        RightAnswersAs(forms_[i], routes, probes_[i]->addresses());
    ASSERT_EQ(probes_[i]->Differences(*table_->fib(), expected), "")
        << "after " << ChangesText(changes) << "; the routes are "
        << ChangesText(routes);
    ASSERT_EQ(old_.Keep(table_->fib(), probes_[i], std::move(expected)), "")
        << "of an old version";
  }
}

bool NextState(WorldTable::State& state, NextHopId values) {
  for (NextHopId& digit : state) {
    if (++digit < values) return true;
    digit = 0;
  }
  return false;
}

}  // namespace planb
