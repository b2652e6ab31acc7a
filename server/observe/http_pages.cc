// SPDX-License-Identifier: Apache-2.0

#include "server/observe/http_pages.h"

#include <prometheus/text_serializer.h>

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/observe/html.h"

namespace planb::server {
namespace {

constexpr char kHtml[] = "text/html; charset=utf-8";

HttpReply Home() {
  HtmlPage page("PlanB Lookup");
  page.Link("/statusz", "what this server is doing, for people");
  page.Link("/metrics", "the same for Prometheus");
  page.Link("/readyz", "whether lookups can be sent here, and why not");
  page.Link("/healthz", "whether the process lives");
  return {.content_type = kHtml, .body = page.Finish()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpPages>> HttpPages::Start(
    const std::string& address, PageSources sources) {
  std::unique_ptr<HttpPages> pages(new HttpPages(std::move(sources)));
  HttpPages* const p = pages.get();
  auto server = HttpServer::Start(
      address, {{"/", Home},
                {"/healthz", [] { return HttpReply{.body = "ok\n"}; }},
                {"/metrics", [p] { return p->Metrics(); }},
                {"/readyz", [p] { return p->Readiness(); }},
                {"/statusz", [p] { return p->Status(); }}});
  if (!server.ok()) return server.status();
  pages->server_ = *std::move(server);
  return pages;
}

void HttpPages::RegisterCollectable(
    std::shared_ptr<prometheus::Collectable> more) {
  const std::lock_guard lock(mutex_);
  collectables_.push_back(std::move(more));
}

std::vector<prometheus::MetricFamily> HttpPages::Collect() const {
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
  {
    const std::lock_guard lock(mutex_);
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

HttpReply HttpPages::Metrics() const {
  if (!sources_.health.loaded()) return Readiness();
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = prometheus::TextSerializer().Serialize(Collect())};
}

HttpReply HttpPages::Readiness() const {
  const std::string why_not = sources_.health.WhyNotReady();
  if (why_not.empty()) return {.body = "ready\n"};
  return {.status = 503, .body = absl::StrCat(why_not, "\n")};
}

HttpReply HttpPages::Status() const {
  if (!sources_.health.loaded()) return Readiness();
  StatusReport report = {.now = absl::Now(),
                         .started = started_,
                         .not_ready = sources_.health.WhyNotReady(),
                         .metrics = Collect(),
                         .rebuilds = sources_.rebuilds.NewestFirst(),
                         .refusals = sources_.refusals(),
                         .streams = sources_.streams(),
                         .flags = FlagsInForce()};
  for (const TableRef& table : sources_.tables.All()) {
    report.tables.push_back(table->state());
  }
  return {.content_type = kHtml, .body = RenderStatus(report)};
}

}  // namespace planb::server
