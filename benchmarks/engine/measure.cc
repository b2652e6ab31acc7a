#include "benchmarks/engine/measure.h"

#include <endian.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "benchmarks/engine/cycles.h"
#include "benchmarks/rivals/huge_array.h"

namespace planb {
namespace {

void Pass(const Baseline& baseline, const Trace& trace, size_t batch,
          uint32_t* next_hops) {
  for (size_t i = 0; i < trace.size(); i += batch) {
    baseline.Lookup(trace.at(i), std::min(batch, trace.size() - i), next_hops);
    // The compiler must believe that somebody reads the answers.
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

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace planb
