// SPDX-License-Identifier: Apache-2.0

// The kernel resolves neighbours for the router: it hears the frames too. This
// follows what it knows by netlink, and asks it to find those that are missing.

#ifndef PLANB_EXAMPLES_ROUTER_KERNEL_H_
#define PLANB_EXAMPLES_ROUTER_KERNEL_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/router/next_hops.h"

struct nlmsghdr;

namespace planb::router {

// Adds the addresses that the interfaces of `ports` have now.
absl::Status AddKernelAddresses(std::vector<Port>& ports);

// Keeps `neighbors` as the kernel has them, on a thread of its own. The kernel
// forgets what it does not send to itself: a neighbour that grows stale is
// asked again, so that one with a new MAC address, or none, is noticed. Without
// a MAC address a neighbour is unresolved, and no route changes.
class KernelNeighbors {
 public:
  // `ports` and `neighbors` must outlive it. Errors: those of the sockets; no
  // such interface.
  static absl::StatusOr<std::unique_ptr<KernelNeighbors>> Follow(
      const std::vector<Port>& ports, Neighbors& neighbors);
  ~KernelNeighbors();

 private:
  KernelNeighbors(const std::vector<Port>& ports, Neighbors& neighbors)
      : ports_(ports), neighbors_(neighbors) {}
  absl::Status Open();
  void Run();
  // Asks for all; what does not come is gone.
  void List();
  // False if there was nothing to read.
  bool Read(int wait_milliseconds);
  void Take(const nlmsghdr& message);
  // Lets the kernel send its question to a neighbour, or the next one.
  void Ask(const Neighbors::Key& key);

  const std::vector<Port>& ports_;
  Neighbors& neighbors_;
  int socket_ = -1;
  std::map<int, size_t> port_of_;  // by the number of the interface
  std::vector<int> interface_of_;
  std::set<Neighbors::Key> known_, listed_;
  uint32_t list_ = 0;  // the number of the last one
  bool listing_ = false;
  bool lost_ = false;  // events: a list is due
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_KERNEL_H_
