// SPDX-License-Identifier: Apache-2.0

// Ports of rings for tests of the pipeline: frames go in and come out by calls.

#ifndef PLANB_EXAMPLES_ROUTER_TESTING_RING_PORTS_H_
#define PLANB_EXAMPLES_ROUTER_TESTING_RING_PORTS_H_

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/router/dpdk.h"
#include "examples/router/next_hops.h"
#include "examples/router/testing/frames.h"

namespace planb::router {

struct Sent {
  size_t port;
  Frame frame;
};

// Thread-compatible; one thread may Give while a pipeline runs, and one Take.
class RingPorts {
 public:
  static constexpr size_t kRing = 1024;

  // With a pool of so many buffers of their own, if any.
  RingPorts(size_t many, uint16_t tx_queues, size_t buffers = 0) {
    static const absl::Status started =
        StartEnvironment({.megabytes = 256, .widest_vectors = true});
    if (!started.ok()) std::abort();
    static rte_mempool* const shared = MakePool(8191).value();
    pool_ = buffers == 0 ? shared : MakePool(buffers).value();
    static int count = 0;
    for (size_t i = 0; i < many; ++i) {
      std::vector<rte_ring*> rings;
      for (int queue = 0; queue < 1 + tx_queues; ++queue) {
        rings.push_back(rte_ring_create(absl::StrCat("test", ++count).c_str(),
                                        kRing, SOCKET_ID_ANY,
                                        RING_F_SP_ENQ | RING_F_SC_DEQ));
      }
      const int device =
          rte_eth_from_rings(absl::StrCat("port", count).c_str(), &rings[0], 1,
                             &rings[1], tx_queues, 0);
      Port port = {.interface = absl::StrCat("eth", i),
                   .device = static_cast<uint16_t>(device)};
      if (device < 0 ||
          !StartDevice(port.device, 1, tx_queues, pool_, port.mac, port.mtu)
               .ok()) {
        std::abort();
      }
      port.mac = kStation;
      port.mtu = 1500;
      ports.push_back(port);
      rings_.push_back(rings);
    }
  }

  ~RingPorts() {
    for (const Port& port : ports) {
      rte_eth_dev_stop(port.device);
      rte_eth_dev_close(port.device);
    }
    for (const auto& rings : rings_) {
      for (rte_ring* const ring : rings) FreeRing(ring);
    }
  }

  // False if the port's ring or the pool has no room.
  bool Give(size_t port, const Frame& frame) {
    rte_mbuf* const packet = rte_pktmbuf_alloc(pool_);
    if (packet == nullptr) return false;
    char* const bytes =
        rte_pktmbuf_append(packet, static_cast<uint16_t>(frame.size()));
    std::memcpy(bytes, frame.data(), frame.size());
    if (rte_ring_enqueue(rings_[port][0], packet) == 0) return true;
    rte_pktmbuf_free(packet);
    return false;
  }

  // True if all that was given was received.
  bool IsTaken(size_t port) const { return rte_ring_empty(rings_[port][0]); }

  // All frames sent since the last call; of a port in order.
  std::vector<Sent> Take() {
    std::vector<Sent> sent;
    for (size_t port = 0; port < rings_.size(); ++port) {
      for (size_t queue = 1; queue < rings_[port].size(); ++queue) {
        void* object = nullptr;
        while (rte_ring_dequeue(rings_[port][queue], &object) == 0) {
          auto* const packet = static_cast<rte_mbuf*>(object);
          const uint8_t* const bytes = rte_pktmbuf_mtod(packet, uint8_t*);
          sent.push_back({port, Frame(bytes, bytes + packet->pkt_len)});
          rte_pktmbuf_free(packet);
        }
      }
    }
    return sent;
  }

  // Frees all frames sent since the last call.
  void Discard() {
    for (const auto& rings : rings_) {
      for (size_t queue = 1; queue < rings.size(); ++queue) Empty(rings[queue]);
    }
  }
  // And those that nothing received. REQUIRES: no pipeline runs.
  void DiscardAll() {
    Discard();
    for (const auto& rings : rings_) Empty(rings[0]);
  }

  // Buffers that are not in the pool.
  static size_t Missing() {
    return pool_ == nullptr ? 0 : rte_mempool_in_use_count(pool_);
  }

  std::vector<Port> ports;

 private:
  static void Empty(rte_ring* ring) {
    void* packets[64];
    while (const unsigned count =
               rte_ring_dequeue_burst(ring, packets, 64, nullptr)) {
      rte_pktmbuf_free_bulk(reinterpret_cast<rte_mbuf**>(packets), count);
    }
  }

  static inline rte_mempool* pool_ = nullptr;
  std::vector<std::vector<rte_ring*>> rings_;
};

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_TESTING_RING_PORTS_H_
