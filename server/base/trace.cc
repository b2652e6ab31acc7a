// SPDX-License-Identifier: Apache-2.0

#include "server/base/trace.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "base/mutex.h"

namespace planb::server {
namespace {

constexpr size_t kTraceIdBytes = 16;
constexpr size_t kSpanIdBytes = 8;

// Not all zeros, which means "none".
std::string RandomId(size_t bytes) {
  thread_local absl::BitGen random;
  std::string id(bytes, '\0');
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const auto bits =
        absl::Uniform<uint64_t>(absl::IntervalClosed, random, 1, ~uint64_t{0});
    std::memcpy(&id[at], &bits, sizeof(bits));
  }
  return id;
}

// `bytes` bytes from lower-case hexadecimal digits; empty if they are not that,
// or all zeros.
std::string ParseHex(absl::string_view text, size_t bytes) {
  const bool hex = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           (c >= 'a' && c <= 'f');
  });
  if (!hex || text.size() != 2 * bytes) return "";
  std::string id = absl::HexStringToBytes(text);
  return id == std::string(bytes, '\0') ? "" : id;
}

struct Parent {
  std::string trace_id, span_id;
  bool sampled = false;
};

// VERSION-TRACE-SPAN-FLAGS; later versions may add fields.
std::optional<Parent> ParseTraceparent(absl::string_view text) {
  if (text.size() < 55 || text[2] != '-' || text[35] != '-' ||
      text[52] != '-' || (text.size() > 55 && text[55] != '-')) {
    return std::nullopt;
  }
  const absl::string_view version = text.substr(0, 2);
  const absl::string_view flags = text.substr(53, 2);
  const auto is_hex = [](absl::string_view two) {
    return two == "00" || !ParseHex(two, 1).empty();
  };
  if (!is_hex(version) || version == "ff" || !is_hex(flags) ||
      (version == "00" && text.size() != 55)) {
    return std::nullopt;
  }
  Parent parent;
  parent.trace_id = ParseHex(text.substr(3, 32), kTraceIdBytes);
  parent.span_id = ParseHex(text.substr(36, 16), kSpanIdBytes);
  if (parent.trace_id.empty() || parent.span_id.empty()) return std::nullopt;
  const std::string bits = absl::HexStringToBytes(flags);
  parent.sampled = (bits[0] & 1) != 0;
  return parent;
}

}  // namespace

std::optional<Span> Tracer::Begin(absl::string_view name,
                                  absl::string_view traceparent) {
  const std::optional<Parent> parent = ParseTraceparent(traceparent);
  if (parent.has_value() && !parent->sampled) return std::nullopt;
  Span span;
  span.trace_id =
      parent.has_value() ? parent->trace_id : RandomId(kTraceIdBytes);
  span.span_id = RandomId(kSpanIdBytes);
  if (parent.has_value()) span.parent_id = parent->span_id;
  span.name = std::string(name);
  span.start = absl::Now();
  return span;
}

void Tracer::Add(Span span) {
  const MutexLock lock(mutex_);
  if (spans_.size() >= kCapacity) {
    ++dropped_;
    return;
  }
  spans_.push_back(std::move(span));
}

std::vector<Span> Tracer::Take(size_t most) {
  const MutexLock lock(mutex_);
  const auto end = spans_.begin() +
                   static_cast<std::ptrdiff_t>(std::min(most, spans_.size()));
  std::vector<Span> taken(std::make_move_iterator(spans_.begin()),
                          std::make_move_iterator(end));
  spans_.erase(spans_.begin(), end);
  return taken;
}

size_t Tracer::waiting() const {
  const MutexLock lock(mutex_);
  return spans_.size();
}

uint64_t Tracer::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

}  // namespace planb::server
