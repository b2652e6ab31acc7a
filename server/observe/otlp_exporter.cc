// SPDX-License-Identifier: Apache-2.0

#include "server/observe/otlp_exporter.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/target.h"
#include "base/utf8.h"
#include "server/base/grpc_time.h"
#include "server/base/log.h"
#include "server/base/metric_families.h"
#include "trace.grpc.pb.h"

namespace planb::server {
namespace {

namespace otlp = opentelemetry::proto::collector::trace::v1;

constexpr size_t kSpansPerRequest = 512;
// Spans gather for so long, so that requests are few.
constexpr std::chrono::milliseconds kGather(200);
// An answer says at most how many spans were rejected, and why.
constexpr int kMaxAnswer = 64 << 10;
constexpr size_t kMaxLogged = 512;  // bytes of what the collector says
constexpr absl::Duration kConnectTime = absl::Milliseconds(300);
constexpr absl::Duration kTimeout = absl::Seconds(5);
constexpr absl::Duration kLastTimeout = absl::Seconds(2);

uint64_t Nanos(absl::Time time) {
  return static_cast<uint64_t>(absl::ToUnixNanos(time));
}

void SetAttribute(const std::string& key,
                  const std::variant<std::string, int64_t>& value,
                  otlp::KeyValue& attribute) {
  attribute.set_key(key);
  if (const auto* const text = std::get_if<std::string>(&value)) {
    attribute.mutable_value()->set_string_value(ToUtf8(*text));
  } else {
    attribute.mutable_value()->set_int_value(std::get<int64_t>(value));
  }
}

void ToProto(const Span& span, otlp::Span& out) {
  out.set_trace_id(span.trace_id);
  out.set_span_id(span.span_id);
  out.set_parent_span_id(span.parent_id);
  out.set_name(span.name);
  out.set_kind(otlp::Span::SPAN_KIND_SERVER);
  out.set_start_time_unix_nano(Nanos(span.start));
  out.set_end_time_unix_nano(Nanos(span.end));
  for (const auto& [key, value] : span.attributes) {
    SetAttribute(key, value, *out.add_attributes());
  }
  SetAttribute("rpc.grpc.status_code", static_cast<int64_t>(span.status.code()),
               *out.add_attributes());
  for (const auto& [time, name] : span.events) {
    otlp::Span::Event& event = *out.add_events();
    event.set_time_unix_nano(Nanos(time));
    event.set_name(name);
  }
  if (!span.status.ok()) {
    out.mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
    out.mutable_status()->set_message(ToUtf8(span.status.message()));
  }
}

std::vector<prometheus::MetricFamily> Families(uint64_t exported,
                                               uint64_t failed,
                                               uint64_t dropped) {
  return {CounterFamily(
      "planb_trace_spans_total",
      "Spans of traces (--otlp_endpoint): taken by the collector, lost because "
      "it did not take them, dropped because more than 4,096 waited.",
      {CounterOf(MetricValue(exported), {{"result", "exported"}}),
       CounterOf(MetricValue(failed), {{"result", "failed"}}),
       CounterOf(MetricValue(dropped), {{"result", "dropped"}})})};
}

}  // namespace

OtlpExporter::OtlpExporter(OtlpOptions options,
                           std::unique_ptr<TlsProvider> tls)
    : options_(std::move(options)),
      tls_(std::move(tls)),
      channel_(MakeChannel(options_.endpoint, tls_.get(), kMaxAnswer)),
      tracer_(options_.batches_per_span),
      thread_([this] { Loop(); }) {}

OtlpExporter::~OtlpExporter() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    if (call_ != nullptr) call_->TryCancel();
  }
  changed_.notify_one();
  thread_.join();
}

absl::StatusOr<std::unique_ptr<OtlpExporter>> OtlpExporter::Start(
    OtlpOptions options) {
  const absl::Status target = CheckTarget("--otlp_endpoint", options.endpoint);
  if (!target.ok()) return target;
  auto tls = StartClientTls(options.tls);
  if (!tls.ok()) return tls.status();
  return std::unique_ptr<OtlpExporter>(
      new OtlpExporter(std::move(options), *std::move(tls)));
}

void OtlpExporter::Loop() {
  for (bool last = false; !last;) {
    last = !Wait();
    const std::vector<Span> spans =
        tracer_.Take(last ? Tracer::kCapacity : kSpansPerRequest);
    if (spans.empty()) continue;
    // Does the work of connecting, which no other thread does. A call does not:
    // it fails at once while the last attempt to connect has failed.
    if (!last) channel_->WaitForConnected(GrpcAfter(kConnectTime));
    const uint64_t lost = Send(spans);
    failed_ += lost;
    exported_ += spans.size() - lost;
  }
}

bool OtlpExporter::Wait() {
  MutexLock lock(mutex_);
  // Where a whole request waits already, nothing has to gather.
  const auto gather =
      tracer_.waiting() < kSpansPerRequest ? kGather : kGather.zero();
  return !changed_.wait_for(
      lock, gather,
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; });
}

uint64_t OtlpExporter::Send(const std::vector<Span>& spans) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans& of_resource = *request.add_resource_spans();
  otlp::Resource& resource = *of_resource.mutable_resource();
  SetAttribute("service.name", "planb-lookup", *resource.add_attributes());
  SetAttribute("service.version", options_.version, *resource.add_attributes());
  SetAttribute("service.instance.id", options_.instance,
               *resource.add_attributes());
  otlp::ScopeSpans& of_scope = *of_resource.add_scope_spans();
  of_scope.mutable_scope()->set_name("planb");
  for (const Span& span : spans) ToProto(span, *of_scope.add_spans());
  grpc::ClientContext call;
  {
    const MutexLock lock(mutex_);
    call.set_deadline(GrpcAfter(ending_ ? kLastTimeout : kTimeout));
    call_ = &call;
  }
  otlp::ExportTraceServiceResponse response;
  otlp::TraceService::Stub stub(channel_);
  const grpc::Status status = stub.Export(&call, request, &response);
  {
    const MutexLock lock(mutex_);
    call_ = nullptr;
  }
  const auto sent = static_cast<int64_t>(spans.size());
  const int64_t lost =
      status.ok() ? std::clamp<int64_t>(
                        response.partial_success().rejected_spans(), 0, sent)
                  : sent;
  const bool failing = lost > 0;
  if (failing != failing_) {
    const std::string error = status.ok()
                                  ? response.partial_success().error_message()
                                  : status.error_message();
    Log(failing ? LogLevel::kWarning : LogLevel::kInfo,
        failing ? "the collector does not take spans"
                : "the collector takes spans again",
        {{"endpoint", options_.endpoint},
         {"error", error.substr(0, kMaxLogged)}});
  }
  failing_ = failing;
  return static_cast<uint64_t>(lost);
}

std::vector<prometheus::MetricFamily> OtlpMetrics::Collect() const {
  return exporter_ == nullptr
             ? Families(0, 0, 0)
             : Families(exporter_->exported(), exporter_->failed(),
                        exporter_->tracer().dropped());
}

}  // namespace planb::server
