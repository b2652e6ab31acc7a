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
ABSL_FLAG(uint32_t, changes, 100'000, "changes of one route timed");
ABSL_FLAG(uint32_t, batches, 200, "batches of each size timed");
ABSL_FLAG(int, reader_cpu, 1, "core of the lookups; -1 does not care");
ABSL_FLAG(int, writer_cpu, 0, "core of everything else; -1 does not care");
ABSL_FLAG(int, repeats, 7, "segments of each load beside lookups");

namespace planb {
namespace {

constexpr int kCompilations = 9;  // warm ones of each table

absl::Status CompileTables(UpdateReport& report) {
  CompileTimesHead(report);
  for (const std::string& name : absl::GetFlag(FLAGS_compile_tables)) {
    const auto table = MakeTable(name);
    if (absl::IsNotFound(table.status())) {
      report.Print("%-12s left out: %s", name.c_str(),
                   std::string(table.status().message()).c_str());
      continue;
    }
    if (!table.ok()) return table.status();
    MeasureCompile(*table, kCompilations, report);
  }
  return absl::OkStatus();
}

absl::Status Measure(UpdateReport& report) {
  const ChangeOptions changes = {.changes = absl::GetFlag(FLAGS_changes),
                                 .batches = absl::GetFlag(FLAGS_batches)};
  const BesideOptions beside = {.reader_cpu = absl::GetFlag(FLAGS_reader_cpu),
                                .writer_cpu = absl::GetFlag(FLAGS_writer_cpu),
                                .repeats = absl::GetFlag(FLAGS_repeats)};
  if (beside.reader_cpu >= 0 && beside.reader_cpu == beside.writer_cpu) {
    return absl::InvalidArgumentError(
        "--reader_cpu and --writer_cpu must differ");
  }
  if (beside.repeats < 1) {
    return absl::InvalidArgumentError("--repeats must be more than 0");
  }
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
  const absl::Status pinned = PinThread(pthread_self(), beside.writer_cpu);
  if (!pinned.ok()) return pinned;
  if (parts.erase("compile") > 0) {
    const absl::Status status = CompileTables(report);
    if (!status.ok()) return status;
  }
  if (parts.empty()) return absl::OkStatus();
  const auto table = MakeTable(absl::GetFlag(FLAGS_table));
  if (!table.ok()) return table.status();
  if (parts.count("changes")) MeasureOneRouteChanges(*table, changes, report);
  if (parts.count("batches")) MeasureBatches(*table, changes, report);
  if (parts.count("short")) MeasureShortPrefixes(*table, changes, report);
  if (!parts.count("beside")) return absl::OkStatus();
  return MeasureLookupsBeside(*table, beside, report);
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
