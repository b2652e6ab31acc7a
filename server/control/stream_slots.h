// SPDX-License-Identifier: Apache-2.0

// Bounds the open streams, or waiting calls, of one kind, in all and of each
// client.

#ifndef PLANB_SERVER_CONTROL_STREAM_SLOTS_H_
#define PLANB_SERVER_CONTROL_STREAM_SLOTS_H_

#include <grpcpp/server_context.h>
#include <prometheus/gauge.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/base/in_flight.h"

namespace planb::server {

// The client of a call, as limits know it, from ServerContext::peer(): an IPv4
// address or an IPv6 /64. All clients on Unix sockets are one.
std::string ClientOf(absl::string_view peer);

// Thread-safe. A stream enters before it reads its first message.
class StreamSlots {
 public:
  // `what` names the kind in errors, and `reason` is their reason. `open` shows
  // count().
  StreamSlots(std::string what, size_t limit, prometheus::Gauge& open,
              absl::string_view reason = "TOO_MANY_STREAMS")
      : what_(std::move(what)), limit_(limit), gauge_(open), reason_(reason) {}

  // An open stream, until it is destroyed.
  class Slot {
   public:
    Slot(Slot&& other) noexcept
        : slots_(std::exchange(other.slots_, nullptr)),
          client_(std::move(other.client_)) {}
    Slot& operator=(Slot&&) = delete;
    ~Slot() {
      if (slots_ != nullptr) slots_->Leave(client_);
    }

   private:
    friend class StreamSlots;
    Slot(StreamSlots* slots, std::string client)
        : slots_(slots), client_(std::move(client)) {}
    StreamSlots* slots_;
    std::string client_;
  };

  // Errors: RESOURCE_EXHAUSTED: all are taken, or this client has three
  // quarters of them.
  absl::StatusOr<Slot> Enter(const grpc::ServerContextBase& call) {
    return Enter(ClientOf(call.peer()));
  }
  absl::StatusOr<Slot> Enter(std::string client);

  size_t limit() const { return limit_; }
  size_t count() { return open_.count(); }
  // Returns when none is open, or at the deadline.
  void AwaitIdle(SteadyInstant deadline) { open_.AwaitIdle(deadline); }

 private:
  void Leave(const std::string& client);

  const std::string what_;
  const size_t limit_;
  prometheus::Gauge& gauge_;
  const absl::string_view reason_;
  InFlight open_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, size_t> of_client_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_STREAM_SLOTS_H_
