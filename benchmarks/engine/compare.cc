// SPDX-License-Identifier: Apache-2.0

// Compares engines: comparison.h says how, ../README.md what it showed.

#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/engine/comparison.h"
#include "benchmarks/engine/machine.h"

ABSL_FLAG(
    std::vector<std::string>, tables,
    std::vector<std::string>({"20000", "100000", "real", "500000", "1000000"}),
    "real, ipv4, a number of made-up IPv6 routes, YEAR:N, ipv4:N, deep:N, "
    "one48:N, hosts64, hosts48, or a route file; with +long5 or +long50 after "
    "it");
ABSL_FLAG(std::vector<std::string>, engines,
          std::vector<std::string>({"planb", "paper", "reference:drop"}),
          "with their options, as ../README.md has them; ratios are to the "
          "first");
ABSL_FLAG(std::vector<std::string>, traces,
          std::vector<std::string>({"match", "uniform", "zipf"}),
          "match, uniform, zipf, long, repeat");
ABSL_FLAG(std::vector<std::string>, batches, std::vector<std::string>({"4096"}),
          "addresses a call");
ABSL_FLAG(int, repeats, 9, "timed segments of each engine");
ABSL_FLAG(
    std::string, next_hops, "as-given",
    "as-given, random:N for one of N drawn for each route, sets:N for all "
    "of N equally often, or wide-sets:N for the largest ids");
ABSL_FLAG(
    std::string, what, "rate",
    "rate: batches; threads: of all cores together; single: one address "
    "a call; memory: of the structure and of a build; updates: changes, "
    "or builds where an engine has none; covers: changes of prefixes that "
    "cover others, by length");
ABSL_FLAG(uint64_t, addresses, 1 << 20,
          "addresses in a trace; 4096 of them stay in the cache");
ABSL_FLAG(double, segment_ms, 10, "least time of a timed segment");
ABSL_FLAG(std::string, csv, "",
          "file to which a line for each figure is added");
ABSL_FLAG(std::string, dump, "",
          "write the first table, trace and right answers to this directory, "
          "and end");
ABSL_FLAG(bool, list_engines, false, "print the kinds of engine, and end");
ABSL_FLAG(int, cpu, -1, "core to stay on; -1 does not care");

namespace planb {
namespace {

absl::StatusOr<ComparisonOptions> OptionsFromFlags() {
  ComparisonOptions options;
  options.tables = absl::GetFlag(FLAGS_tables);
  for (const std::string& name : absl::GetFlag(FLAGS_engines)) {
    const auto engine = MakeEngine(name);
    if (!engine.ok()) return engine.status();
    options.engines.push_back(*engine);
  }
  for (const std::string& name : absl::GetFlag(FLAGS_traces)) {
    const auto kind = ParseTraceKind(name);
    if (!kind.ok()) return kind.status();
    options.traces.push_back(*kind);
  }
  for (const std::string& text : absl::GetFlag(FLAGS_batches)) {
    size_t batch;
    if (!absl::SimpleAtoi(text, &batch) || batch == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no size of a batch: \"", text, "\""));
    }
    options.batches.push_back(batch);
  }
  options.repeats = absl::GetFlag(FLAGS_repeats);
  options.addresses = absl::GetFlag(FLAGS_addresses);
  options.segment_milliseconds = absl::GetFlag(FLAGS_segment_ms);
  options.csv = absl::GetFlag(FLAGS_csv);
  using What = ComparisonOptions::What;
  const std::map<std::string, What> whats = {
      {"rate", What::kRate},       {"threads", What::kThreads},
      {"single", What::kSingle},   {"memory", What::kMemory},
      {"updates", What::kUpdates}, {"covers", What::kCovers}};
  const auto what = whats.find(absl::GetFlag(FLAGS_what));
  if (what == whats.end() || options.addresses == 0) {
    return absl::InvalidArgumentError("--what or --addresses is wrong");
  }
  options.what = what->second;
  options.next_hops = absl::GetFlag(FLAGS_next_hops);
  if (options.engines.empty() || options.repeats < 1) {
    return absl::InvalidArgumentError("nothing to measure");
  }
  return options;
}

int Main() {
  if (absl::GetFlag(FLAGS_list_engines)) {
    for (const std::string& kind : EngineKinds()) std::puts(kind.c_str());
    return 0;
  }
  const auto options = OptionsFromFlags();
  if (!options.ok()) {
    std::fprintf(stderr, "%s\n", options.status().ToString().c_str());
    return 2;
  }
  if (const std::string to = absl::GetFlag(FLAGS_dump); !to.empty()) {
    const absl::Status dumped = Dump(*options, to);
    if (!dumped.ok()) std::fprintf(stderr, "%s\n", dumped.ToString().c_str());
    return dumped.ok() ? 0 : 2;
  }
  if (const absl::Status pinned =
          PinThread(pthread_self(), absl::GetFlag(FLAGS_cpu));
      !pinned.ok()) {
    std::fprintf(stderr, "--cpu: %s\n", pinned.ToString().c_str());
    return 2;
  }
  const absl::Status status = Compare(*options, stdout);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace planb

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Compares lookup engines: first that all answer alike, then how quickly. "
      "Exits with 1 if one answers wrongly, with 2 for bad flags.");
  absl::ParseCommandLine(argc, argv);
  return planb::Main();
}
