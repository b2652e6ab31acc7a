// SPDX-License-Identifier: Apache-2.0

#include "server/observe/http_pages.h"

#include <grpcpp/grpcpp.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/base/metric_families.h"
#include "server/observe/statusz.h"

namespace planb::server {
namespace {

constexpr char kHtml[] = "text/html; charset=utf-8";

constexpr char kHome[] = R"html(<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><link rel="icon" href="data:,">
<title>PlanB Lookup</title></head>
<body>
<h1>PlanB Lookup</h1>
<p><a href="/statusz">/statusz</a> what this server is doing, for people</p>
<p><a href="/statusz.json">/statusz.json</a> the numbers of that page</p>
<p><a href="/metrics">/metrics</a> the same for Prometheus</p>
<p><a href="/readyz">/readyz</a> whether lookups can be sent here, and why not</p>
<p><a href="/healthz">/healthz</a> whether the process lives</p>
</body>
</html>
)html";

void AddFact(const char* name, const std::string& value,
             statusz::ServerState& state) {
  statusz::Fact& fact = *state.add_process();
  fact.set_name(name);
  fact.set_value(value);
}

double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

}  // namespace

HttpPages::HttpPages(PageSources sources) : sources_(std::move(sources)) {
  auto flags = std::make_shared<statusz::ServerState>();
  AddFlags(*flags);
  flags_ = std::move(flags);
}

absl::StatusOr<std::unique_ptr<HttpPages>> HttpPages::Start(
    const std::string& address, PageSources sources) {
  std::unique_ptr<HttpPages> pages(new HttpPages(std::move(sources)));
  HttpPages* const p = pages.get();
  auto server = HttpServer::Start(
      address,
      {{"/",
        [](const auto&) {
          return HttpReply{.content_type = kHtml, .body = kHome};
        }},
       {"/healthz", [](const auto&) { return HttpReply{.body = "ok\n"}; }},
       {"/metrics",
        [p](const std::string& accept) { return p->Metrics(accept); }},
       {"/readyz", [p](const auto&) { return p->Readiness(); }},
       {"/statusz", [p](const auto&) { return p->Statusz(); }},
       {"/statusz.json", [p](const auto&) { return p->StatuszJson(); }}});
  if (!server.ok()) return server.status();
  pages->server_ = *std::move(server);
  return pages;
}

void HttpPages::RegisterCollectable(
    std::shared_ptr<prometheus::Collectable> more) {
  const MutexLock lock(mutex_);
  collectables_.push_back(std::move(more));
}

std::vector<prometheus::MetricFamily> HttpPages::Collect() const {
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
  {
    const MutexLock lock(mutex_);
    collectables = collectables_;
  }
  std::vector<prometheus::MetricFamily> all;
  for (const auto& collectable : collectables) {
    std::vector<prometheus::MetricFamily> some = collectable->Collect();
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  return all;
}

HttpReply HttpPages::Metrics(const std::string& accept) const {
  if (!sources_.health.loaded()) return Readiness();
  if (absl::StrContains(accept, "application/openmetrics-text")) {
    return {.content_type =
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            .body = OpenMetricsText(Collect(), sources_.exemplars())};
  }
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = prometheus::TextSerializer().Serialize(Collect())};
}

HttpReply HttpPages::Readiness() const {
  const std::string why_not = sources_.health.WhyNotReady();
  if (why_not.empty()) return {.body = "ready\n"};
  return {.status = 503, .body = absl::StrCat(why_not, "\n")};
}

HttpReply HttpPages::Statusz() const {
  if (!sources_.health.loaded()) return Readiness();
  return {.content_type = kHtml,
          .sources = StatuszSources(),
          .body = std::string(StatuszHtml())};
}

HttpReply HttpPages::StatuszJson() const {
  if (!sources_.health.loaded()) return Readiness();
  statusz::ServerState state;
  state.set_unix_seconds(UnixSeconds(absl::Now()));
  state.set_started_unix_seconds(UnixSeconds(started_));
  state.set_not_ready(sources_.health.WhyNotReady());
  AddMetrics(Collect(), state);
  // After the counters, which change all the time, with nothing slow between.
  state.set_monotonic_seconds(
      std::chrono::duration<double>(SteadyNow().time_since_epoch()).count());
  AddFact("gRPC", grpc::Version(), state);
  AddFact("process id", absl::StrCat(getpid()), state);
  *state.mutable_tables() = std::move(*sources_.tables().mutable_tables());
  for (const RebuildRecord& rebuild : sources_.rebuilds.NewestFirst()) {
    AddRebuild(rebuild, state);
  }
  for (const auto& [reason, count] : sources_.refusals()) {
    statusz::ErrorCount& error = *state.add_errors();
    error.set_reason(reason);
    error.set_count(static_cast<double>(count));
    error.set_of("updates refused");
  }
  for (const StreamCount& stream : sources_.streams()) {
    statusz::StreamCount& out = *state.add_streams();
    out.set_kind(stream.kind);
    out.set_open(static_cast<double>(stream.open));
    out.set_limit(static_cast<double>(stream.limit));
  }
  *state.mutable_flags() = flags_->flags();
  return {.content_type = "application/json; charset=utf-8",
          .body = ToJson(std::move(state))};
}

}  // namespace planb::server
