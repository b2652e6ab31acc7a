// SPDX-License-Identifier: Apache-2.0

#include "server/base/trace_context.h"

#include <cstddef>
#include <iterator>

namespace planb::server {
namespace {

constexpr char kKey[] = "traceparent";
// 00-<32>-<16>-<2>
constexpr size_t kSize = 55;

bool IsHex(absl::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

bool IsId(absl::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != absl::string_view::npos;
}

}  // namespace

std::optional<TraceContext> ParseTraceParent(absl::string_view traceparent) {
  if (traceparent.size() < kSize) return std::nullopt;
  const absl::string_view version = traceparent.substr(0, 2);
  const absl::string_view trace_id = traceparent.substr(3, 32);
  const absl::string_view parent_id = traceparent.substr(36, 16);
  const absl::string_view flags = traceparent.substr(53, 2);
  const bool ends = traceparent.size() == kSize ||
                    (version != "00" && traceparent[kSize] == '-');
  const bool valid = IsHex(version) && version != "ff" && IsId(trace_id) &&
                     IsId(parent_id) && IsHex(flags) && ends &&
                     traceparent[2] == '-' && traceparent[35] == '-' &&
                     traceparent[52] == '-';
  if (!valid) return std::nullopt;
  return TraceContext{std::string(trace_id), std::string(parent_id)};
}

std::optional<TraceContext> TraceContextOf(
    const grpc::ServerContextBase& call) {
  const auto [begin, end] = call.client_metadata().equal_range(kKey);
  if (begin == end || std::next(begin) != end) return std::nullopt;
  return ParseTraceParent({begin->second.data(), begin->second.size()});
}

std::string TraceIdOf(const grpc::ServerContextBase& call) {
  const std::optional<TraceContext> trace = TraceContextOf(call);
  return trace.has_value() ? trace->trace_id : "";
}

}  // namespace planb::server
