// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/engine/changing_table.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "benchmarks/engine/updates.h"
#include "lpm/fib/fib.h"

namespace planb {
namespace {

struct Timed {
  ChangeTimes times;
  double retire = 0;  // ns
  Route first;        // of the batch

  double together() const { return times.routes + times.update + retire; }
};

// What a case is called, and how its changes are grouped.
struct Case {
  std::string name;
  size_t batch = 1;
  size_t warm_up = 0;  // batches
};

// "kind prefix" of a change. Its effect is not known any more.
std::string Describe(const Timed& timed, size_t batch) {
  std::string text =
      absl::StrCat(timed.first.next_hop == kNoRoute ? "withdraw " : "announce ",
                   timed.first.prefix.ToString());
  if (batch > 1) absl::StrAppend(&text, " and ", batch - 1, " more");
  return text;
}

void PrintPercentiles(const Case& what, const std::vector<Timed>& all,
                      UpdateReport& report) {
  struct Step {
    const char* name;
    double (*of)(const Timed&);
  };
  constexpr Step kSteps[] = {
      {"routes", [](const Timed& t) { return t.times.routes; }},
      {"update", [](const Timed& t) { return t.times.update; }},
      {"retire", [](const Timed& t) { return t.retire; }},
      {"together", [](const Timed& t) { return t.together(); }}};
  for (const Step& step : kSteps) {
    std::vector<double> values;
    for (const Timed& timed : all) values.push_back(step.of(timed));
    report.PercentilesRow(what.name, step.name,
                          PercentilesOf(std::move(values)));
  }
}

void PrintWays(const std::vector<Timed>& all, UpdateReport& report) {
  std::array<size_t, kUpdateWays> counts{};
  std::array<double, kUpdateWays> most{};
  for (const Timed& timed : all) {
    const auto way = static_cast<size_t>(timed.times.way);
    ++counts[way];
    most[way] = std::max(most[way], timed.times.update);
  }
  std::string text;
  for (size_t way = 0; way < counts.size(); ++way) {
    if (counts[way] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", counts[way], " ",
                    UpdateWayName(static_cast<UpdateWay>(way)), " (at most ",
                    static_cast<int>(most[way] / 1e3), " us)");
  }
  report.Print("  updates: %s", text.c_str());
}

void PrintSlowest(std::vector<Timed> all, size_t count, size_t batch,
                  UpdateReport& report) {
  count = std::min(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(count),
                    all.end(), [](const Timed& a, const Timed& b) {
                      return a.together() > b.together();
                    });
  for (size_t i = 0; i < count; ++i) {
    report.Print("  slow: %.1f us (routes %.1f, update %.1f %s): %s",
                 all[i].together() / 1e3, all[i].times.routes / 1e3,
                 all[i].times.update / 1e3,
                 std::string(UpdateWayName(all[i].times.way)).c_str(),
                 Describe(all[i], batch).c_str());
  }
}

std::string Memory(const Fib& fib, size_t routes) {
  const auto per_route = [routes](size_t bytes) {
    return static_cast<double>(bytes) /
           static_cast<double>(std::max<size_t>(1, routes));
  };
  const size_t used = fib.Stats().bytes();
  char text[100];
  std::snprintf(text, sizeof(text), "%zu used, %zu held (%.2f, %.2f a route)",
                used, fib.bytes(), per_route(used), per_route(fib.bytes()));
  return text;
}

void Run(const Table& table, const Case& what, absl::Span<const Route> changes,
         const ChangeOptions& options, UpdateReport& report) {
  ChangingTable changing(table);
  std::unique_ptr<const Fib> fib = changing.Compile();
  const std::string before = Memory(*fib, changing.routes().size());
  std::vector<Timed> all(changes.size() / what.batch);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto batch = changes.subspan(i * what.batch, what.batch);
    all[i].first = batch.front();
    std::unique_ptr<const Fib> next = changing.Change(batch, all[i].times);
    const uint64_t begin = Ticks();
    fib = std::move(next);
    all[i].retire = static_cast<double>(Ticks() - begin) / TicksPerNanosecond();
  }
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(what.warm_up));
  PrintPercentiles(what, all, report);
  report.Print("  bytes before: %s", before.c_str());
  report.Print("  bytes after:  %s",
               Memory(*fib, changing.routes().size()).c_str());
  const std::unique_ptr<const Fib> anew =
      FibCompiler(changing.routes().family())
          .Compile(changing.routes())
          .value();
  report.Print("  bytes anew:   %s",
               Memory(*anew, changing.routes().size()).c_str());
  PrintWays(all, report);
  PrintSlowest(all, options.slowest, what.batch, report);
  report.Check(*fib, changing.routes(), changes);
}

std::vector<Prefix> ShortPrefixes(Family family) {
  std::vector<Prefix> prefixes;
  for (const char* text :
       family == Family::kIpv6
           ? std::array{"::/0", "2000::/3", "2000::/8", "2a00::/12"}
           : std::array{"0.0.0.0/0", "64.0.0.0/3", "192.0.0.0/8",
                        "185.0.0.0/12"}) {
    prefixes.push_back(Prefix::Parse(text).value());
  }
  return prefixes;
}

}  // namespace

void MeasureOneRouteChanges(const Table& table, const ChangeOptions& options,
                            UpdateReport& report) {
  report.Print("\n%s: %zu routes; changes of one route, %zu after %zu",
               table.name.c_str(), table.routes.size(), options.changes,
               options.warm_up);
  report.PercentilesHead();
  for (const ChurnKind kind :
       {ChurnKind::kMixed, ChurnKind::kCovering, ChurnKind::kLong}) {
    const auto changes =
        MakeChurn(kind, table.routes, options.warm_up + options.changes);
    if (!changes.ok()) {
      report.Print("%s", std::string(changes.status().message()).c_str());
      continue;
    }
    Run(table,
        {.name = std::string(ChurnKindName(kind)), .warm_up = options.warm_up},
        *changes, options, report);
  }
}

void MeasureBatches(const Table& table, const ChangeOptions& options,
                    UpdateReport& report) {
  report.Print("\n%s: %zu routes; mixed changes in batches, %zu of each size",
               table.name.c_str(), table.routes.size(), options.batches);
  report.PercentilesHead();
  for (const size_t size : options.batch_sizes) {
    const size_t warm_up = (options.warm_up + size - 1) / size;
    const auto changes = MakeChurn(ChurnKind::kMixed, table.routes,
                                   (warm_up + options.batches) * size);
    if (!changes.ok()) {
      report.Print("%s", std::string(changes.status().message()).c_str());
      return;
    }
    Run(table,
        {.name = absl::StrCat("batch of ", size),
         .batch = size,
         .warm_up = warm_up},
        *changes, options, report);
  }
}

void MeasureShortPrefixes(const Table& table, const ChangeOptions& options,
                          UpdateReport& report) {
  report.Print("\n%s: %zu routes; changes of short prefixes, %zu rounds of 3",
               table.name.c_str(), table.routes.size(), options.rounds);
  report.PercentilesHead();
  if (table.routes.empty()) return;
  // Next hops of the table, so that none is new to it.
  NextHopId least = table.routes[0].next_hop, most = least;
  for (const Route& route : table.routes) {
    least = std::min(least, route.next_hop);
    most = std::max(most, route.next_hop);
  }
  const RouteSet routes(table.family, table.routes);
  for (const Prefix& prefix : ShortPrefixes(table.family)) {
    std::vector<Route> changes;
    for (size_t i = 0; i <= options.rounds; ++i) {
      changes.push_back({prefix, most});
      changes.push_back({prefix, least});
      changes.push_back({prefix, routes.Find(prefix)});
    }
    Run(table, {.name = prefix.ToString(), .warm_up = 3}, changes, options,
        report);
  }
}

}  // namespace planb
