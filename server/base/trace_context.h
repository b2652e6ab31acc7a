// SPDX-License-Identifier: Apache-2.0

// The caller's trace, as W3C Trace Context names it in the metadata of a call:
//   traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
// Read so that logs can be found from a trace; nothing is exported.

#ifndef PLANB_SERVER_BASE_TRACE_CONTEXT_H_
#define PLANB_SERVER_BASE_TRACE_CONTEXT_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace planb::server {

struct TraceContext {
  std::string trace_id;   // 32 lower-case hex digits, not all 0
  std::string parent_id;  // 16 of them, likewise: the span that called
};

// What `traceparent` says; nothing if it is not as the recommendation wants it.
// Of versions later than 00, the part that all must share.
std::optional<TraceContext> ParseTraceParent(absl::string_view traceparent);

// The caller's; nothing without one `traceparent`, exactly one, that is valid.
std::optional<TraceContext> TraceContextOf(const grpc::ServerContextBase& call);

// Its trace id, or "".
std::string TraceIdOf(const grpc::ServerContextBase& call);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_TRACE_CONTEXT_H_
