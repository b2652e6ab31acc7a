// SPDX-License-Identifier: Apache-2.0

// Frames for tests.

#ifndef PLANB_EXAMPLES_ROUTER_TESTING_FRAMES_H_
#define PLANB_EXAMPLES_ROUTER_TESTING_FRAMES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "examples/router/packet.h"

namespace planb::router {

using Frame = std::vector<uint8_t>;

inline constexpr Mac kStation = {2, 0, 0, 0, 0, 1};
inline constexpr Mac kPeer = {2, 0, 0, 0, 0, 2};

struct FrameOptions {
  std::string source = "2001:db8::1";
  std::string destination = "2001:db8:1::1";
  uint8_t hops = 64;
  uint8_t protocol = 17;
  uint16_t port = 1;    // of the source
  uint32_t number = 0;  // behind the ports
  size_t bytes = 8;     // behind the IP header
  size_t padding = 0;   // behind the packet
};

inline void SetIpv4Checksum(Frame& frame) {
  uint8_t* const ip = &frame[kEthernetBytes];
  ip[10] = ip[11] = 0;
  const uint16_t sum = InternetChecksum({ip, size_t{4} * (ip[0] & 15)});
  std::memcpy(ip + 10, &sum, sizeof(sum));
}

inline Frame MakeFrame(const FrameOptions& options) {
  const std::string source = Address::Parse(options.source)->ToPacked();
  const std::string destination =
      Address::Parse(options.destination)->ToPacked();
  const bool v6 = source.size() == 16;
  const size_t header = v6 ? 40 : 20;
  Frame frame(kEthernetBytes + header + options.bytes + options.padding);
  std::memcpy(&frame[0], kStation.data(), 6);
  std::memcpy(&frame[6], kPeer.data(), 6);
  frame[12] = v6 ? 0x86 : 0x08;
  frame[13] = v6 ? 0xdd : 0x00;
  uint8_t* const ip = &frame[kEthernetBytes];
  const size_t length = v6 ? options.bytes : header + options.bytes;
  ip[0] = v6 ? 0x60 : 0x45;
  ip[v6 ? 4 : 2] = static_cast<uint8_t>(length >> 8);
  ip[v6 ? 5 : 3] = static_cast<uint8_t>(length);
  ip[v6 ? 6 : 9] = options.protocol;
  ip[v6 ? 7 : 8] = options.hops;
  std::memcpy(ip + (v6 ? 8 : 12), source.data(), source.size());
  std::memcpy(ip + (v6 ? 24 : 16), destination.data(), source.size());
  if (options.bytes >= 8) {
    ip[header] = static_cast<uint8_t>(options.port >> 8);
    ip[header + 1] = static_cast<uint8_t>(options.port);
    std::memcpy(ip + header + 4, &options.number, 4);
  }
  if (!v6) SetIpv4Checksum(frame);
  return frame;
}

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_TESTING_FRAMES_H_
