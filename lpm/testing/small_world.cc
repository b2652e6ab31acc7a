// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/small_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lpm/testing/probes.h"

namespace planb {
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
