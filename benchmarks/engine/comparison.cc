// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/comparison.h"

#include <endian.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "benchmarks/rivals/huge_array.h"
#include "lpm/testing/oracle.h"

namespace planb {
namespace {

void Pass(const Baseline& baseline, const Trace& trace, size_t batch,
          uint32_t* next_hops) {
  for (size_t i = 0; i < trace.size(); i += batch) {
    baseline.Lookup(trace.at(i), std::min(batch, trace.size() - i), next_hops);
    // The compiler must believe that the answers are read.
    asm volatile("" : : "r"(next_hops) : "memory");
  }
}

Sample Segment(const Baseline& baseline, const Trace& trace,
               const MeasureOptions& options, uint32_t* next_hops) {
  const double before = CyclesPerTick();
  const auto enough = static_cast<uint64_t>(options.segment_milliseconds * 1e6 *
                                            TicksPerNanosecond());
  const uint64_t begin = Ticks();
  uint64_t taken = 0;
  size_t lookups = 0;
  do {
    Pass(baseline, trace, options.batch, next_hops);
    lookups += trace.size();
    taken = Ticks() - begin;
  } while (taken < enough);
  const double cycles_per_tick = (before + CyclesPerTick()) / 2;
  const double ticks =
      static_cast<double>(taken) / static_cast<double>(lookups);
  return {.nanoseconds = ticks / TicksPerNanosecond(),
          .cycles = ticks * cycles_per_tick,
          .gigahertz = cycles_per_tick * TicksPerNanosecond()};
}

}  // namespace

std::string FirstWrong(const Baseline& baseline, const Trace& trace,
                       absl::Span<const NextHopId> expected, size_t batch) {
  std::vector<uint32_t> found(batch);
  for (size_t i = 0; i < trace.size(); i += batch) {
    const size_t count = std::min(batch, trace.size() - i);
    std::fill(found.begin(), found.end(), UINT32_MAX);
    baseline.Lookup(trace.at(i), count, found.data());
    for (size_t j = 0; j < count; ++j) {
      if (le32toh(found[j]) == expected[i + j]) continue;
      return absl::StrCat(trace.address(i + j).ToString(), " -> ",
                          le32toh(found[j]), " instead of ", expected[i + j],
                          " in batches of ", batch);
    }
  }
  return "";
}

std::vector<std::vector<Sample>> Measure(
    absl::Span<const Baseline* const> baselines, const Trace& trace,
    const MeasureOptions& options) {
  HugeArray<uint32_t> next_hops(options.batch);
  std::vector<std::vector<Sample>> samples(baselines.size());
  double best = 0;  // GHz so far
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (size_t turn = 0; turn < baselines.size(); ++turn) {
      const size_t i = (turn + static_cast<size_t>(repeat)) % baselines.size();
      Sample sample;
      for (int retry = 0; retry <= options.retries; ++retry) {
        Pass(*baselines[i], trace, options.batch, next_hops.data());
        sample = Segment(*baselines[i], trace, options, next_hops.data());
        best = std::max(best, sample.gigahertz);
        if (sample.gigahertz >= 0.95 * best) break;
      }
      samples[i].push_back(sample);
    }
  }
  return samples;
}

namespace {

// An engine with a table in it.
struct Subject {
  const Engine* engine;
  std::unique_ptr<const Baseline> baseline;  // nullptr if it refuses
  double build_milliseconds = 0;
  std::string remark;
};

// An engine that leaves out more than one route of so many is not measured on
// the same table.
constexpr size_t kMostLeftOut = 1000;

std::vector<Route> UpTo(int length, absl::Span<const Route> routes) {
  std::vector<Route> kept;
  for (const Route& route : routes) {
    if (route.prefix.length() <= length) kept.push_back(route);
  }
  return kept;
}

// Builds once to warm up, then up to five times, but not for long.
Subject Build(const Engine& engine, const Table& table) {
  constexpr double kEnough = 2000;  // ms
  Subject subject = {.engine = &engine};
  const std::vector<Route> routes = UpTo(engine.max_length, table.routes);
  const size_t left_out = table.routes.size() - routes.size();
  if (left_out > 0) {
    subject.remark = absl::StrCat("without ", left_out, " routes longer than /",
                                  engine.max_length);
  }
  if (left_out > table.routes.size() / kMostLeftOut) {
    subject.remark = absl::StrCat("refuses: would be ", subject.remark);
    return subject;
  }
  std::vector<double> times;
  double total = 0;
  for (int i = 0; i <= 5 && (i <= 1 || total < kEnough); ++i) {
    subject.baseline = nullptr;  // makes room for the next
    const uint64_t begin = Ticks();
    auto built = engine.build(table.family, routes);
    const double taken =
        static_cast<double>(Ticks() - begin) / TicksPerNanosecond() / 1e6;
    if (!built.ok()) {
      subject.remark = absl::StrCat("refuses: ", built.status().message());
      return subject;
    }
    subject.baseline = *std::move(built);
    if (i > 0) times.push_back(taken);
    total += taken;
  }
  subject.build_milliseconds = Median(times);
  return subject;
}

// The right answers to a trace, by the length up to which routes count.
class Answers {
 public:
  Answers(const Table& table, const Trace& trace)
      : table_(table), trace_(trace) {}

  const std::vector<NextHopId>& UpTo(int length) {
    auto [it, fresh] = answers_.try_emplace(length);
    if (fresh) {
      const Reference reference(table_.family,
                                planb::UpTo(length, table_.routes));
      it->second.reserve(trace_.size());
      for (size_t i = 0; i < trace_.size(); ++i) {
        it->second.push_back(reference.Lookup(trace_.address(i)));
      }
    }
    return it->second;
  }

 private:
  const Table& table_;
  const Trace& trace_;
  std::map<int, std::vector<NextHopId>> answers_;
};

void PrintHead(const Table& table, TraceKind trace, size_t batch,
               const std::string& next_hops, FILE* out) {
  std::fprintf(out,
               "\n%s: %zu routes, next hops %s; trace %s, batches of %zu\n"
               "%-22s %9s %19s %7s %8s %9s %9s\n",
               table.name.c_str(), table.routes.size(), next_hops.c_str(),
               std::string(TraceKindName(trace)).c_str(), batch, "engine",
               "M/s", "least .. most", "first/", "cycles", "B/route",
               "build ms");
}

void PrintUnmeasured(const Subject& subject, const std::string& why,
                     FILE* out) {
  std::fprintf(out, "%-22s %9s %s\n", subject.engine->name.c_str(), "-",
               why.c_str());
}

void PrintRow(const Table& table, const Subject& subject,
              const std::vector<Sample>& samples,
              const std::vector<Sample>& first, FILE* out) {
  std::vector<double> rates, ratios, cycles;
  for (size_t i = 0; i < samples.size(); ++i) {
    rates.push_back(1e3 / samples[i].nanoseconds);
    ratios.push_back(samples[i].nanoseconds / first[i].nanoseconds);
    cycles.push_back(samples[i].cycles);
  }
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  std::fprintf(
      out, "%-22s %9.1f %8.1f ..%8.1f  %6.2fx %8.1f %9.1f %9.2f  %s\n",
      subject.engine->name.c_str(), Median(rates), *least, *most,
      Median(ratios), Median(cycles),
      static_cast<double>(subject.baseline->bytes()) /
          static_cast<double>(std::max<size_t>(1, table.routes.size())),
      subject.build_milliseconds, subject.remark.c_str());
  std::fflush(out);
}

// Returns the number of engines that answered wrongly.
int CompareOn(const Table& table, const std::vector<Subject>& subjects,
              TraceKind kind, const ComparisonOptions& options, FILE* out) {
  const auto trace =
      MakeTrace(kind, table.family, table.routes, options.addresses);
  if (!trace.ok()) {
    std::fprintf(out, "\n%s: %s\n", table.name.c_str(),
                 std::string(trace.status().message()).c_str());
    return 0;
  }
  Answers answers(table, *trace);
  int wrong = 0;
  for (const size_t batch : options.batches) {
    PrintHead(table, kind, batch, options.next_hops, out);
    std::vector<const Subject*> right;
    std::vector<const Baseline*> baselines;
    for (const Subject& subject : subjects) {
      if (subject.baseline == nullptr) {
        PrintUnmeasured(subject, subject.remark, out);
        continue;
      }
      const std::string why =
          FirstWrong(*subject.baseline, *trace,
                     answers.UpTo(subject.engine->max_length), batch);
      if (!why.empty()) {
        PrintUnmeasured(subject, "WRONG: " + why, out);
        ++wrong;
        continue;
      }
      right.push_back(&subject);
      baselines.push_back(subject.baseline.get());
    }
    const auto samples =
        Measure(baselines, *trace,
                {.batch = batch,
                 .repeats = options.repeats,
                 .segment_milliseconds = options.segment_milliseconds});
    for (size_t i = 0; i < right.size(); ++i) {
      PrintRow(table, *right[i], samples[i], samples[0], out);
    }
  }
  return wrong;
}

}  // namespace

absl::Status Compare(const ComparisonOptions& options, FILE* out) {
  int wrong = 0;
  for (const std::string& name : options.tables) {
    auto table = MakeTable(name);
    if (!table.ok()) return table.status();
    const absl::Status assigned =
        AssignNextHops(options.next_hops, table->routes);
    if (!assigned.ok()) return assigned;
    std::vector<Subject> subjects;
    for (const Engine& engine : options.engines) {
      subjects.push_back(Build(engine, *table));
    }
    for (const TraceKind kind : options.traces) {
      wrong += CompareOn(*table, subjects, kind, options, out);
    }
  }
  return wrong == 0 ? absl::OkStatus()
                    : absl::DataLossError(
                          absl::StrCat(wrong, " times an engine was wrong"));
}

}  // namespace planb
