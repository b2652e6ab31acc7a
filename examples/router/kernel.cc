// SPDX-License-Identifier: Apache-2.0

#include "examples/router/kernel.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace planb::router {
namespace {

constexpr int kTurnMilliseconds = 20;
constexpr int kReceiveBytes = 1 << 20;
constexpr uint16_t kHasMac = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE |
                             NUD_PROBE | NUD_STALE | NUD_DELAY;

absl::Status Failed(absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("netlink: ", what));
}

absl::string_view Data(const rtattr* attribute) {
  return {static_cast<const char*>(RTA_DATA(attribute)),
          RTA_PAYLOAD(attribute)};
}

// A message about one neighbour, or a request for all.
struct Request {
  nlmsghdr header = {};
  ndmsg neighbor = {};
  // The attribute NDA_DST.
  rtattr attribute = {};
  char address[16] = {};
};

}  // namespace

absl::Status AddKernelAddresses(std::vector<Port>& ports) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return Failed("no list of addresses");
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    absl::string_view packed;
    if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* const v6 =
          reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      packed = {reinterpret_cast<const char*>(&v6->sin6_addr), 16};
    } else if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* const v4 =
          reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      packed = {reinterpret_cast<const char*>(&v4->sin_addr), 4};
    } else {
      continue;
    }
    for (Port& port : ports) {
      // Packets to and from link-local addresses are not forwarded anyway.
      if (port.interface != entry->ifa_name ||
          (packed.size() == 16 && packed[0] == '\xfe')) {
        continue;
      }
      port.addresses.push_back(*Address::FromPacked(packed));
    }
  }
  freeifaddrs(list);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<KernelNeighbors>> KernelNeighbors::Follow(
    const std::vector<Port>& ports, Neighbors& neighbors) {
  std::unique_ptr<KernelNeighbors> kernel(
      new KernelNeighbors(ports, neighbors));
  absl::Status opened = kernel->Open();
  if (!opened.ok()) return opened;
  kernel->List();
  while (kernel->listing_ && kernel->Read(1000)) {
  }
  kernel->thread_ = std::thread([&kernel = *kernel] { kernel.Run(); });
  return kernel;
}

KernelNeighbors::~KernelNeighbors() {
  closing_ = true;
  if (thread_.joinable()) thread_.join();
  if (socket_ >= 0) close(socket_);
}

absl::Status KernelNeighbors::Open() {
  for (size_t i = 0; i < ports_.size(); ++i) {
    const unsigned number = if_nametoindex(ports_[i].interface.c_str());
    if (number == 0) return Failed(ports_[i].interface);
    interface_of_.push_back(static_cast<int>(number));
    port_of_[interface_of_.back()] = i;
  }
  socket_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (socket_ < 0) return Failed("no socket");
  setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &kReceiveBytes,
             sizeof(kReceiveBytes));
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_NEIGH;
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0) {
    return Failed("no events of neighbours");
  }
  return absl::OkStatus();
}

void KernelNeighbors::Run() {
  while (!closing_) {
    for (const Neighbors::Key& key : neighbors_.TakeWanted()) Ask(key);
    // The kernel drops all events until the socket was empty once, and makes no
    // second list beside one.
    const bool due = lost_ && !listing_;
    if (!Read(due ? 0 : kTurnMilliseconds) && due) List();
  }
}

void KernelNeighbors::List() {
  Request request;
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof(ndmsg));
  request.header.nlmsg_type = RTM_GETNEIGH;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.header.nlmsg_seq = ++list_;
  listing_ = send(socket_, &request, request.header.nlmsg_len, 0) >= 0;
  lost_ = !listing_;
  listed_.clear();
}

void KernelNeighbors::Ask(const Neighbors::Key& key) {
  const std::string packed = key.second.ToPacked();
  Request request;
  request.header.nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(sizeof(ndmsg)) +
                                                   RTA_LENGTH(packed.size()));
  request.header.nlmsg_type = RTM_NEWNEIGH;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE;
  request.neighbor.ndm_family =
      key.second.family() == Family::kIpv6 ? AF_INET6 : AF_INET;
  request.neighbor.ndm_ifindex = interface_of_[key.first];
  // As if a packet were sent to it.
  request.neighbor.ndm_flags = NTF_USE;
  request.attribute.rta_len =
      static_cast<unsigned short>(RTA_LENGTH(packed.size()));
  request.attribute.rta_type = NDA_DST;
  std::memcpy(request.address, packed.data(), packed.size());
  send(socket_, &request, request.header.nlmsg_len, 0);
}

bool KernelNeighbors::Read(int wait_milliseconds) {
  pollfd ready = {.fd = socket_, .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, wait_milliseconds) <= 0) return false;
  alignas(nlmsghdr) char buffer[1 << 16];
  const ssize_t bytes = recv(socket_, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (bytes < 0) {
    lost_ = lost_ || errno == ENOBUFS;
    return errno == ENOBUFS;
  }
  auto left = static_cast<int>(bytes);
  for (const auto* message = reinterpret_cast<const nlmsghdr*>(buffer);
       NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
    Take(*message);
  }
  return true;
}

void KernelNeighbors::Take(const nlmsghdr& message) {
  const bool of_list = listing_ && message.nlmsg_seq == list_;
  if (message.nlmsg_type == NLMSG_ERROR && of_list) {
    listing_ = false;
    lost_ = true;
    return;
  }
  if (message.nlmsg_type == NLMSG_DONE && of_list) {
    listing_ = false;
    if (lost_) return;  // it may lack some
    for (const Neighbors::Key& key : known_) {
      if (listed_.count(key) == 0) {
        neighbors_.Set(key.first, key.second, std::nullopt);
      }
    }
    known_ = listed_;
    return;
  }
  if ((message.nlmsg_type != RTM_NEWNEIGH &&
       message.nlmsg_type != RTM_DELNEIGH) ||
      message.nlmsg_len < NLMSG_LENGTH(sizeof(ndmsg))) {
    return;
  }
  const auto* const neighbor = static_cast<const ndmsg*>(NLMSG_DATA(&message));
  const auto port = port_of_.find(neighbor->ndm_ifindex);
  if (port == port_of_.end() || (neighbor->ndm_flags & NTF_PROXY) != 0) return;
  absl::string_view address, mac;
  auto left = static_cast<int>(NLMSG_PAYLOAD(&message, sizeof(ndmsg)));
  for (const auto* attribute = reinterpret_cast<const rtattr*>(
           reinterpret_cast<const char*>(neighbor) +
           NLMSG_ALIGN(sizeof(ndmsg)));
       RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type == NDA_DST) address = Data(attribute);
    if (attribute->rta_type == NDA_LLADDR) mac = Data(attribute);
  }
  const auto parsed = Address::FromPacked(address);
  if (!parsed.ok()) return;  // of a bridge
  const Neighbors::Key key(port->second, *parsed);
  std::optional<Mac> found;
  // Of a subnet's broadcast address the kernel has the MAC address of all. That
  // is no neighbour: what is sent to it is not forwarded (RFC 2644).
  if (message.nlmsg_type == RTM_NEWNEIGH && mac.size() == sizeof(Mac) &&
      (neighbor->ndm_state & kHasMac) != 0 && (mac[0] & 1) == 0) {
    std::memcpy(found.emplace().data(), mac.data(), mac.size());
    known_.insert(key);
    listed_.insert(key);
  } else {
    known_.erase(key);
    listed_.erase(key);
  }
  neighbors_.Set(key.first, key.second, found);
  if (neighbor->ndm_state == NUD_STALE) Ask(key);
}

}  // namespace planb::router
