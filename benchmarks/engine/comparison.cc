// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/comparison.h"

#include <endian.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "benchmarks/rivals/huge_array.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/reference_table.h"

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
      const ReferenceTable reference(planb::UpTo(length, table_.routes));
      it->second.reserve(trace_.size());
      for (size_t i = 0; i < trace_.size(); ++i) {
        it->second.push_back(reference.NextHop(trace_.address(i)));
      }
    }
    return it->second;
  }

 private:
  const Table& table_;
  const Trace& trace_;
  std::map<int, std::vector<NextHopId>> answers_;
};

// Where results go: a table for people, and lines of a CSV file.
class Report {
 public:
  Report(const ComparisonOptions& options, FILE* out)
      : options_(options), out_(out) {
    if (options.csv.empty()) return;
    csv_ = std::fopen(options.csv.c_str(), "a");
    if (csv_ != nullptr && std::ftell(csv_) == 0) {
      std::fprintf(
          csv_,
          "table,routes,next_hops,trace,addresses,batch,threads,engine,"
          "metric,median,least,most,remark\n");
    }
  }
  ~Report() {
    if (csv_ != nullptr) std::fclose(csv_);
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  FILE* out() const { return out_; }
  bool failed() const { return !options_.csv.empty() && csv_ == nullptr; }

  // What the figures that follow are of.
  void Begin(const Table& table, absl::string_view trace, size_t batch,
             size_t threads) {
    where_ = absl::StrCat(table.name, ",", table.routes.size(), ",",
                          options_.next_hops, ",", trace, ",",
                          options_.addresses, ",", batch, ",", threads);
    first_.clear();
    absl::FPrintF(out_,
                  "\n%s: %d routes, next hops %s; trace %s, batches of %d, %d "
                  "threads\n%-39s %10s %22s %8s\n",
                  table.name, table.routes.size(), options_.next_hops, trace,
                  batch, threads, "engine", "median", "least ..      most",
                  "first/");
  }

  // Prints the median, the least and the most of the repeats, and how many
  // times that the first engine's figure is (the median of the ratios within a
  // repeat). `for_csv`: the file gets them as well.
  void Add(const Subject& subject, absl::string_view metric,
           const std::vector<double>& values, bool for_csv = true) {
    const std::vector<double>& first =
        first_.try_emplace(std::string(metric), values).first->second;
    std::vector<double> ratios;
    for (size_t i = 0; i < values.size() && i < first.size(); ++i) {
      ratios.push_back(first[i] / values[i]);
    }
    const auto [least, most] =
        std::minmax_element(values.begin(), values.end());
    absl::FPrintF(out_, "%-22s %-16s %10.1f %10.1f ..%10.1f %7.2fx  %s\n",
                  subject.engine->name, metric, Median(values), *least, *most,
                  Median(ratios), subject.remark);
    std::fflush(out_);
    if (!for_csv) return;
    Line(subject, metric, absl::StrCat(Median(values), ",", *least, ",", *most),
         subject.remark);
  }
  // An engine without figures.
  void AddNone(const Subject& subject, const std::string& why) {
    absl::FPrintF(out_, "%-22s - %s\n", subject.engine->name, why);
    Line(subject, "none", ",,", why);
  }

 private:
  void Line(const Subject& subject, absl::string_view metric,
            const std::string& figures, const std::string& remark) {
    if (csv_ == nullptr) return;
    std::fprintf(
        csv_, "%s,%s,%s,%s,%s\n", where_.c_str(), subject.engine->name.c_str(),
        std::string(metric).c_str(), figures.c_str(),
        absl::StrReplaceAll(remark, {{",", ";"}, {"\n", " "}}).c_str());
    std::fflush(csv_);
  }

  const ComparisonOptions& options_;
  FILE* const out_;
  FILE* csv_ = nullptr;
  std::string where_;
  std::map<std::string, std::vector<double>> first_;  // by metric, since Begin
};

double BytesPerRoute(const Table& table, const Subject& subject) {
  return static_cast<double>(subject.baseline->bytes()) /
         static_cast<double>(std::max<size_t>(1, table.routes.size()));
}

void ReportRates(const Table& table, absl::Span<const Subject* const> subjects,
                 const std::vector<std::vector<Sample>>& samples,
                 Report& report) {
  for (size_t s = 0; s < subjects.size(); ++s) {
    const Subject& subject = *subjects[s];
    std::vector<double> rates, cycles;
    for (const Sample& sample : samples[s]) {
      rates.push_back(1e3 / sample.nanoseconds);
      cycles.push_back(sample.cycles);
    }
    report.Add(subject, "rate_mps", rates);
    report.Add(subject, "cycles", cycles, false);
    report.Add(subject, "bytes_per_route", {BytesPerRoute(table, subject)},
               false);
    report.Add(subject, "build_ms", {subject.build_milliseconds}, false);
  }
}

// The rate of `threads` threads together, in million lookups a second.
double ThreadsRate(const Baseline& baseline, absl::Span<const Trace> traces,
                   size_t batch, double milliseconds) {
  std::atomic<bool> stop = false;
  std::atomic<size_t> ready = 0;
  std::vector<double> rates(traces.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < traces.size(); ++t) {
    threads.emplace_back([&, t] {
      PinThread(pthread_self(), static_cast<int>(t)).IgnoreError();
      HugeArray<uint32_t> next_hops(batch);
      Pass(baseline, traces[t], batch, next_hops.data());
      ++ready;
      while (ready < traces.size()) {
      }
      const uint64_t begin = Ticks();
      size_t lookups = 0;
      while (!stop) {
        for (size_t i = 0; i + batch <= traces[t].size() && !stop; i += batch) {
          baseline.Lookup(traces[t].at(i), batch, next_hops.data());
          lookups += batch;
        }
      }
      rates[t] = static_cast<double>(lookups) /
                 (static_cast<double>(Ticks() - begin) / TicksPerNanosecond()) *
                 1e3;
    });
  }
  while (ready < traces.size()) {
  }
  std::this_thread::sleep_for(
      std::chrono::microseconds(static_cast<int64_t>(milliseconds * 1e3)));
  stop = true;
  double sum = 0;
  for (size_t t = 0; t < threads.size(); ++t) {
    threads[t].join();
    sum += rates[t];
  }
  return sum;
}

void ReportThreads(const Table& table, TraceKind kind,
                   absl::Span<const Subject* const> subjects, size_t batch,
                   const ComparisonOptions& options, Report& report) {
  std::vector<Trace> traces;
  for (size_t t = 0; t < std::max(1U, std::thread::hardware_concurrency());
       ++t) {
    traces.push_back(
        *MakeTrace(kind, table.family, table.routes, options.addresses, t + 1));
  }
  for (size_t threads = 1; threads <= traces.size(); threads *= 2) {
    report.Begin(table, TraceKindName(kind), batch, threads);
    std::vector<std::vector<double>> rates(subjects.size());
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      for (size_t s = 0; s < subjects.size(); ++s) {
        rates[s].push_back(ThreadsRate(
            *subjects[s]->baseline, absl::MakeSpan(traces).first(threads),
            batch, 5 * options.segment_milliseconds));
      }
    }
    for (size_t s = 0; s < subjects.size(); ++s) {
      report.Add(*subjects[s], "rate_mps", rates[s]);
    }
  }
}

// Nanoseconds of a lookup with an address that depends on the answer before.
double Dependent(const Baseline& baseline, const Trace& trace) {
  uint32_t zero = 0;
  asm volatile("" : "+r"(zero));  // not known to the compiler
  uint32_t answer = 0;
  constexpr size_t kMost = 1 << 17;
  const size_t count = std::min(trace.size(), kMost);
  const uint64_t begin = Ticks();
  for (size_t i = 0; i < count; ++i) {
    baseline.Lookup(trace.at(i + (answer & zero)), 1, &answer);
  }
  asm volatile("" : : "r"(answer));
  return static_cast<double>(Ticks() - begin) / TicksPerNanosecond() /
         static_cast<double>(count);
}

// Nanoseconds of single lookups, each timed alone.
Percentiles Alone(const Baseline& baseline, const Trace& trace) {
  constexpr size_t kMost = 1 << 17;
  const size_t count = std::min(trace.size(), kMost);
  std::vector<double> times(count), empty(count);
  uint32_t answer = 0;
  for (std::vector<double>* const of : {&empty, &times}) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t begin = Ticks();
      if (of == &times) baseline.Lookup(trace.at(i), 1, &answer);
      asm volatile("" : : "r"(answer) : "memory");
      (*of)[i] = static_cast<double>(Ticks() - begin) / TicksPerNanosecond();
    }
  }
  const double timing = Median(empty);
  for (double& time : times) time = std::max(0.0, time - timing);
  return PercentilesOf(std::move(times));
}

void ReportSingle(absl::Span<const Subject* const> subjects, const Trace& trace,
                  const ComparisonOptions& options, Report& report) {
  std::vector<std::vector<double>> dependent(subjects.size());
  std::vector<std::vector<Percentiles>> alone(subjects.size());
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (size_t s = 0; s < subjects.size(); ++s) {
      dependent[s].push_back(Dependent(*subjects[s]->baseline, trace));
      alone[s].push_back(Alone(*subjects[s]->baseline, trace));
    }
  }
  for (size_t s = 0; s < subjects.size(); ++s) {
    std::vector<double> medians, p99s;
    for (const Percentiles& each : alone[s]) {
      medians.push_back(each.median);
      p99s.push_back(each.p99);
    }
    report.Add(*subjects[s], "dependent_ns", dependent[s]);
    report.Add(*subjects[s], "alone_p50_ns", medians);
    report.Add(*subjects[s], "alone_p99_ns", p99s);
  }
}

void ReportMemory(const Table& table, absl::Span<const Subject* const> subjects,
                  Report& report) {
  for (const Subject* const subject : subjects) {
    report.Add(*subject, "bytes_per_route", {BytesPerRoute(table, *subject)});
    report.Add(*subject, "build_ms", {subject->build_milliseconds});
  }
}

// Times each update of `size` changes, in microseconds.
absl::StatusOr<Percentiles> UpdateTimes(UpdatableBaseline& baseline,
                                        absl::Span<const Route> changes,
                                        size_t size) {
  std::vector<double> times;
  for (size_t i = 0; i + size <= changes.size(); i += size) {
    const uint64_t begin = Ticks();
    absl::Status updated = baseline.Update(changes.subspan(i, size));
    if (!updated.ok()) return updated;
    times.push_back(static_cast<double>(Ticks() - begin) /
                    TicksPerNanosecond() / 1e3);
  }
  return PercentilesOf(std::move(times));
}

// Changes that are made by updates of `size`, and the name of their figures.
struct Updates {
  std::string name;
  std::vector<Route> changes;
  size_t size = 1;
};

// Prefixes of `length` bits that cover routes, drawn by these: each gets
// another next hop, and then what it had.
std::vector<Route> CoverChanges(const Table& table, const RouteSet& routes,
                                int length) {
  constexpr size_t kCovers = 16;
  Random random(1);
  std::vector<Route> changes;
  for (size_t tries = 0; tries < 100 * kCovers && changes.size() < 2 * kCovers;
       ++tries) {
    const Prefix& inside =
        table.routes[random.Below(table.routes.size())].prefix;
    if (inside.length() <= length) continue;
    const Prefix cover = Prefix::Truncate(inside.address(), length);
    const NextHopId before = routes.Find(cover);
    const NextHopId other =
        table.routes[random.Below(table.routes.size())].next_hop;
    if (other == before) continue;
    changes.push_back({cover, other});
    changes.push_back({cover, before});
  }
  return changes;
}

absl::StatusOr<std::vector<Updates>> MakeUpdates(const Table& table,
                                                 ComparisonOptions::What what) {
  const RouteSet routes(table.family, table.routes);
  std::vector<Updates> all;
  if (what == ComparisonOptions::What::kCovers) {
    const int most = table.family == Family::kIpv6 ? 48 : 24;
    for (int length = 0; length <= most; length += length < 8 ? 4 : 2) {
      auto changes = CoverChanges(table, routes, length);
      if (changes.empty()) continue;
      all.push_back({absl::StrCat("cover", length), std::move(changes)});
    }
    if (all.empty()) return absl::FailedPreconditionError("nothing to cover");
    return all;
  }
  constexpr size_t kChanges = 20'000;
  const auto churn = MakeChurn(table.routes, kChanges);
  if (!churn.ok()) return churn.status();
  for (const size_t size : {size_t{1}, size_t{100}}) {
    all.push_back({absl::StrCat("update", size),
                   ThereAndBack(routes.Share(), *churn), size});
  }
  return all;
}

absl::Status ReportUpdates(const Table& table,
                           absl::Span<const Subject* const> subjects,
                           const ComparisonOptions& options, Report& report) {
  const auto all = MakeUpdates(table, options.what);
  if (!all.ok()) return all.status();
  for (const Subject* const subject : subjects) {
    const Engine& engine = *subject->engine;
    if (!engine.updatable) {  // a change is a build
      report.Add(*subject, absl::StrCat(all->front().name, "_p50_us"),
                 {subject->build_milliseconds * 1e3});
      continue;
    }
    const auto baseline =
        engine.updatable(table.family, UpTo(engine.max_length, table.routes));
    for (const Updates& updates : *all) {
      std::vector<double> median, p99, max;
      for (int i = 0; i < options.repeats; ++i) {
        const auto times =
            UpdateTimes(*baseline, updates.changes, updates.size);
        if (!times.ok()) return times.status();
        median.push_back(times->median);
        p99.push_back(times->p99);
        max.push_back(times->max);
      }
      report.Add(*subject, absl::StrCat(updates.name, "_p50_us"), median);
      report.Add(*subject, absl::StrCat(updates.name, "_p99_us"), p99);
      report.Add(*subject, absl::StrCat(updates.name, "_max_us"), max);
    }
  }
  return absl::OkStatus();
}

// Measures what is asked for. Returns the number of engines that answered
// wrongly.
int CompareOn(const Table& table, const std::vector<Subject>& subjects,
              TraceKind kind, const ComparisonOptions& options,
              Report& report) {
  using What = ComparisonOptions::What;
  const auto trace =
      MakeTrace(kind, table.family, table.routes, options.addresses);
  if (!trace.ok()) {
    std::fprintf(report.out(), "\n%s: %s\n", table.name.c_str(),
                 std::string(trace.status().message()).c_str());
    return 0;
  }
  Answers answers(table, *trace);
  int wrong = 0;
  for (const size_t batch : options.batches) {
    report.Begin(table, TraceKindName(kind), batch, 1);
    std::vector<const Subject*> right;
    std::vector<const Baseline*> baselines;
    for (const Subject& subject : subjects) {
      if (subject.baseline == nullptr) {
        report.AddNone(subject, subject.remark);
        continue;
      }
      const std::string why =
          FirstWrong(*subject.baseline, *trace,
                     answers.UpTo(subject.engine->max_length), batch);
      if (!why.empty()) {
        report.AddNone(subject, "WRONG: " + why);
        ++wrong;
        continue;
      }
      right.push_back(&subject);
      baselines.push_back(subject.baseline.get());
    }
    switch (options.what) {
      case What::kRate:
        ReportRates(
            table, right,
            Measure(baselines, *trace,
                    {.batch = batch,
                     .repeats = options.repeats,
                     .segment_milliseconds = options.segment_milliseconds}),
            report);
        break;
      case What::kThreads:
        ReportThreads(table, kind, right, batch, options, report);
        break;
      case What::kSingle:
        ReportSingle(right, *trace, options, report);
        break;
      case What::kMemory:
        ReportMemory(table, right, report);
        break;
      case What::kUpdates:
      case What::kCovers:
        if (const absl::Status s = ReportUpdates(table, right, options, report);
            !s.ok()) {
          std::fprintf(report.out(), "%s\n", s.ToString().c_str());
        }
        break;
    }
  }
  return wrong;
}

}  // namespace

absl::Status Compare(const ComparisonOptions& options, FILE* out) {
  int wrong = 0;
  Report report(options, out);
  if (report.failed()) {
    return absl::NotFoundError(absl::StrCat("cannot write ", options.csv));
  }
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
      wrong += CompareOn(*table, subjects, kind, options, report);
    }
  }
  return wrong == 0 ? absl::OkStatus()
                    : absl::DataLossError(
                          absl::StrCat(wrong, " times an engine was wrong"));
}

absl::Status Dump(const ComparisonOptions& options,
                  const std::string& directory) {
  auto table = MakeTable(options.tables.front());
  if (!table.ok()) return table.status();
  if (absl::Status s = AssignNextHops(options.next_hops, table->routes);
      !s.ok()) {
    return s;
  }
  const auto trace = MakeTrace(options.traces.front(), table->family,
                               table->routes, options.addresses);
  if (!trace.ok()) return trace.status();
  std::ofstream routes(absl::StrCat(directory, "/routes.txt"));
  for (const Route& route : table->routes) {
    routes << route.prefix.ToString() << " " << route.next_hop << "\n";
  }
  std::ofstream addresses(absl::StrCat(directory, "/trace.bin"),
                          std::ios::binary);
  addresses.write(trace->at(0),
                  static_cast<std::streamsize>(trace->size() * trace->width()));
  std::ofstream answers(absl::StrCat(directory, "/answers.bin"),
                        std::ios::binary);
  Answers right(*table, *trace);
  for (const NextHopId next_hop : right.UpTo(128)) {
    const uint32_t wire = htole32(next_hop);
    answers.write(reinterpret_cast<const char*>(&wire), sizeof(wire));
  }
  if (routes.good() && addresses.good() && answers.good()) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("cannot write to ", directory));
}

}  // namespace planb
