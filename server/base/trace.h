// SPDX-License-Identifier: Apache-2.0

// Spans of traces, as OpenTelemetry defines them: made where work is done, and
// queued for an exporter. Ids and parents are those of W3C Trace Context.

#ifndef PLANB_SERVER_BASE_TRACE_H_
#define PLANB_SERVER_BASE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace planb::server {

struct Span {
  std::string trace_id;   // 16 bytes
  std::string span_id;    // 8 bytes
  std::string parent_id;  // 8 bytes, of the caller; empty: none
  std::string name;
  absl::Time start, end;
  std::vector<std::pair<std::string, std::variant<std::string, int64_t>>>
      attributes;
  std::vector<std::pair<absl::Time, std::string>> events;
  absl::Status status;

  // The ids in hexadecimal digits, as logs have them.
  std::string TraceIdText() const { return absl::BytesToHexString(trace_id); }
  std::string SpanIdText() const { return absl::BytesToHexString(span_id); }
};

// The fields of a log line about what `span` is of; "" without one.
inline std::string TraceIdText(const std::optional<Span>& span) {
  return span.has_value() ? span->TraceIdText() : "";
}
inline std::string SpanIdText(const std::optional<Span>& span) {
  return span.has_value() ? span->SpanIdText() : "";
}
// The name of such a field; "", which leaves it out, without one.
inline const char* IfTraced(const std::optional<Span>& span, const char* name) {
  return span.has_value() ? name : "";
}

// Thread-safe.
class Tracer {
 public:
  // Of `batches_per_span` batches of lookups, one is traced; 0: none.
  explicit Tracer(uint64_t batches_per_span)
      : batches_per_span_(batches_per_span) {}

  uint64_t batches_per_span() const { return batches_per_span_; }

  // A span that starts now. `traceparent` is the header of that name, or empty:
  // the span is part of the caller's trace, unless the header is malformed.
  // Nothing if the caller says that its trace is not sampled.
  static std::optional<Span> Begin(absl::string_view name,
                                   absl::string_view traceparent);

  // Queues a span that has its end set. Drops it if kCapacity wait already.
  void Add(Span span);

  // The oldest `most` that are queued, or all.
  std::vector<Span> Take(size_t most);

  // How many are queued.
  size_t waiting() const;

  // Spans dropped so far.
  uint64_t dropped() const;

  static constexpr size_t kCapacity = 4096;

 private:
  const uint64_t batches_per_span_;
  mutable Mutex mutex_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The header `traceparent` of a grpc::ServerContextBase; empty if it has none.
// Valid as long as the call.
template <typename Call>
absl::string_view TraceParentOf(const Call& call) {
  const auto found = call.client_metadata().find("traceparent");
  return found == call.client_metadata().end()
             ? absl::string_view()
             : absl::string_view(found->second.data(), found->second.size());
}

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_TRACE_H_
