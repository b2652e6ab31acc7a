// SPDX-License-Identifier: Apache-2.0

// A fuzz target: any bytes, as a frame that a port received. libFuzzer runs it
// (third_party/fuzz.sh); packet_fuzzer_test.cc replays the corpus.
//
// Bit 0 of the first byte: the frame gets the station's MAC address. Bit 1: its
// IPv4 checksum is made right. Bit 2: as many bytes as the next two say come
// behind it, in a later segment. The rest is the frame. What is accepted, what
// forwarding makes of it and the ICMP errors about it are compared with the
// headers as libc's structures have them. A disagreement aborts.

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>

#include "examples/router/packet.h"
#include "examples/router/testing/frames.h"

namespace planb::router {
namespace {

void Require(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::abort();
}

// The sum of RFC 1071, word for word: 0xffff with a right checksum.
uint32_t Sum(absl::Span<const uint8_t> bytes, uint32_t sum = 0) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : bytes[i];
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

struct Accepted {
  Verdict verdict;
  size_t bytes;
};

std::optional<Accepted> ReadV6(absl::Span<const uint8_t> at, size_t bytes) {
  ip6_hdr ip;
  if (at.size() < sizeof(ip)) return std::nullopt;
  std::memcpy(&ip, at.data(), sizeof(ip));
  const size_t total = sizeof(ip) + ntohs(ip.ip6_plen);
  if (ip.ip6_vfc >> 4 != 6 || total > bytes ||
      sizeof(ether_header) + total > 65'535 ||
      (ip.ip6_plen == 0 && ip.ip6_nxt == IPPROTO_HOPOPTS)) {
    return std::nullopt;
  }
  for (const in6_addr& a : {ip.ip6_src, ip.ip6_dst}) {
    if (IN6_IS_ADDR_MULTICAST(&a) || IN6_IS_ADDR_LINKLOCAL(&a) ||
        IN6_IS_ADDR_UNSPECIFIED(&a) || IN6_IS_ADDR_LOOPBACK(&a)) {
      return std::nullopt;
    }
  }
  return {{ip.ip6_hlim > 1 ? Verdict::kForward : Verdict::kExpired, total}};
}

std::optional<Accepted> ReadV4(absl::Span<const uint8_t> at, size_t bytes) {
  ip ip;
  if (at.size() < sizeof(ip)) return std::nullopt;
  std::memcpy(&ip, at.data(), sizeof(ip));
  const size_t header = size_t{4} * ip.ip_hl;
  const size_t total = ntohs(ip.ip_len);
  if (ip.ip_v != 4 || header < sizeof(ip) || header > at.size() ||
      total < header || total > bytes ||
      sizeof(ether_header) + total > 65'535 ||
      Sum(at.first(header)) != 0xffff) {
    return std::nullopt;
  }
  for (const in_addr& packed : {ip.ip_src, ip.ip_dst}) {
    const in_addr_t a = ntohl(packed.s_addr);
    if (IN_MULTICAST(a) || a == INADDR_BROADCAST || a >> 24 == 0 ||
        a >> 24 == IN_LOOPBACKNET || a >> 16 == 0xa9fe) {
      return std::nullopt;
    }
  }
  return {{ip.ip_ttl > 1 ? Verdict::kForward : Verdict::kExpired, total}};
}

std::optional<Accepted> Read(const Frame& frame, size_t frame_bytes) {
  ether_header ethernet;
  if (frame.size() < sizeof(ethernet)) return std::nullopt;
  std::memcpy(&ethernet, frame.data(), sizeof(ethernet));
  if (std::memcmp(ethernet.ether_dhost, kStation.data(), kStation.size()) !=
      0) {
    return std::nullopt;
  }
  const auto ip =
      absl::Span<const uint8_t>(frame).subspan(sizeof(ether_header));
  const size_t bytes = frame_bytes - sizeof(ether_header);
  std::optional<Accepted> accepted;
  const uint16_t type = ntohs(ethernet.ether_type);
  if (type == ETHERTYPE_IPV6) accepted = ReadV6(ip, bytes);
  if (type == ETHERTYPE_IP) accepted = ReadV4(ip, bytes);
  if (accepted.has_value()) accepted->bytes += sizeof(ether_header);
  return accepted;
}

bool Same(const Packet& a, const Packet& b) {
  return a.family == b.family && a.flow_hash == b.flow_hash &&
         a.bytes == b.bytes;
}

void CheckForwarded(const Frame& frame, const Packet& packet) {
  const bool v6 = packet.family == Family::kIpv6;
  Frame out = frame;
  Rewrite(out.data(), packet.family, kStation, kPeer);
  Frame right = frame;
  std::memcpy(&right[0], kPeer.data(), kPeer.size());
  std::memcpy(&right[6], kStation.data(), kStation.size());
  const uint8_t hops = --right[v6 ? 21 : 22];
  if (!v6) {
    right[24] = right[25] = 0;
    const size_t header = size_t{4} * (right[14] & 15);
    const uint32_t sum = ~Sum(absl::Span<const uint8_t>(&right[14], header));
    right[24] = static_cast<uint8_t>(sum >> 8);
    right[25] = static_cast<uint8_t>(sum);
  }
  Require(out == right, "what forwarding changes");
  // The next router takes it as the same flow's.
  Packet next;
  Require(CheckPacket(out, packet.bytes, kPeer, next) ==
              (hops > 1 ? Verdict::kForward : Verdict::kExpired),
          "a forwarded packet is accepted");
  Require(Same(next, packet), "a forwarded packet is of its flow");
}

void CheckIcmpErrors(const Frame& frame, Family family) {
  const bool v6 = family == Family::kIpv6;
  const Address source = *Address::Parse(v6 ? "2001:db8::ff" : "192.0.2.254");
  const size_t header = v6 ? 40 : 20;
  const auto ip = absl::Span<const uint8_t>(frame).subspan(kEthernetBytes);
  for (size_t i = 0; i < kVerdicts; ++i) {
    const auto why = static_cast<Verdict>(i);
    Frame reply(kMaxIcmpFrame);
    const size_t size =
        MakeIcmpError(why, frame, source, kStation, 1400, reply.data());
    Require(size <= reply.size(), "size of an ICMP error");
    if (size == 0) continue;
    Require(why == Verdict::kExpired || why == Verdict::kNoRoute ||
                why == Verdict::kUnresolved || why == Verdict::kTooBig,
            "a reason for an ICMP error");
    if (v6) {
      Require(ip[6] != IPPROTO_ICMPV6 || (ip.size() > 40 && ip[40] >= 128),
              "an ICMP error about one");
    } else {
      Require((ip[6] & 31) == 0 && ip[7] == 0, "about a later fragment");
      Require(why != Verdict::kTooBig || (ip[6] & 0x40) != 0,
              "too big, and may be cut");
    }
    reply.resize(size);
    Mac back;
    std::memcpy(back.data(), &frame[6], back.size());
    Packet packet;
    Require(CheckPacket(reply, size, back, packet) == Verdict::kForward &&
                packet.bytes == size && packet.family == family,
            "an ICMP error is a packet");
    const auto icmp =
        absl::Span<const uint8_t>(reply).subspan(kEthernetBytes + header);
    const size_t quoted = icmp.size() - 8;
    Require(quoted <= ip.size() && quoted >= std::min(ip.size(), header + 8) &&
                std::memcmp(&icmp[8], ip.data(), quoted) == 0,
            "what an ICMP error quotes");
    uint32_t pseudo = 0;
    if (v6) {
      pseudo = Sum({&reply[kEthernetBytes + 8], 32});
      pseudo += static_cast<uint32_t>(icmp.size()) + IPPROTO_ICMPV6;
    }
    Require(Sum(icmp, pseudo) == 0xffff, "checksum of an ICMP error");
    Require(MakeIcmpError(Verdict::kNoRoute, reply, source, back, 1400,
                          Frame(kMaxIcmpFrame).data()) == 0,
            "an error about an ICMP error");
  }
}

void Check(const Frame& frame, size_t frame_bytes) {
  Packet packet;
  const Verdict verdict = CheckPacket(frame, frame_bytes, kStation, packet);
  const std::optional<Accepted> accepted = Read(frame, frame_bytes);
  const bool taken =
      verdict == Verdict::kForward || verdict == Verdict::kExpired;
  Require(!VerdictName(verdict).empty(), "a verdict");
  Require(taken == accepted.has_value(), "accepted or not");
  if (!taken) return;
  Require(verdict == accepted->verdict, "expired or not");
  Require(packet.bytes == accepted->bytes && packet.bytes <= frame_bytes,
          "bytes of the packet");
  const size_t address = packet.family == Family::kIpv6 ? 16 : 4;
  Require(Destination(frame.data(), packet.family) + address <=
              frame.data() + frame.size(),
          "the destination is in the frame");

  // Without its padding it is the same.
  const Frame cut(
      frame.begin(),
      frame.begin() + std::min<ptrdiff_t>(std::ssize(frame), packet.bytes));
  Packet again;
  Require(CheckPacket(cut, packet.bytes, kStation, again) == verdict &&
              Same(again, packet),
          "without padding");
  if (verdict == Verdict::kForward) CheckForwarded(cut, packet);
  // About packets in one segment.
  if (cut.size() == packet.bytes) CheckIcmpErrors(cut, packet.family);
}

}  // namespace
}  // namespace planb::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace planb::router;
  if (size < 3) return 0;
  // Of its size, so that ASan sees a byte that is read behind it.
  Frame frame(data + 3, data + size);
  if ((data[0] & 1) != 0) {
    std::copy_n(kStation.begin(), std::min(kStation.size(), frame.size()),
                frame.begin());
  }
  if ((data[0] & 2) != 0 && frame.size() >= kEthernetBytes + 20 &&
      frame.size() >= kEthernetBytes + size_t{4} * (frame[14] & 15)) {
    SetIpv4Checksum(frame);
  }
  const size_t later = (data[0] & 4) != 0 ? data[1] << 8 | data[2] : 0;
  Check(frame, frame.size() + later);
  return 0;
}
