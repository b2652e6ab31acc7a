// SPDX-License-Identifier: Apache-2.0

// The pages over HTTP: /metrics, /healthz, /readyz, /statusz, and / with links.

#ifndef PLANB_SERVER_OBSERVE_HTTP_PAGES_H_
#define PLANB_SERVER_OBSERVE_HTTP_PAGES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/observe/health_state.h"
#include "server/observe/http_server.h"
#include "server/observe/status_page.h"
#include "server/table/table_state.h"
#include "server/table/tables.h"

namespace planb::server {

// Where the pages get what they show. All outlive them.
struct PageSources {
  const HealthState& health;
  // Not asked before `health` says that they are loaded.
  const Tables& tables;
  const RebuildLog& rebuilds;
  std::function<std::vector<StreamCount>()> streams;
  std::function<std::vector<std::pair<std::string, uint64_t>>()> refusals;
};

// Thread-safe. Serves for as long as it lives. Until the tables are loaded,
// /metrics and /statusz are answered by 503.
class HttpPages {
 public:
  // Errors: those of HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<HttpPages>> Start(
      const std::string& address, PageSources sources);

  // What it collects is exported from now on.
  void RegisterCollectable(std::shared_ptr<prometheus::Collectable> more);

  int port() const { return server_->port(); }

 private:
  explicit HttpPages(PageSources sources) : sources_(std::move(sources)) {}

  std::vector<prometheus::MetricFamily> Collect() const;
  HttpReply Metrics() const;
  HttpReply Readiness() const;
  HttpReply Status() const;

  const PageSources sources_;
  const absl::Time started_ = absl::Now();
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;  // last: it calls all the others
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HTTP_PAGES_H_
