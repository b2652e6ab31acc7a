// SPDX-License-Identifier: Apache-2.0

// Asks a FIB in every form of address through every kernel of this machine, and
// compares the answers with the right ones.

#ifndef PLANB_LPM_TESTING_FIB_CHECK_H_
#define PLANB_LPM_TESTING_FIB_CHECK_H_

#include <cstddef>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/fib/table_packer.h"
#include "lpm/kernels/kernel.h"
#include "lpm/kernels/layout.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {

// True in builds with a sanitizer, which take ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

void PrintTo(Family family, std::ostream* out);

// The forms in which addresses are looked up: whole ones of both families, and
// upper halves; and whole ones with the lengths of their prefixes. For tests
// that hold for all of them.
enum class Form { kIpv4, kIpv6, kIpv6Upper, kIpv4Lengths, kIpv6Lengths };

// The form of whole addresses.
constexpr Form WholeForm(Family family) {
  return family == Family::kIpv4 ? Form::kIpv4 : Form::kIpv6;
}
constexpr Form LengthsForm(Family family) {
  return family == Family::kIpv4 ? Form::kIpv4Lengths : Form::kIpv6Lengths;
}
constexpr bool HasLengths(Form form) {
  return form == Form::kIpv4Lengths || form == Form::kIpv6Lengths;
}
constexpr Family FamilyOf(Form form) {
  return form == Form::kIpv4 || form == Form::kIpv4Lengths ? Family::kIpv4
                                                           : Family::kIpv6;
}
// Bytes of one address.
constexpr size_t BytesOf(Form form) {
  return form == Form::kIpv6Upper          ? 8
         : FamilyOf(form) == Family::kIpv4 ? 4
                                           : 16;
}
// The options of a FIB that can be asked in that form.
constexpr FibOptions OptionsOf(Form form) {
  return {.prefix_lengths = HasLengths(form)};
}

// "IPv4", "IPv6", "IPv6Upper", "IPv4Lengths" or "IPv6Lengths".
std::string FormName(Form form);
void PrintTo(Form form, std::ostream* out);

// Packs addresses in network byte order, one after the other.
// REQUIRES: addresses of FamilyOf(form).
std::vector<char> PackAs(Form form, absl::Span<const Address> addresses);

// A next hop and a prefix length as one answer, for the forms that have both.
// That of no route is kNoRoute.
constexpr NextHopId WithLength(NextHopId next_hop, int length) {
  return next_hop +
         0x9e37'79b9u * static_cast<uint32_t>(kNoPrefixLength - length);
}

// Calls Fib::Lookup, LookupUpper, or LookupWithLengths. WithLength makes one of
// the last one's two answers.
void LookupAs(Form form, const Fib& fib, const void* packed, size_t count,
              void* next_hops, const Kernel& kernel);

// Returns RightAnswers or RightUpperAnswers, in the form in which LookupAs has
// them.
std::vector<NextHopId> RightAnswersAs(Form form, absl::Span<const Route> routes,
                                      absl::Span<const Address> addresses);

// Addresses packed once and looked up often, by every kernel.
// Thread-safe: const after construction.
class PackedProbes {
 public:
  // The addresses are repeated, in turn, until there are `at_least`: batches
  // shorter than a kernel's width never see its widest part.
  PackedProbes(Form form, std::vector<Address> addresses, size_t at_least = 0);
  PackedProbes(Family family, std::vector<Address> addresses,
               size_t at_least = 0)
      : PackedProbes(WholeForm(family), std::move(addresses), at_least) {}

  const std::vector<Address>& addresses() const { return addresses_; }

  // Looks up `batch` at a time. Returns "" if every kernel finds `expected`
  // (one for each of addresses()), else a line for each of the first wrong
  // answers.
  std::string Differences(const Fib& fib, absl::Span<const NextHopId> expected,
                          size_t batch = ~size_t{0}) const;

 private:
  const Form form_;
  std::vector<Address> addresses_;
  size_t count_;
  // Exactly the bytes that lookups may read.
  std::vector<char> packed_;
};

// Checks the answers of `fib`, compiled from `routes`, to the upper halves of
// `addresses`, if it is IPv6. "" or the differences.
std::string UpperDifferences(const Fib& fib, absl::Span<const Route> routes,
                             absl::Span<const Address> addresses);

// Checks the prefix lengths that `fib`, compiled from `routes`, has for
// `addresses`, and the next hops with them, if it keeps lengths. "" or the
// differences.
std::string LengthDifferences(const Fib& fib, absl::Span<const Route> routes,
                              absl::Span<const Address> addresses);

// Checks `fib`, compiled from `routes`, against the reference: at every
// boundary of every route, on both sides, and at the ends of the address space,
// for whole addresses and upper halves, and for lengths if it keeps them.
// Returns "" or the differences. O(routes * lengths in use).
std::string DifferencesAtBoundaries(const Fib& fib,
                                    absl::Span<const Route> routes);

// FIBs of the past, kept alive beside what each answered when it was new. Holds
// up to `most` versions. Thread-compatible.
class OldVersions {
 public:
  OldVersions(size_t most, uint64_t seed) : most_(most), random_(seed) {}

  // Keeps `fib`. With more than `most` versions, checks and frees another one,
  // drawn at random: versions die in random order. "" or the differences.
  std::string Keep(std::shared_ptr<const Fib> fib,
                   std::shared_ptr<const PackedProbes> probes,
                   std::vector<NextHopId> expected) {
    std::string differences;
    if (kept_.size() == most_) differences = DropOne();
    kept_.push_back({std::move(fib), std::move(probes), std::move(expected)});
    return differences;
  }

  // Checks and frees one version drawn at random. REQUIRES: !empty().
  std::string DropOne() {
    std::swap(kept_[random_.Below(kept_.size())], kept_.back());
    const Version version = std::move(kept_.back());
    kept_.pop_back();
    return version.probes->Differences(*version.fib, version.expected);
  }

  bool empty() const { return kept_.empty(); }

 private:
  struct Version {
    std::shared_ptr<const Fib> fib;
    std::shared_ptr<const PackedProbes> probes;
    std::vector<NextHopId> expected;
  };

  const size_t most_;
  Random random_;
  std::vector<Version> kept_;
};

// Makes what the product makes with the limits of the format, with others.
class FibLimitsPeer {
 public:
  using Made = absl::StatusOr<std::unique_ptr<const Fib>>;

  static Made Build(Family family, absl::Span<const Route> routes,
                    const FibLimits& limits) {
    return Build(family, routes, FibOptions(), limits);
  }
  static Made Build(Family family, absl::Span<const Route> routes,
                    const FibOptions& options, const FibLimits& limits) {
    return Fib::Build(family, routes, options, limits);
  }
  static std::unique_ptr<FibCompiler> Compiler(Family family,
                                               const FibLimits& limits,
                                               const FibOptions& options = {},
                                               const FibPacking& packing = {}) {
    return std::unique_ptr<FibCompiler>(
        new FibCompiler(family, options, limits, packing));
  }
  static std::unique_ptr<FibCompiler> Compiler(Family family,
                                               const FibPacking& packing,
                                               const FibOptions& options = {}) {
    return Compiler(family, FibLimits(), options, packing);
  }
};

// An update packs at least `routes` of any larger table, again and again.
inline FibPacking AlwaysPacking(size_t routes) {
  return {.routes = routes, .always = true};
}

// Makes the changes, one after the other, and returns their prefixes.
std::vector<Prefix> MakeChanges(absl::Span<const Change> changes,
                                RouteSet& routes);

// The routes of a table, the compiler that follows them, and a plain copy of
// the routes to judge both by. Thread-compatible.
class LiveTable {
 public:
  explicit LiveTable(Family family, absl::Span<const Route> routes = {},
                     const FibOptions& options = {},
                     const FibPacking& packing = {});

  // Makes the changes, one after the other, and compiles the next version,
  // naming to the compiler each change's prefix and those of `also_named`.
  std::shared_ptr<const Fib> Apply(absl::Span<const Change> changes,
                                   absl::Span<const Prefix> also_named = {});

  // Compiles the routes from scratch by the same compiler.
  std::shared_ptr<const Fib> Recompile();

  // The version last compiled; never null.
  const std::shared_ptr<const Fib>& fib() const { return fib_; }
  const RouteSet& routes() const { return routes_; }

  // What the compiler did.
  const FibCompiler& compiler() const { return *compiler_; }

  // Checks the last version at the boundaries of `changes`, against Match of
  // the routes. "" or the differences.
  std::string DifferencesAround(absl::Span<const Change> changes) const;

  // Checks the last version at `addresses` and at their upper halves, and their
  // lengths if it keeps these, against the model, and keeps it in `old`. "" or
  // the differences.
  std::string Check(std::vector<Address> addresses, OldVersions& old) const;

  // The plain copy, ascending.
  const std::map<Prefix, NextHopId>& model() const { return model_; }
  std::vector<Route> ModelRoutes() const;

 private:
  RouteSet routes_;
  const std::unique_ptr<FibCompiler> compiler_;
  std::shared_ptr<const Fib> fib_;
  std::map<Prefix, NextHopId> model_;
};

// Expects those answers from every kernel. Reports the first few that differ.
void ExpectAnswers(const Fib& fib, absl::Span<const Address> addresses,
                   absl::Span<const NextHopId> expected);

// Builds `routes` (any order, one family) and expects the oracle's answers
// from every kernel and from the single lookup: for the boundaries of every
// route, the ends of the address space, and `probes`. Upper halves too. Once
// without prefix lengths, and once with them.
void ExpectLikeOracle(Family family, std::vector<Route> routes,
                      absl::Span<const Address> probes = {});

// A small world, for exhaustive tests: only a few bits of the address vary, and
// the others are those of a fixed base.
//
// A world's prefixes are those that end before, between and after the varying
// bits: 2^(k+1)-1 for k bits. Where the bits lie says which parts of a search
// structure have to tell the prefixes apart.
struct SmallWorld {
  Family family = Family::kIpv6;
  // Ascending, counted from the left.
  std::vector<int> positions;
  // The bits that do not vary, left-aligned. Those at `positions` are ignored.
  absl::uint128 base = 0;
  // The options of its FIBs.
  FibOptions options = {};
};

// Returns a name of a test: letters, digits and underscores.
void PrintTo(const SmallWorld& world, std::ostream* out);

// Returns every prefix of the world: the shortest first, those of one length
// ascending.
std::vector<Prefix> PrefixesOf(const SmallWorld& world);

// Returns the addresses that distinguish any two tables of the world: each
// prefix's ends and their neighbours outside, each address of the world, and
// the ends of the address space. They are ascending and distinct.
std::vector<Address> ProbesOf(const SmallWorld& world);

// "0,1 63,64,65" as {{0, 1}, {63, 64, 65}}.
std::vector<std::vector<int>> Positions(absl::string_view text);

// Makes a world of each set of positions on each base (addresses as text).
std::vector<SmallWorld> SmallWorlds(
    Family family, const std::vector<std::vector<int>>& positions,
    const std::vector<std::string>& bases, const FibOptions& options = {});

}  // namespace planb

#endif  // PLANB_LPM_TESTING_FIB_CHECK_H_
