// SPDX-License-Identifier: Apache-2.0

// A table that is asked: each LPM core has a BatchLookup stream of its own, and
// several bursts in flight on it.

#ifndef PLANB_EXAMPLES_ROUTER_RPC_FIB_H_
#define PLANB_EXAMPLES_ROUTER_RPC_FIB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/channel.h"
#include "client/table_client.h"
#include "examples/router/fib.h"
#include "examples/router/next_hops.h"

namespace planb::router {

struct RpcOptions {
  std::string table = {};
  // Bursts of a core that wait for answers. As many as gRPC takes without the
  // server's reading: sending never waits.
  size_t in_flight = 16;
  // A server that answered and is silent for so long is away: packets that
  // wait, and those that come, get the last answer about their destination.
  absl::Duration patience = absl::Milliseconds(50);
  // And after so long none at all: they are dropped.
  absl::Duration grace = absl::Seconds(10);
};

// The objects of the server's table: listed when answers come from another
// generation, or ask for an object that the last list does not have. Starts a
// thread.
class ServerObjects : public Objects {
 public:
  ServerObjects(std::shared_ptr<grpc::Channel> channel, std::string table);
  ~ServerObjects() override;

  std::optional<NextHop> Find(NextHopId id) const override
      ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t version() const override {
    return version_.load(std::memory_order_acquire);
  }
  // Answers are from this generation.
  void Saw(uint64_t generation) {
    seen_.store(generation, std::memory_order_relaxed);
  }

 private:
  void Run();

  const client::TableClient server_;
  const std::string table_;
  std::atomic<uint64_t> seen_ = 0;
  std::atomic<uint64_t> version_ = 0;
  mutable std::atomic<bool> missed_ = true;
  std::atomic<bool> closing_ = false;
  mutable Mutex mutex_;
  absl::flat_hash_map<NextHopId, NextHop> next_hops_ ABSL_GUARDED_BY(mutex_);
  std::thread lister_;  // uses the members above
};

// `objects` must outlive the lookups.
MakeLookups RpcLookups(client::OpenChannel open, RpcOptions options,
                       ServerObjects& objects);

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_RPC_FIB_H_
