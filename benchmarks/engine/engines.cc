// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "benchmarks/engine/comparison.h"
#include "benchmarks/rivals/rivals.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"

namespace planb {
namespace {

using Options = std::vector<std::string>;
using Built = absl::StatusOr<std::unique_ptr<const Baseline>>;

absl::Status NoOption(absl::string_view option) {
  return absl::InvalidArgumentError(
      absl::StrCat("no option \"", option, "\" of this engine here"));
}

// Notes an option. False if there is none of that name for what is chosen.
bool Take(const std::string& option, Turns& turns) {
  turns = Turns::kSingle;
  return option == "single";
}
bool Take(const std::string& option, RivalKernel& kernel) {
  kernel = RivalKernel::kScalar;
  return option == "scalar";
}
bool Take(const std::string&, paper::Boundaries&) { return false; }
bool Take(const std::string& option, CpTrieOptions& chosen) {
  if (option == "compressed") return chosen.compress = true;
  return Take(option, chosen.turns);
}
bool Take(const std::string& option, RangeTreeOptions& chosen) {
  if (option == "implicit") return chosen.implicit = true;
  return Take(option, chosen.turns);
}
bool Take(const std::string& option, AdaptiveTrieOptions& chosen) {
  return Take(option, chosen.turns);
}
bool Take(const std::string& option, BloomOptions& chosen) {
  return Take(option, chosen.kernel);
}
bool Take(const std::string& option, LearnedOptions& chosen) {
  return Take(option, chosen.kernel);
}
bool Take(const std::string& option, paper::PaperOptions& chosen) {
  if (option == "merged") {
    chosen.boundaries = paper::Boundaries::kMerged;
  } else if (option == "distinct") {
    chosen.boundaries = paper::Boundaries::kDistinct;
  } else {
    chosen.kernel = option;
  }
  return true;
}

// Makes an engine of a build that takes what the options choose.
template <typename Chosen>
absl::StatusOr<Engine> Make(Built (*build)(Family, absl::Span<const Route>,
                                           Chosen),
                            const Options& options) {
  std::decay_t<Chosen> chosen = {};
  for (const std::string& option : options) {
    if (!Take(option, chosen)) return NoOption(option);
  }
  Engine engine;
  engine.build = [build, chosen](Family family,
                                 absl::Span<const Route> routes) {
    return build(family, routes, chosen);
  };
  return engine;
}
template <auto kBuild>
absl::StatusOr<Engine> MakeOf(const Options& options) {
  return Make(kBuild, options);
}

// The engine under lpm/ behind the common interface. With prefix lengths where
// the FIB keeps them. Thread-compatible.
class PlanB : public Baseline {
 public:
  PlanB(std::unique_ptr<const Fib> fib, const Kernel& kernel)
      : fib_(std::move(fib)), kernel_(kernel) {}

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    if (!fib_->keeps_prefix_lengths()) {
      return fib_->Lookup(addresses, count, next_hops, kernel_);
    }
    if (lengths_.size() < count) lengths_.resize(count);
    fib_->LookupWithLengths(addresses, count, next_hops, lengths_.data(),
                            kernel_);
  }
  size_t bytes() const override { return fib_->bytes(); }

 private:
  const std::unique_ptr<const Fib> fib_;
  const Kernel& kernel_;
  mutable std::vector<uint8_t> lengths_;
};

// The same with updates.
class ChangingPlanB final : public UpdatableBaseline {
 public:
  ChangingPlanB(Family family, absl::Span<const Route> routes,
                const FibOptions& options, const Kernel& kernel)
      : routes_(family, routes), compiler_(family, options), kernel_(kernel) {
    fib_ = compiler_.Compile(routes_).value();
  }

  void Lookup(const void* addresses, size_t count,
              void* next_hops) const override {
    fib_->Lookup(addresses, count, next_hops, kernel_);
  }
  size_t bytes() const override { return fib_->bytes(); }
  absl::Status Update(absl::Span<const Route> changes) override {
    prefixes_.clear();
    packed_.clear();
    for (const Route& change : changes) packed_.emplace_back(change.prefix);
    if (changes.size() > 1) routes_.Prefetch(packed_);
    for (const Route& change : changes) {
      prefixes_.push_back(change.prefix);
      routes_.Exchange(change.prefix, change.next_hop);
    }
    auto fib = compiler_.Update(routes_, prefixes_);
    if (!fib.ok()) return fib.status();
    fib_ = *std::move(fib);
    return absl::OkStatus();
  }

 private:
  RouteSet routes_;
  FibCompiler compiler_;
  const Kernel& kernel_;
  std::unique_ptr<const Fib> fib_;
  std::vector<Prefix> prefixes_;
  std::vector<PackedPrefix> packed_;
};

absl::StatusOr<Engine> MakePlanB(const Options& options) {
  FibOptions fib_options;
  std::string name = "auto";
  for (const std::string& option : options) {
    if (option == "lengths") {
      fib_options.prefix_lengths = true;
    } else if (name != "auto") {
      return NoOption(option);
    } else {
      name = option;
    }
  }
  const auto kernel = SelectKernel(name);
  if (!kernel.ok()) return kernel.status();
  Engine engine;
  engine.build = [kernel = *kernel, fib_options](
                     Family family, absl::Span<const Route> routes) -> Built {
    return std::make_unique<PlanB>(
        Fib::Build(family, routes, fib_options).value(), *kernel);
  };
  engine.updatable = [kernel = *kernel, fib_options](
                         Family family, absl::Span<const Route> routes) {
    return std::make_unique<ChangingPlanB>(family, routes, fib_options,
                                           *kernel);
  };
  return engine;
}

absl::StatusOr<Engine> MakePaper(const Options& options) {
  const auto engine = Make(paper::BuildPaper, options);
  // Building nothing finds out whether the kernel is right.
  const absl::Status status = engine->build(Family::kIpv6, {}).status();
  if (!status.ok()) return status;
  return engine;
}

absl::StatusOr<Engine> MakeSail(const Options& options) {
  if (!options.empty()) return NoOption(options[0]);
  Engine engine;
  engine.build = BuildSail;
  return engine;
}

absl::StatusOr<Engine> MakeReference(const Options& options) {
  Options others;
  bool drop = false;
  for (const std::string& option : options) {
    drop = drop || option == "drop";
    if (option != "drop") others.push_back(option);
  }
  auto engine = MakeRival(BuildReference, others);
  if (engine.ok() && drop) engine->max_length = 64;
  return engine;
}

std::map<std::string, EngineFactory>& Factories() {
  static auto* const factories = new std::map<std::string, EngineFactory>{
      {"planb", MakePlanB},
      {"paper", MakePaper},
      {"upper", MakeOf<paper::BuildUpperBound>},
      {"patricia", MakeOf<BuildPatricia>},
      {"poptrie", MakeOf<BuildPoptrie>},
      {"hbs", MakeOf<BuildHbs>},
      {"cp-trie", MakeOf<BuildCpTrie>},
      {"sail", MakeSail},
      {"reference", MakeReference},
      {"dir24", MakeOf<BuildDir24>},
      {"rangetree", MakeOf<BuildRangeTree>},
      {"bloom", MakeOf<BuildBloom>},
      {"learned", MakeOf<BuildLearned>},
      {"miht", MakeOf<BuildMiht>},
      {"neurotrie", MakeOf<BuildAdaptiveTrie>},
  };
  return *factories;
}

}  // namespace

absl::StatusOr<Engine> MakeRival(RivalBuilder build, const Options& options) {
  return Make(build, options);
}

absl::StatusOr<Engine> MakeEngine(absl::string_view name) {
  Options parts = absl::StrSplit(name, ':');
  const auto factory = Factories().find(parts.front());
  if (factory == Factories().end()) {
    std::string kinds;
    for (const auto& [kind, unused] : Factories()) {
      absl::StrAppend(&kinds, kinds.empty() ? "" : ", ", kind);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("no engine \"", parts.front(),
                     "\"; in this binary there are: ", kinds));
  }
  parts.erase(parts.begin());
  auto engine = factory->second(parts);
  if (!engine.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine \"", name, "\": ", engine.status().message()));
  }
  engine->name = std::string(name);
  return engine;
}

std::vector<std::string> EngineKinds() {
  std::vector<std::string> kinds;
  for (const auto& [kind, unused] : Factories()) kinds.push_back(kind);
  return kinds;
}

bool RegisterEngine(const char* kind, EngineFactory factory) {
  return Factories().emplace(kind, factory).second;
}

}  // namespace planb
