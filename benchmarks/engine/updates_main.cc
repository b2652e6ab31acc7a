// SPDX-License-Identifier: Apache-2.0

// Measures FibCompiler: what a change of the table costs the thread that makes
// it, and the thread that looks up meanwhile.
//
//   bazel run --config=opt //benchmarks/engine:updates -- --table=real
//
// ../README.md has the parts (--parts), updates.h what exactly is timed. After
// each, the FIB's answers at every boundary are compared with the tests'
// reference; a wrong one makes the exit code 1.

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "benchmarks/engine/updates.h"

ABSL_FLAG(
    std::string, table, "real",
    "name of a table as in benchmarks/engine/inputs.h: real, ipv4, a number of "
    "made-up routes, ...");
ABSL_FLAG(std::vector<std::string>, compile_tables,
          std::vector<std::string>({"20000", "100000", "real", "500000",
                                    "1000000", "ipv4"}),
          "the tables of part compile; those whose file is missing are left "
          "out");
ABSL_FLAG(std::vector<std::string>, parts,
          std::vector<std::string>({"compile", "changes", "batches", "short",
                                    "beside"}),
          "what to measure");
ABSL_FLAG(std::string, next_hops, "as-given",
          "as-given, or random:N for one of N drawn for each route");
ABSL_FLAG(int, compile_repeats, 9, "warm compilations timed");
ABSL_FLAG(uint32_t, changes, 100'000, "changes of one route timed");
ABSL_FLAG(uint32_t, warm_up, 1000, "changes before those");
ABSL_FLAG(uint32_t, batches, 200, "batches of each size timed");
ABSL_FLAG(std::vector<std::string>, batch_sizes,
          std::vector<std::string>({"10", "100", "1000", "10000"}),
          "changes in a batch");
ABSL_FLAG(uint32_t, rounds, 20, "rounds of changes to each short prefix");
ABSL_FLAG(uint32_t, slowest, 3, "slow changes listed for each case");
ABSL_FLAG(std::string, kernel, "auto", "the reader's: avx512, avx2, scalar");
ABSL_FLAG(int, reader_cpu, 1, "core of the lookups; -1 does not care");
ABSL_FLAG(int, writer_cpu, 0, "core of everything else; -1 does not care");
ABSL_FLAG(int, repeats, 7, "segments of each load beside lookups");
ABSL_FLAG(double, segment_ms, 200, "length of such a segment");

namespace planb {
namespace {

absl::StatusOr<Table> Load(const std::string& name) {
  auto table = MakeTable(name);
  if (!table.ok()) return table.status();
  const absl::Status assigned =
      AssignNextHops(absl::GetFlag(FLAGS_next_hops), table->routes);
  if (!assigned.ok()) return assigned;
  return table;
}

absl::Status CompileTables(UpdateReport& report) {
  CompileTimesHead(report);
  for (const std::string& name : absl::GetFlag(FLAGS_compile_tables)) {
    const auto table = Load(name);
    if (absl::IsNotFound(table.status())) {
      report.Print("%-12s left out: %s", name.c_str(),
                   std::string(table.status().message()).c_str());
      continue;
    }
    if (!table.ok()) return table.status();
    MeasureCompile(*table, absl::GetFlag(FLAGS_compile_repeats), report);
  }
  return absl::OkStatus();
}

absl::StatusOr<ChangeOptions> ChangeOptionsFromFlags() {
  ChangeOptions options = {.warm_up = absl::GetFlag(FLAGS_warm_up),
                           .changes = absl::GetFlag(FLAGS_changes),
                           .batch_sizes = {},
                           .batches = absl::GetFlag(FLAGS_batches),
                           .rounds = absl::GetFlag(FLAGS_rounds),
                           .slowest = absl::GetFlag(FLAGS_slowest)};
  for (const std::string& text : absl::GetFlag(FLAGS_batch_sizes)) {
    size_t size;
    if (!absl::SimpleAtoi(text, &size) || size == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no size of a batch: \"", text, "\""));
    }
    options.batch_sizes.push_back(size);
  }
  return options;
}

absl::StatusOr<BesideOptions> BesideOptionsFromFlags() {
  const auto kernel = SelectKernel(absl::GetFlag(FLAGS_kernel));
  if (!kernel.ok()) return kernel.status();
  const BesideOptions options = {
      .kernel = *kernel,
      .reader_cpu = absl::GetFlag(FLAGS_reader_cpu),
      .writer_cpu = absl::GetFlag(FLAGS_writer_cpu),
      .repeats = absl::GetFlag(FLAGS_repeats),
      .segment_milliseconds = absl::GetFlag(FLAGS_segment_ms)};
  if (options.reader_cpu >= 0 && options.reader_cpu == options.writer_cpu) {
    return absl::InvalidArgumentError(
        "--reader_cpu and --writer_cpu must differ");
  }
  if (options.repeats < 1 || options.segment_milliseconds <= 0) {
    return absl::InvalidArgumentError(
        "--repeats and --segment_ms must be more than 0");
  }
  return options;
}

absl::Status Measure(UpdateReport& report) {
  const auto changes = ChangeOptionsFromFlags();
  if (!changes.ok()) return changes.status();
  const auto beside = BesideOptionsFromFlags();
  if (!beside.ok()) return beside.status();
  std::set<std::string> parts;
  for (const std::string& part : absl::GetFlag(FLAGS_parts)) {
    if (part != "compile" && part != "changes" && part != "batches" &&
        part != "short" && part != "beside") {
      return absl::InvalidArgumentError(
          absl::StrCat("no part \"", part,
                       "\"; there are: compile, changes, batches, short, "
                       "beside"));
    }
    parts.insert(part);
  }
  const absl::Status pinned = PinThread(pthread_self(), beside->writer_cpu);
  if (!pinned.ok()) return pinned;
  if (parts.erase("compile") > 0) {
    const absl::Status status = CompileTables(report);
    if (!status.ok()) return status;
  }
  if (parts.empty()) return absl::OkStatus();
  const auto table = Load(absl::GetFlag(FLAGS_table));
  if (!table.ok()) return table.status();
  if (parts.count("changes")) MeasureOneRouteChanges(*table, *changes, report);
  if (parts.count("batches")) MeasureBatches(*table, *changes, report);
  if (parts.count("short")) MeasureShortPrefixes(*table, *changes, report);
  if (!parts.count("beside")) return absl::OkStatus();
  return MeasureLookupsBeside(*table, *beside, report);
}

int Main() {
  UpdateReport report(stdout);
  const absl::Status status = Measure(report);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 2;
  }
  return report.all_right() ? 0 : 1;
}

}  // namespace
}  // namespace planb

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures updates of a table. Exits with 1 if an answer is wrong "
      "afterwards, with 2 for bad flags or a table it cannot read.");
  absl::ParseCommandLine(argc, argv);
  return planb::Main();
}
