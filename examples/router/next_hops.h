// SPDX-License-Identifier: Apache-2.0

// From a next hop to a port and a MAC address: by the table's next-hop objects
// and the neighbours. Knows no DPDK.

#ifndef PLANB_EXAMPLES_ROUTER_NEXT_HOPS_H_
#define PLANB_EXAMPLES_ROUTER_NEXT_HOPS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/published.h"
#include "examples/router/packet.h"
#include "lpm/prefix.h"

namespace planb::router {

struct Port {
  std::string interface;  // as next-hop objects name it
  uint16_t device = 0;    // DPDK's number
  uint16_t rx_queues = 1;
  Mac mac = {};
  uint16_t mtu = 1500;
  // Of this router. The first of a family is the source of ICMP errors.
  std::vector<Address> addresses = {};
};

// The next-hop objects of the table. Thread-safe.
class Objects {
 public:
  virtual ~Objects() = default;
  virtual std::optional<NextHop> Find(NextHopId id) const = 0;
  // Grows with a change of any object.
  virtual uint64_t version() const = 0;
};

// The MAC addresses of neighbours. Thread-safe; readers wait for nothing.
class Neighbors {
 public:
  using Key = std::pair<size_t, Address>;  // the port's index
  using Map = absl::flat_hash_map<Key, Mac>;

  Neighbors() : map_(std::make_unique<Map>()) {}

  std::optional<Mac> Find(size_t port, const Address& address) const;
  // Without a MAC address: forgets the neighbour. O(neighbours).
  void Set(size_t port, const Address& address, std::optional<Mac> mac)
      ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // Packets wait for this neighbour. TakeWanted returns each such once.
  void Want(const Key& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Key> TakeWanted() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  mutable std::vector<Key> wanted_ ABSL_GUARDED_BY(mutex_);
  Published<Map> map_;  // written with mutex_ held
  std::atomic<uint64_t> version_ = 0;
};

// A counter of one writing thread that others read.
class Counter {
 public:
  void Add(uint64_t n) { value_.store(value() + n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

struct alignas(64) Adjacency {
  enum class State : uint8_t {
    kUnknown,     // no object, no port, or none that says where to
    kReady,       // to `mac`
    kUnresolved,  // the gateway is no neighbour yet
    kOnLink,      // the destination is itself the neighbour
  };
  NextHopId id = kNoRoute;
  State state = State::kUnknown;
  bool used = false;  // since it was resolved: the caller's
  Mac mac = {};
  uint32_t port = 0;  // an index
  Address gateway = {};
  uint64_t version = 0;
  Counter* packets = nullptr;
};

// The adjacencies of one thread: a cache of what objects and neighbours say,
// forgotten when either changes. Thread-compatible, but for Count.
class Adjacencies {
 public:
  // All must outlive this.
  Adjacencies(absl::Span<const Port> ports, const Objects& objects,
              const Neighbors& neighbors)
      : ports_(ports),
        objects_(objects),
        neighbors_(neighbors),
        cache_(kEntries) {}

  // Call after the lookups of a burst and before its adjacencies.
  void Refresh() { version_ = 1 + objects_.version() + neighbors_.version(); }

  // Before Of(id), while there is something else to do.
  void Prefetch(NextHopId id) const { __builtin_prefetch(&cache_[Place(id)]); }

  Adjacency& Of(NextHopId id) {
    Adjacency& entry = cache_[Place(id)];
    if (entry.id != id || entry.version != version_) Resolve(id, entry);
    return entry;
  }

  // Adds the packets that each next hop got. Thread-safe.
  void Count(std::map<NextHopId, uint64_t>& packets) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr int kBits = 14;
  static constexpr size_t kEntries = size_t{1} << kBits;

  static size_t Place(NextHopId id) { return id * 0x9e3779b1U >> (32 - kBits); }
  void Resolve(NextHopId id, Adjacency& entry);

  const absl::Span<const Port> ports_;
  const Objects& objects_;
  const Neighbors& neighbors_;
  std::vector<Adjacency> cache_;
  uint64_t version_ = 0;
  mutable Mutex mutex_;
  std::map<NextHopId, Counter> counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_NEXT_HOPS_H_
