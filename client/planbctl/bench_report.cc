#include "client/planbctl/bench_report.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/planbctl/flags.h"

namespace planb::client {
namespace {

// Where a plot of the distribution wants its points.
constexpr double kQuantiles[] = {0,      0.1,    0.25,    0.5,   0.75,
                                 0.9,    0.95,   0.99,    0.995, 0.999,
                                 0.9995, 0.9999, 0.99999, 1};

// Below this share of what was offered, the offer was too much.
constexpr double kCarried = 0.98;

double Microseconds(const LatencyHistogram& histogram, double quantile) {
  return absl::ToDoubleMicroseconds(histogram.Quantile(quantile));
}

void SetParameters(output::Bench& report) {
  report.set_family(AbslUnparseFlag(absl::GetFlag(FLAGS_family)));
  report.set_form(AbslUnparseFlag(absl::GetFlag(FLAGS_form)));
  const std::string addresses = absl::GetFlag(FLAGS_addresses);
  report.set_trace(addresses.empty()
                       ? AbslUnparseFlag(absl::GetFlag(FLAGS_trace))
                       : addresses);
  report.set_batch(absl::GetFlag(FLAGS_batch));
  report.set_depth(absl::GetFlag(FLAGS_depth));
  report.set_streams(absl::GetFlag(FLAGS_streams));
  const uint32_t connections = absl::GetFlag(FLAGS_connections);
  report.set_connections(connections == 0 ? report.streams() : connections);
  const double rate = absl::GetFlag(FLAGS_rate);
  report.set_loop(rate > 0 ? "open" : "closed");
  if (rate > 0) {
    report.set_rate(rate);
    report.set_arrivals(AbslUnparseFlag(absl::GetFlag(FLAGS_arrivals)));
  }
  report.set_warmup_seconds(absl::ToDoubleSeconds(absl::GetFlag(FLAGS_warmup)));
  report.set_drain_seconds(absl::ToDoubleSeconds(absl::GetFlag(FLAGS_drain)));
  report.set_spin(absl::GetFlag(FLAGS_spin));
  report.set_client_cpus(absl::GetFlag(FLAGS_client_cpus));
  report.set_seed(static_cast<double>(absl::GetFlag(FLAGS_seed)));
}

void SetLatencies(const BenchCounts& counts, output::Bench& report) {
  const LatencyHistogram& latency = counts.latency;
  report.set_latency_us_p50(Microseconds(latency, 0.5));
  report.set_latency_us_p90(Microseconds(latency, 0.9));
  report.set_latency_us_p99(Microseconds(latency, 0.99));
  report.set_latency_us_p999(Microseconds(latency, 0.999));
  report.set_latency_us_p9999(Microseconds(latency, 0.9999));
  report.set_latency_us_max(absl::ToDoubleMicroseconds(latency.Max()));
  for (double quantile : kQuantiles) {
    output::Quantile* point = report.add_latency_us();
    point->set_quantile(quantile);
    point->set_value(Microseconds(latency, quantile));
  }
  if (!report.has_rate()) return;
  report.set_send_delay_us_p50(Microseconds(counts.send_delay, 0.5));
  report.set_send_delay_us_p99(Microseconds(counts.send_delay, 0.99));
  report.set_send_delay_us_max(
      absl::ToDoubleMicroseconds(counts.send_delay.Max()));
}

void SetCpu(const BenchResult& result, output::Bench& report) {
  const double millions = report.lookups() * 1e-6;
  report.set_client_cpu_seconds(absl::ToDoubleSeconds(result.client_cpu));
  if (millions > 0) {
    report.set_client_cpu_seconds_per_million(report.client_cpu_seconds() /
                                              millions);
  }
  if (!result.server_cpu.has_value()) return;
  report.set_server_cpu_seconds(absl::ToDoubleSeconds(*result.server_cpu));
  if (millions > 0) {
    report.set_server_cpu_seconds_per_million(report.server_cpu_seconds() /
                                              millions);
  }
}

}  // namespace

output::Bench BenchReport(const BenchResult& result) {
  output::Bench report;
  SetParameters(report);
  const BenchCounts& counts = result.counts;
  const double seconds = absl::ToDoubleSeconds(result.elapsed);
  report.set_seconds(seconds);
  report.set_batches(static_cast<double>(counts.batches));
  report.set_lookups(static_cast<double>(counts.lookups));
  report.set_misses(static_cast<double>(counts.misses));
  report.set_undecided(static_cast<double>(counts.undecided));
  report.set_offered_batches(static_cast<double>(counts.offered));
  report.set_unanswered_batches(static_cast<double>(counts.unanswered));
  if (seconds > 0) {  // else stopped before the warm-up's end
    report.set_lookups_per_second(report.lookups() / seconds);
    report.set_offered_lookups_per_second(report.offered_batches() *
                                          report.batch() / seconds);
  }
  SetLatencies(counts, report);
  SetCpu(result, report);
  if (absl::GetFlag(FLAGS_check)) {
    report.set_mismatches(static_cast<double>(counts.mismatches));
  }
  return report;
}

std::string BenchText(const output::Bench& report) {
  std::string text = absl::StrFormat(
      "%.0f lookups in %.2f s: %.4g M lookups/s (%s %s, %s; %d stream(s) over "
      "%d "
      "connection(s), batches of %d, %d in flight)\n",
      report.lookups(), report.seconds(), report.lookups_per_second() * 1e-6,
      report.family(), report.form(), report.trace(), report.streams(),
      report.connections(), report.batch(), report.depth());
  if (report.has_rate()) {
    absl::StrAppendFormat(
        &text, "offered %.4g M lookups/s, %s arrivals%s\n",
        report.offered_lookups_per_second() * 1e-6, report.arrivals(),
        report.lookups_per_second() <
                kCarried * report.offered_lookups_per_second()
            ? ": MORE THAN WAS CARRIED, so latencies grow with --seconds"
            : "");
  }
  absl::StrAppendFormat(
      &text,
      "batch latency in us: p50 %.0f, p90 %.0f, p99 %.0f, p99.9 %.0f, p99.99 "
      "%.0f, max %.0f; %.0f batches, %.0f unanswered\n",
      report.latency_us_p50(), report.latency_us_p90(), report.latency_us_p99(),
      report.latency_us_p999(), report.latency_us_p9999(),
      report.latency_us_max(), report.offered_batches(),
      report.unanswered_batches());
  if (report.has_send_delay_us_p50()) {
    absl::StrAppendFormat(
        &text, "of that until sent: p50 %.0f, p99 %.0f, max %.0f\n",
        report.send_delay_us_p50(), report.send_delay_us_p99(),
        report.send_delay_us_max());
  }
  absl::StrAppendFormat(&text, "CPU seconds per million lookups: client %.4f",
                        report.client_cpu_seconds_per_million());
  if (report.has_server_cpu_seconds()) {
    absl::StrAppendFormat(&text, ", server %.4f",
                          report.server_cpu_seconds_per_million());
  }
  absl::StrAppendFormat(&text, "\n%.0f lookups without a route",
                        report.misses());
  if (report.undecided() > 0) {
    absl::StrAppendFormat(&text, ", %.0f undecided", report.undecided());
  }
  text += "\n";
  if (report.has_mismatches()) {
    absl::StrAppendFormat(&text, "%.0f answers differ from the table\n",
                          report.mismatches());
  }
  return text;
}

std::string BenchProgress::Line(absl::Duration elapsed,
                                const BenchCounts& so_far) {
  const double seconds = absl::ToDoubleSeconds(elapsed - last_);
  const double rate = static_cast<double>(so_far.lookups - lookups_) / seconds;
  last_ = elapsed;
  lookups_ = so_far.lookups;
  const std::string done =
      absl::StrFormat("%.0f s: %.4g M lookups/s; latency so far in us: ",
                      absl::ToDoubleSeconds(elapsed), rate * 1e-6);
  // All that was answered may have been due in the warm-up.
  if (so_far.latency.count() == 0) return absl::StrCat(done, "none\n");
  return absl::StrFormat("%sp50 %.0f, p99 %.0f\n", done,
                         Microseconds(so_far.latency, 0.5),
                         Microseconds(so_far.latency, 0.99));
}

}  // namespace planb::client
