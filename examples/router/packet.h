// SPDX-License-Identifier: Apache-2.0

// Frames as a router sees them: which are forwarded, which are dropped and why,
// what forwarding changes in them, and the ICMP errors about them. Works on
// bytes and knows no DPDK.

#ifndef PLANB_EXAMPLES_ROUTER_PACKET_H_
#define PLANB_EXAMPLES_ROUTER_PACKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lpm/address.h"

namespace planb::router {

using Mac = std::array<uint8_t, 6>;

// Errors: INVALID_ARGUMENT unless `text` is six hex pairs with colons.
absl::StatusOr<Mac> ParseMac(absl::string_view text);
std::string MacText(const Mac& mac);

// What becomes of a packet. Each but the first is a reason to drop it, and has
// a counter.
enum class Verdict : uint8_t {
  kForward,
  kOtherStation,  // a group's or another station's frame: the kernel's affair
  kNotIp,         // ARP, a VLAN's tag and the like: the same
  kLocal,         // to an address of this router: the same
  kTruncated,     // ends before its headers do
  kBadVersion,
  // Claims more bytes than came, fewer than its header, or, with Ethernet's,
  // 65,536 or more; a jumbogram.
  kBadLength,
  kBadChecksum,    // of an IPv4 header
  kBadAddress,     // one that is never forwarded, as group, link or loopback
  kExpired,        // TTL or hop limit; answered by ICMP
  kNoRoute,        // answered by ICMP
  kUnknownObject,  // the next hop has no object, or one without a port
  kUnresolved,     // no neighbour's MAC address; answered by ICMP
  kTooBig,         // for the port; answered by ICMP
  kNoAnswer,       // the table did not answer in time
  kQueueFull,      // a later stage is slower
  kPortFull,       // the port takes no more
};
inline constexpr size_t kVerdicts = 17;
absl::string_view VerdictName(Verdict verdict);

inline constexpr size_t kEthernetBytes = 14;

// What CheckPacket found out about a packet that may be forwarded.
struct Packet {
  Family family = Family::kIpv6;
  // The same for all packets of a flow: of addresses, protocol, and ports where
  // the packet is no fragment.
  uint32_t flow_hash = 0;
  // Ethernet header and IP packet. A short frame has padding behind them.
  uint16_t bytes = 0;
};

// Checks the first `frame.size()` bytes of a frame of `frame_bytes`. Reads no
// extension header: a router need not. Fills `packet` also for kExpired.
Verdict CheckPacket(absl::Span<const uint8_t> frame, size_t frame_bytes,
                    const Mac& station, Packet& packet);

// The destination, packed, of a frame that CheckPacket accepts.
inline const uint8_t* Destination(const uint8_t* frame, Family family) {
  return frame + kEthernetBytes + (family == Family::kIpv6 ? 24 : 16);
}

// Makes the frame leave: other MAC addresses, one hop less, and the checksum
// that follows from it.
void Rewrite(uint8_t* frame, Family family, const Mac& from, const Mac& to);

// Allows `rate` events a second, and `burst` at once. Thread-compatible.
class RateLimit {
 public:
  RateLimit(double rate, double burst)
      : rate_(rate), burst_(burst), tokens_(burst) {}

  // `seconds` is any clock's that does not go back.
  bool Allow(double seconds) {
    tokens_ += (seconds - last_) * rate_;
    last_ = seconds;
    if (tokens_ > burst_) tokens_ = burst_;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  const double rate_;
  const double burst_;
  double tokens_;
  double last_ = 0;
};

// The longest frame of an ICMP error (RFC 4443: the least IPv6 MTU).
inline constexpr size_t kMaxIcmpFrame = kEthernetBytes + 1280;

// Writes the ICMP error of kExpired, kNoRoute, kUnresolved or kTooBig about a
// packet to `out`, of kMaxIcmpFrame bytes. It goes back to the station that the
// packet came from. Returns its size; 0 where none may be sent: about an ICMP
// error, a later fragment, or a source that is no host (RFC 1812, 4.3.2.7; RFC
// 4443, 2.4), or for another verdict.
// REQUIRES: CheckPacket accepted `frame`, or it is kExpired. `source` is of its
// family.
size_t MakeIcmpError(Verdict verdict, absl::Span<const uint8_t> frame,
                     const Address& source, const Mac& station, uint16_t mtu,
                     uint8_t* out);

// The Internet checksum of `bytes`, to which `sum` is added; in network byte
// order when it is stored as it is.
uint16_t InternetChecksum(absl::Span<const uint8_t> bytes, uint32_t sum = 0);

}  // namespace planb::router

#endif  // PLANB_EXAMPLES_ROUTER_PACKET_H_
