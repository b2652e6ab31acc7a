// SPDX-License-Identifier: Apache-2.0

#include "examples/router/dpdk.h"

#include <net/if.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace planb::router {
namespace {

constexpr uint16_t kDescriptors = 512;
constexpr unsigned kPoolCache = 256;
constexpr size_t kHugePage = size_t{1} << 21;

absl::Status Failed(absl::string_view what, int error) {
  return absl::InternalError(absl::StrCat(
      "DPDK: ", what, ": ", rte_strerror(error < 0 ? -error : error)));
}

// Gives the pool the memory for all its buffers, of so many bytes. Returns an
// error or 0.
int Populate(rte_mempool* pool, size_t bytes) {
  if (rte_eal_has_hugepages() != 0) {
    return std::min(rte_mempool_populate_default(pool), 0);
  }
  // Not the environment's: that is shared memory, which has small pages only,
  // and each buffer would have one of its own.
  bytes = (bytes / kHugePage + 1) * kHugePage;
  void* const all = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return ENOMEM;
  auto* const memory = RTE_PTR_ALIGN_CEIL(static_cast<char*>(all), kHugePage);
  madvise(memory, bytes, MADV_HUGEPAGE);
  // Without huge pages, addresses of devices are those of the process.
  const int populated = rte_mempool_populate_iova(
      pool, memory, reinterpret_cast<uintptr_t>(memory), bytes,
      [](rte_mempool_memhdr* header, void* start) {
        munmap(start, header->len + kHugePage);
      },
      all);
  if (populated <= 0) munmap(all, bytes + kHugePage);
  return static_cast<unsigned>(populated) == pool->size ? 0 : ENOMEM;
}

// Lowers `mtu` to that of the interface below the device, if there is one:
// net_af_packet says 1,500, and the kernel drops what is longer.
void LowerToInterface(uint16_t device, uint16_t& mtu) {
  rte_eth_dev_info info;
  ifreq request = {};
  if (rte_eth_dev_info_get(device, &info) != 0 || info.if_index == 0 ||
      if_indextoname(info.if_index, request.ifr_name) == nullptr) {
    return;
  }
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return;
  if (ioctl(any, SIOCGIFMTU, &request) == 0 && request.ifr_mtu < mtu) {
    mtu = static_cast<uint16_t>(request.ifr_mtu);
  }
  close(any);
}

}  // namespace

absl::Status StartEnvironment(const EnvironmentOptions& options) {
  std::vector<std::string> arguments = {
      "planb_router", "--no-pci", "--no-telemetry", "--log-level=error",
      // The main thread may run on any core; the stages bind themselves.
      absl::StrCat("--lcores=0@(0-",
                   std::max(1U, std::thread::hardware_concurrency()) - 1, ")")};
  if (options.huge_pages) {
    arguments.push_back("--in-memory");
  } else {
    arguments.push_back("--no-huge");
    arguments.push_back("--no-shconf");
    arguments.push_back(absl::StrCat("-m", options.megabytes));
  }
  if (options.widest_vectors) {
    arguments.push_back("--force-max-simd-bitwidth=512");
  }
  for (const std::string& device : options.devices) {
    arguments.push_back(absl::StrCat("--vdev=", device));
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0) {
    return Failed("the environment does not start", rte_errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<rte_mempool*> MakePool(size_t count) {
  static int pools = 0;  // names must differ
  constexpr unsigned kElement = sizeof(rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE;
  rte_mempool* const pool = rte_mempool_create_empty(
      absl::StrCat("pool", ++pools).c_str(), static_cast<unsigned>(count),
      kElement, kPoolCache, sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY,
      rte_eal_has_hugepages() != 0 ? 0 : RTE_MEMPOOL_F_NO_IOVA_CONTIG);
  int error = pool == nullptr ? rte_errno : 0;
  if (error == 0) {
    error =
        rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), nullptr);
  }
  if (error == 0) {
    rte_pktmbuf_pool_init(pool, nullptr);
    error = Populate(pool, count * rte_mempool_calc_obj_size(
                                       kElement, pool->flags, nullptr));
  }
  if (error != 0) {
    rte_mempool_free(pool);
    return Failed(absl::StrCat("no pool of ", count, " buffers"), error);
  }
  rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
  return pool;
}

void FreeRing(rte_ring* ring) {
  void* packet = nullptr;
  while (rte_ring_sc_dequeue(ring, &packet) == 0) {
    rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
  }
  rte_ring_free(ring);
}

absl::Status StartDevice(uint16_t device, uint16_t rx_queues,
                         uint16_t tx_queues, rte_mempool* pool, Mac& mac,
                         uint16_t& mtu) {
  rte_eth_conf conf = {};
  int error = rte_eth_dev_configure(device, rx_queues, tx_queues, &conf);
  for (uint16_t queue = 0; error == 0 && queue < rx_queues; ++queue) {
    error = rte_eth_rx_queue_setup(device, queue, kDescriptors, SOCKET_ID_ANY,
                                   nullptr, pool);
  }
  for (uint16_t queue = 0; error == 0 && queue < tx_queues; ++queue) {
    error = rte_eth_tx_queue_setup(device, queue, kDescriptors, SOCKET_ID_ANY,
                                   nullptr);
  }
  if (error == 0) error = rte_eth_dev_start(device);
  rte_ether_addr address;
  if (error == 0) error = rte_eth_macaddr_get(device, &address);
  if (error == 0) error = rte_eth_dev_get_mtu(device, &mtu);
  if (error != 0) return Failed(absl::StrCat("device ", device), error);
  std::memcpy(mac.data(), address.addr_bytes, mac.size());
  LowerToInterface(device, mtu);
  return absl::OkStatus();
}

}  // namespace planb::router
