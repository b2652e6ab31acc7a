// SPDX-License-Identifier: Apache-2.0

// A scrape of a real server: METRICS.md has exactly its metrics, all counters
// begin at 0, and events are counted.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "server/testing/http_get.h"
#include "server/testing/running_server.h"
#include "server/testing/scrape_text.h"

namespace planb::server {
namespace {

// One metric family of a scrape. `values` are those of its samples in the order
// of the text, a histogram's buckets included; `labels` leaves out `le`.
struct ScrapedFamily {
  std::string help;
  std::string type;
  std::map<std::string, std::set<std::string>> labels;  // with their values
  std::vector<double> values;
};

// The first word of a comment, and the rest.
std::pair<std::string, std::string> NameAndRest(absl::string_view text) {
  return absl::StrSplit(text, absl::MaxSplits(' ', 1));
}

// NAME="VALUE",... Values with escapes are not supported.
void ParseLabels(absl::string_view text, ScrapedFamily& family) {
  if (text.empty()) return;
  for (absl::string_view label : absl::StrSplit(text, "\",")) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(label, absl::MaxSplits("=\"", 1));
    EXPECT_FALSE(absl::StrContains(pair.second, "\\")) << text;
    if (pair.first == "le") continue;
    family.labels[pair.first].insert(
        std::string(absl::StripSuffix(pair.second, "\"")));
  }
}

void ParseSample(absl::string_view line, const std::string& name,
                 ScrapedFamily& family) {
  EXPECT_TRUE(absl::StartsWith(line, name)) << line << " is no " << name;
  const size_t value = line.rfind(' ');
  const size_t open = line.find('{');
  if (open < value) {
    ParseLabels(line.substr(open + 1, line.rfind('}') - open - 1), family);
  }
  double number = 0;
  EXPECT_TRUE(value != line.npos &&
              absl::SimpleAtod(line.substr(value + 1), &number))
      << line;
  family.values.push_back(number);
}

// The families of a scrape by name. Text that cannot be parsed fails the test.
std::map<std::string, ScrapedFamily> ParseExposition(absl::string_view text) {
  std::map<std::string, ScrapedFamily> families;
  std::string name;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&line, "# HELP ")) {
      const auto [of, help] = NameAndRest(line);
      EXPECT_FALSE(families.contains(of)) << of << " comes twice";
      families[of].help = help;
    } else if (absl::ConsumePrefix(&line, "# TYPE ")) {
      const auto [of, type] = NameAndRest(line);
      families[of].type = type;
      name = of;
    } else {
      ParseSample(line, name, families[name]);
    }
  }
  return families;
}

// The body of GET /metrics on a loopback port. If there is none, the test
// fails.
std::string ScrapePort(int port) {
  const std::string reply = HttpGet(port, "/metrics");
  const size_t body = reply.find("\r\n\r\n");
  const bool good =
      absl::StartsWith(reply, "HTTP/1.1 200 ") && body != std::string::npos;
  EXPECT_TRUE(good) << "no /metrics: " << reply;
  return good ? reply.substr(body + 4) : "";
}

constexpr char kHead[] =
    "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n";

// The row of a family in METRICS.md. Other servers have other tables, versions
// and kernels.
std::string Row(const std::string& name, const ScrapedFamily& family) {
  std::vector<std::string> labels;
  for (const auto& [label, values] : family.labels) {
    const bool same = label != "table" && !absl::EndsWith(name, "_info");
    labels.push_back(absl::StrCat("`", label, "`", same ? ": " : "",
                                  same ? absl::StrJoin(values, ", ") : ""));
  }
  return absl::StrCat("| `", name, "` | ", family.type, " | ",
                      absl::StrJoin(labels, "; "), " | ", family.help, " |\n");
}

ServerOptions WithMetrics() {
  ServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  options.threads.count = 2;
  return options;
}

std::string Scrape(RunningServer& server) {
  return ScrapePort(server.server().metrics_port());
}

TEST(MetricsScrape, DocumentIsWhatIsServed) {
  RunningServer server(WithMetrics());
  std::string table = kHead;
  for (const auto& [name, family] : ParseExposition(Scrape(server))) {
    EXPECT_NE(family.help, "") << name;
    EXPECT_FALSE(family.values.empty()) << name;
    table += Row(name, family);
  }
  constexpr char kPath[] = "server/METRICS.md";
  std::stringstream document;
  document << std::ifstream(kPath).rdbuf();
  const std::string text = document.str().substr(0, document.str().find(kHead));
  if (std::getenv("PLANB_WRITE_METRICS") != nullptr) {
    std::ofstream(kPath) << text << table;
  }
  EXPECT_EQ(document.str(), text + table)
      << "The command in it writes it anew.";
}

TEST(MetricsScrape, CountersBeginAtZero) {
  RunningServer server(WithMetrics());
  int counters = 0;
  for (const auto& [name, family] : ParseExposition(Scrape(server))) {
    if (!absl::StartsWith(name, "planb_") || family.type == "gauge") continue;
    ++counters;
    for (const double value : family.values) EXPECT_EQ(value, 0) << name;
  }
  EXPECT_GE(counters, 15);
}

TEST(MetricsScrape, LookupsAreCounted) {
  RunningServer server(WithMetrics());
  server.Announce({{"2001:db8::/32", 7}, {"2001:db9::/32", 8}});
  v1::BatchLookupRequest request;
  request.set_request_id(1);
  std::string addresses(16 * 100, '\0');
  addresses.replace(0, 4, "\x20\x01\x0d\xb8");  // the others have no route
  request.set_addresses_v6(addresses);
  v1::BatchLookupRequest wrong;
  wrong.set_addresses_v6(std::string(17, 'x'));
  size_t sent = 0;
  grpc::ClientContext context;
  const auto stream = server.lookup().BatchLookup(&context);
  for (const v1::BatchLookupRequest* each : {&request, &request, &wrong}) {
    v1::BatchLookupResponse reply;
    ASSERT_TRUE(stream->Write(*each));
    ASSERT_TRUE(stream->Read(&reply));
    sent += reply.ByteSizeLong();
  }
  const std::string open = Scrape(server);
  EXPECT_TRUE(HasLine(open, "planb_lookup_streams 1"));
  stream->WritesDone();
  ASSERT_TRUE(stream->Finish().ok());
  const std::string text = Scrape(server);
  EXPECT_TRUE(HasLine(text, "planb_lookups_total 200"));
  EXPECT_TRUE(HasLine(text, "planb_lookup_misses_total 198"));
  EXPECT_TRUE(HasLine(text, "planb_lookup_batches_total 2"));
  EXPECT_TRUE(HasLine(text, "planb_lookup_batch_duration_seconds_count 2"));
  EXPECT_TRUE(HasLine(text, "planb_lookup_batch_size_bucket{le=\"64\"} 0"));
  EXPECT_TRUE(HasLine(text, "planb_lookup_batch_size_bucket{le=\"256\"} 2"));
  EXPECT_TRUE(HasLine(
      text, "planb_lookup_batch_errors_total{reason=\"ADDRESSES_LENGTH\"} 1"));
  EXPECT_TRUE(HasLine(
      text, absl::StrCat("planb_lookup_bytes_total{direction=\"received\"} ",
                         2 * request.ByteSizeLong() + wrong.ByteSizeLong())));
  EXPECT_TRUE(HasLine(
      text,
      absl::StrCat("planb_lookup_bytes_total{direction=\"sent\"} ", sent)));
  EXPECT_TRUE(HasLine(text, "planb_lookup_backpressure_seconds_total 0"));
  EXPECT_TRUE(HasLine(
      text,
      "planb_update_operations_total{op=\"upsert\",result=\"changed\"} 2"));
}

// A change that every table refuses, for a method or a stream.
template <typename Request>
Request Impossible() {
  Request request;
  v1::RouteUpdate& update = *request.add_updates();
  update.set_op(v1::RouteUpdate::OP_INSERT);
  update.mutable_prefix()->set_text("2001:db8::1/32");  // host bits
  update.set_next_hop_id(1);
  return request;
}

TEST(MetricsScrape, RefusedUpdatesAreCountedOnce) {
  RunningServer server(WithMetrics());
  const std::string batches = "planb_update_batches_total{result=\"refused\"} ";
  const std::string operations =
      "planb_update_operations_total{op=\"insert\",result=\"refused\"} ";
  for (const char* table : {"", "nowhere"}) {
    auto request = Impossible<v1::UpdateRoutesRequest>();
    request.set_table(table);
    grpc::ClientContext context;
    v1::UpdateRoutesResponse response;
    EXPECT_FALSE(
        server.table().UpdateRoutes(&context, request, &response).ok());
  }
  std::string text = Scrape(server);
  EXPECT_TRUE(HasLine(text, batches + "2"));
  EXPECT_TRUE(HasLine(text, operations + "2"));

  grpc::ClientContext context;
  const auto stream = server.table().StreamUpdates(&context);
  ASSERT_TRUE(stream->Write(Impossible<v1::StreamUpdatesRequest>()));
  v1::StreamUpdatesResponse response;
  while (stream->Read(&response) && !response.has_error()) continue;
  EXPECT_TRUE(response.has_error());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  text = Scrape(server);
  EXPECT_TRUE(HasLine(text, batches + "3"));
  EXPECT_TRUE(HasLine(text, operations + "3"));

  grpc::ClientContext replacing;
  v1::ReplaceRoutesResponse replaced;
  const auto replacement = server.table().ReplaceRoutes(&replacing, &replaced);
  v1::ReplaceRoutesRequest routes;
  v1::Route& route = *routes.add_routes();
  route.mutable_prefix()->set_text("2001:db8::/32");
  route.set_next_hop_id(1);
  ASSERT_TRUE(replacement->Write(routes));
  replacement->WritesDone();  // without commit
  EXPECT_FALSE(replacement->Finish().ok());
  text = Scrape(server);
  EXPECT_TRUE(HasLine(text, batches + "4"));
  EXPECT_TRUE(HasLine(text, operations + "3"));
  EXPECT_TRUE(HasLine(text,
                      "planb_update_operations_total{op=\"upsert\","
                      "result=\"refused\"} 1"));
}

// The engine refuses a build because a FIB cannot hold the table, after the
// update was accepted. The older generation serves until a build succeeds.
TEST(MetricsScrape, FailedRebuildsShowUntilOneSucceeds) {
  std::atomic<bool> full{true};
  ServerOptions options = WithMetrics();
  options.tables.table.build_fault = [&full](uint64_t generation) {
    return generation > 1 && full
               ? absl::ResourceExhaustedError("more than a FIB can hold")
               : absl::OkStatus();
  };
  RunningServer server(std::move(options));
  server.Announce({{"2001:db8::/32", 7}});
  v1::UpdateRoutesRequest request;
  request.set_ack(v1::ACK_ACCEPTED);
  v1::RouteUpdate& update = *request.add_updates();
  update.set_op(v1::RouteUpdate::OP_UPSERT);
  update.mutable_prefix()->set_text("2001:db8::/32");
  update.set_next_hop_id(8);
  v1::UpdateRoutesResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(server.table().UpdateRoutes(&context, request, &response).ok());
  const std::string failing = "planb_rebuild_failing{table=\"default\"} ";
  while (!HasLine(Scrape(server), failing + "1")) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  const auto look_up = [&server](uint64_t min_generation) {
    v1::LookupRequest lookup;
    lookup.add_addresses()->set_text("2001:db8::1");
    lookup.set_min_generation(min_generation);
    v1::LookupResponse found;
    grpc::ClientContext call;
    EXPECT_TRUE(server.lookup().Lookup(&call, lookup, &found).ok());
    return found.results_size() == 1 ? found.results(0).next_hop_id() : 0;
  };
  EXPECT_EQ(look_up(0), 7U);
  EXPECT_GE(ParseExposition(Scrape(server))
                .at("planb_rebuild_failures_total")
                .values.at(0),
            1);
  EXPECT_TRUE(absl::StrContains(
      HttpGet(server.server().metrics_port(), "/statusz.json"),
      "more than a FIB can hold"));
  full = false;
  EXPECT_EQ(look_up(response.generation()), 8U);
  while (!HasLine(Scrape(server), failing + "0")) {
    absl::SleepFor(absl::Milliseconds(10));
  }
}

double Backpressure(RunningServer& server) {
  return ParseExposition(Scrape(server))
      .at("planb_lookup_backpressure_seconds_total")
      .values.at(0);
}

// A client that sends and does not read is held back. The metric grows while
// that lasts, and stops when the stream ends.
TEST(MetricsScrape, ClientThatDoesNotReadIsBackpressure) {
  RunningServer server(WithMetrics());
  grpc::ClientContext context;
  const auto stream = server.lookup().BatchLookup(&context);
  std::thread sender([&stream] {
    v1::BatchLookupRequest request;
    request.set_addresses_v6(std::string(16 * 16'384, '\0'));
    while (stream->Write(request)) continue;  // until it is cancelled
  });
  double before = 0;
  while ((before = Backpressure(server)) == 0) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  while (Backpressure(server) < before + 0.1) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  context.TryCancel();
  sender.join();
  stream->Finish();
  while (!HasLine(Scrape(server), "planb_lookup_streams 0")) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  const double after = Backpressure(server);
  EXPECT_GE(after, before + 0.1);
  EXPECT_EQ(Backpressure(server), after);
}

}  // namespace
}  // namespace planb::server
