// SPDX-License-Identifier: Apache-2.0

// What every program and test here asks of DPDK: its environment, the pool of
// packet buffers, and ports.

#ifndef PLANB_EXAMPLES_ROUTER_DPDK_H_
#define PLANB_EXAMPLES_ROUTER_DPDK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/router/packet.h"

struct rte_mempool;
struct rte_ring;

namespace planb::router {

struct EnvironmentOptions {
  // Without: memory of the process, of `megabytes` at most.
  bool huge_pages = false;
  int megabytes = 512;
  // Whether DPDK's libraries may use vectors of 512 bits: rte_fib6 does.
  bool widest_vectors = false;
  // As EAL's --vdev, such as "net_af_packet0,iface=eth0".
  std::vector<std::string> devices = {};
};

// Starts DPDK's environment, once in a process. It leaves no files, so that
// several processes run beside one another, and binds no thread to a core.
absl::Status StartEnvironment(const EnvironmentOptions& options);

// `count` buffers for frames of 2,048 bytes. Without huge pages they are in
// transparent ones, if the kernel gives any.
absl::StatusOr<rte_mempool*> MakePool(size_t count);

// Frees a ring and the packets in it.
void FreeRing(rte_ring* ring);

// Configures and starts the device with so many queues. Reads MAC address and
// MTU into `mac` and `mtu`: the interface's, as it is now, if that is less.
absl::Status StartDevice(uint16_t device, uint16_t rx_queues,
                         uint16_t tx_queues, rte_mempool* pool, Mac& mac,
                         uint16_t& mtu);

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_DPDK_H_
