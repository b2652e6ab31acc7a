#include "lpm/testing/small_world.h"

#include <algorithm>

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

}  // namespace planb
