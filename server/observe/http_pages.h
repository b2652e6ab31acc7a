// SPDX-License-Identifier: Apache-2.0

// The pages over HTTP: /metrics, /healthz, /readyz, /statusz, /statusz.json,
// and / with links.

#ifndef PLANB_SERVER_OBSERVE_HTTP_PAGES_H_
#define PLANB_SERVER_OBSERVE_HTTP_PAGES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "planb/v1/route_table.pb.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/base/metric_families.h"
#include "server/observe/health_state.h"
#include "server/observe/http_server.h"
#include "server/table/rebuild_log.h"

namespace planb::server {

namespace statusz {
class ServerState;
}

// Streams of one kind that are open, and how many may be.
struct StreamCount {
  std::string kind;
  uint64_t open = 0;
  uint64_t limit = 0;
};

// Where the pages get what they show. All outlive them. The functions are
// called once `health` says that the tables are loaded.
struct PageSources {
  const HealthState& health;
  const RebuildLog& rebuilds;
  // As ListTables answers.
  std::function<v1::ListTablesResponse()> tables;
  std::function<std::vector<StreamCount>()> streams;
  // Updates refused, by reason.
  std::function<std::vector<std::pair<std::string, uint64_t>>()> refusals;
  std::function<std::vector<Exemplar>()> exemplars;
};

// Thread-safe. Serves for as long as it lives. Until the tables are loaded,
// /metrics, /statusz and /statusz.json are answered by 503.
class HttpPages {
 public:
  // Errors: those of HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<HttpPages>> Start(
      const std::string& address, PageSources sources);

  // Exports what `more` collects, from now on.
  void RegisterCollectable(std::shared_ptr<prometheus::Collectable> more);

  int port() const { return server_->port(); }

 private:
  explicit HttpPages(PageSources sources);

  std::vector<prometheus::MetricFamily> Collect() const;
  HttpReply Metrics(const std::string& accept) const;
  HttpReply Readiness() const;
  HttpReply Statusz() const;
  HttpReply StatuszJson() const;

  const PageSources sources_;
  const absl::Time started_ = absl::Now();
  // Has only the flags, as of the start: a reload sets them while it reads.
  std::shared_ptr<const statusz::ServerState> flags_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;  // last: it calls all the others
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HTTP_PAGES_H_
