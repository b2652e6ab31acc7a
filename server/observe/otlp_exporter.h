// SPDX-License-Identifier: Apache-2.0

// Sends spans to a collector by OTLP over gRPC.

#ifndef PLANB_SERVER_OBSERVE_OTLP_EXPORTER_H_
#define PLANB_SERVER_OBSERVE_OTLP_EXPORTER_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/base/client_channel.h"
#include "server/base/trace.h"

namespace planb::server {

struct OtlpOptions {
  // HOST:PORT or unix:PATH; empty: nothing is traced.
  std::string endpoint;
  TlsFiles tls;
  uint64_t batches_per_span = 10'000;
  // Attributes of all spans: service.version and service.instance.id.
  std::string version;
  std::string instance;
};

// A thread takes what the tracer has, at most 512 spans at a time, and sends
// it. A request that fails, or takes longer than 5 s, is not repeated: its
// spans are lost, and counted, as are those that the collector rejects.
class OtlpExporter {
 public:
  // Does not connect. Errors: INVALID_ARGUMENT for an endpoint that is no
  // address; those of StartClientTls().
  static absl::StatusOr<std::unique_ptr<OtlpExporter>> Start(
      OtlpOptions options);
  // Breaks off the request in flight, and sends what is left, for half a
  // second.
  ~OtlpExporter();
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  Tracer& tracer() { return tracer_; }

  // Null in plaintext.
  TlsReloader* tls() { return tls_ == nullptr ? nullptr : &tls_->reloader(); }

  // Spans that the collector took, and that were lost.
  uint64_t exported() const { return exported_; }
  uint64_t failed() const { return failed_; }

 private:
  OtlpExporter(OtlpOptions options, std::unique_ptr<TlsProvider> tls);

  void Loop();
  // Waits until spans may have gathered. False if the exporter ends.
  bool Wait();
  // Returns how many the collector did not take.
  uint64_t Send(const std::vector<Span>& spans);

  const OtlpOptions options_;
  const std::unique_ptr<TlsProvider> tls_;
  const std::shared_ptr<grpc::Channel> channel_;
  Tracer tracer_;
  std::atomic<uint64_t> exported_ = 0;
  std::atomic<uint64_t> failed_ = 0;
  bool failing_ = false;  // belongs to the thread
  Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // The request in flight, or null.
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;  // last: uses the other members
};

// Metrics of an exporter; zeros without one. Thread-safe.
class OtlpMetrics : public prometheus::Collectable {
 public:
  explicit OtlpMetrics(std::shared_ptr<OtlpExporter> exporter)
      : exporter_(std::move(exporter)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::shared_ptr<OtlpExporter> exporter_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_OTLP_EXPORTER_H_
