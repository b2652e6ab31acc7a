// SPDX-License-Identifier: Apache-2.0

#include "examples/router/packet.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace planb::router {
namespace {

constexpr uint16_t kTypeIpv4 = 0x0800;
constexpr uint16_t kTypeIpv6 = 0x86dd;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr uint8_t kHopByHop = 0, kIcmp = 1, kTcp = 6, kUdp = 17, kRouting = 43,
                  kFragment = 44, kAuthentication = 51, kIcmpv6 = 58,
                  kOptions = 60, kSctp = 132, kMobility = 135, kHip = 139,
                  kShim6 = 140;

uint16_t Read16(const uint8_t* at) {
  return static_cast<uint16_t>(at[0] << 8 | at[1]);
}
uint32_t Read32(const uint8_t* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof(value));
  return be32toh(value);
}
uint64_t Raw64(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
void Write16(uint8_t* at, size_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

bool HasPorts(uint8_t protocol) {
  return protocol == kTcp || protocol == kUdp || protocol == kSctp;
}

// Never a host's address, or one that stays on its link. A source may be no
// group either.
bool StaysHereV4(uint32_t address) {
  const uint32_t top = address >> 24;
  return top == 0 || top == 127 || top >> 4 == 14 || address == 0xffffffff ||
         address >> 16 == 0xa9fe;
}
bool StaysHereV6(const uint8_t* address) {
  if (address[0] == 0xff) return true;
  if (address[0] == 0xfe) return (address[1] & 0xc0) == 0x80;
  if (address[0] != 0) return false;
  // :: and ::1.
  const uint64_t low = Raw64(address + 8);
  return Raw64(address) == 0 && (low == 0 || low == htobe64(1));
}

Verdict CheckIpv4(absl::Span<const uint8_t> ip, size_t bytes, Packet& packet) {
  if (ip.size() < kIpv4Bytes) return Verdict::kTruncated;
  if (ip[0] >> 4 != 4) return Verdict::kBadVersion;
  const size_t header = size_t{4} * (ip[0] & 15);
  const size_t total = Read16(&ip[2]);
  if (header < kIpv4Bytes || total < header || total > bytes ||
      total + kEthernetBytes > 0xffff) {
    return Verdict::kBadLength;
  }
  if (ip.size() < header) return Verdict::kTruncated;
  if (InternetChecksum(ip.first(header)) != 0) return Verdict::kBadChecksum;
  const uint32_t source = Read32(&ip[12]), destination = Read32(&ip[16]);
  if (StaysHereV4(source) || StaysHereV4(destination)) {
    return Verdict::kBadAddress;
  }
  packet.family = Family::kIpv4;
  packet.bytes = static_cast<uint16_t>(kEthernetBytes + total);
  uint64_t hash = Mix(ip[9], Raw64(&ip[12]));
  const bool fragment = (Read16(&ip[6]) & 0x3fff) != 0;
  if (HasPorts(ip[9]) && !fragment && total >= header + 4 &&
      ip.size() >= header + 4) {
    hash = Mix(hash, Read32(&ip[header]));
  }
  packet.flow_hash = static_cast<uint32_t>(Mix(hash, 4) >> 32);
  return ip[8] > 1 ? Verdict::kForward : Verdict::kExpired;
}

Verdict CheckIpv6(absl::Span<const uint8_t> ip, size_t bytes, Packet& packet) {
  if (ip.size() < kIpv6Bytes) return Verdict::kTruncated;
  if (ip[0] >> 4 != 6) return Verdict::kBadVersion;
  const size_t payload = Read16(&ip[4]);
  const uint8_t next = ip[6];
  // Without a length and with hop-by-hop options: a jumbogram (RFC 2675).
  if (kIpv6Bytes + payload > bytes || (payload == 0 && next == kHopByHop) ||
      kIpv6Bytes + payload + kEthernetBytes > 0xffff) {
    return Verdict::kBadLength;
  }
  if (StaysHereV6(&ip[8]) || StaysHereV6(&ip[24])) return Verdict::kBadAddress;
  packet.family = Family::kIpv6;
  packet.bytes = static_cast<uint16_t>(kEthernetBytes + kIpv6Bytes + payload);
  uint64_t hash = Mix(Mix(next, Raw64(&ip[8])), Raw64(&ip[16]));
  hash = Mix(Mix(hash, Raw64(&ip[24])), Raw64(&ip[32]));
  if (HasPorts(next) && payload >= 4 && ip.size() >= kIpv6Bytes + 4) {
    hash = Mix(hash, Read32(&ip[kIpv6Bytes]));
  }
  packet.flow_hash = static_cast<uint32_t>(hash >> 32);
  return ip[7] > 1 ? Verdict::kForward : Verdict::kExpired;
}

// Those of IANA's that others may follow.
bool IsExtensionHeader(uint8_t protocol) {
  switch (protocol) {
    case kHopByHop:
    case kRouting:
    case kFragment:
    case kAuthentication:
    case kOptions:
    case kMobility:
    case kHip:
    case kShim6:
      return true;
    default:
      return false;
  }
}

// True if the packet is no ICMP error and its first fragment. Behind more
// extension headers than there should be, and cut ones, the protocol is not
// known: no error is sent about them.
bool MayAnswerV4(absl::Span<const uint8_t> ip) {
  if ((Read16(&ip[6]) & 0x1fff) != 0) return false;
  if (ip[9] != kIcmp) return true;
  const size_t header = size_t{4} * (ip[0] & 15);
  if (ip.size() <= header) return false;
  const uint8_t type = ip[header];
  return type == 0 || type == 8 || (type >= 13 && type <= 18);
}
bool MayAnswerV6(absl::Span<const uint8_t> ip) {
  uint8_t next = ip[6];
  ip.remove_prefix(kIpv6Bytes);
  for (int headers = 0; headers < 8; ++headers) {
    if (next == kIcmpv6) return !ip.empty() && ip[0] >= 128;
    if (!IsExtensionHeader(next)) return true;
    if (ip.size() < 8) return false;
    if (next == kFragment && (Read16(&ip[2]) & 0xfff8) != 0) return false;
    // An authentication header counts words, and two fewer than it has.
    const size_t bytes = next == kFragment         ? 8
                         : next == kAuthentication ? 4 * (ip[1] + size_t{2})
                                                   : 8 * (ip[1] + size_t{1});
    if (ip.size() < bytes) return false;
    next = ip[0];
    ip.remove_prefix(bytes);
  }
  return false;
}

struct IcmpKind {
  uint8_t type, code;
};

IcmpKind KindOf(Verdict verdict, Family family) {
  const bool v6 = family == Family::kIpv6;
  switch (verdict) {
    case Verdict::kExpired:
      return v6 ? IcmpKind{3, 0} : IcmpKind{11, 0};
    case Verdict::kNoRoute:
      return v6 ? IcmpKind{1, 0} : IcmpKind{3, 0};
    case Verdict::kUnresolved:
      return v6 ? IcmpKind{1, 3} : IcmpKind{3, 1};
    case Verdict::kTooBig:
      return v6 ? IcmpKind{2, 0} : IcmpKind{3, 4};
    default:
      return {0, 0};  // of no error
  }
}

}  // namespace

absl::StatusOr<Mac> ParseMac(absl::string_view text) {
  const std::string bytes =
      absl::HexStringToBytes(absl::StrJoin(absl::StrSplit(text, ':'), ""));
  Mac mac;
  if (text.size() == 17 && bytes.size() == mac.size()) {
    std::memcpy(mac.data(), bytes.data(), mac.size());
    if (absl::EqualsIgnoreCase(MacText(mac), text)) return mac;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is no MAC address such as 02:00:00:00:00:01"));
}

std::string MacText(const Mac& mac) {
  return absl::StrJoin(mac, ":", [](std::string* out, uint8_t byte) {
    absl::StrAppendFormat(out, "%02x", byte);
  });
}

absl::string_view VerdictName(Verdict verdict) {
  static constexpr absl::string_view kNames[kVerdicts] = {
      "forward",     "other_station", "not_ip",     "local",
      "truncated",   "bad_version",   "bad_length", "bad_checksum",
      "bad_address", "expired",       "no_route",   "unknown_object",
      "unresolved",  "too_big",       "no_answer",  "queue_full",
      "port_full"};
  return kNames[static_cast<size_t>(verdict)];
}

uint16_t InternetChecksum(absl::Span<const uint8_t> bytes, uint32_t sum) {
  for (; bytes.size() > 1; bytes.remove_prefix(2)) {
    uint16_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    sum += word;
  }
  if (!bytes.empty()) sum += htole16(bytes[0]);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~((sum & 0xffff) + (sum >> 16)));
}

Verdict CheckPacket(absl::Span<const uint8_t> frame, size_t frame_bytes,
                    const Mac& station, Packet& packet) {
  if (frame.size() < kEthernetBytes) return Verdict::kTruncated;
  if (std::memcmp(frame.data(), station.data(), station.size()) != 0) {
    return Verdict::kOtherStation;
  }
  const absl::Span<const uint8_t> ip = frame.subspan(kEthernetBytes);
  const size_t bytes = frame_bytes - kEthernetBytes;
  switch (Read16(&frame[12])) {
    case kTypeIpv6:
      return CheckIpv6(ip, bytes, packet);
    case kTypeIpv4:
      return CheckIpv4(ip, bytes, packet);
    default:
      return Verdict::kNotIp;
  }
}

void Rewrite(uint8_t* frame, Family family, const Mac& from, const Mac& to) {
  std::memcpy(frame, to.data(), to.size());
  std::memcpy(frame + 6, from.data(), from.size());
  uint8_t* const ip = frame + kEthernetBytes;
  if (family == Family::kIpv6) {
    --ip[7];
    return;
  }
  --ip[8];
  // The word with the TTL became 0x100 less, so the sum grows by it. 0xffff is
  // the sum of no header (RFC 1624), and 0 the same in its place.
  const uint32_t sum = Read16(ip + 10) + 0x100U;
  Write16(ip + 10, (sum + (sum >= 0xffff ? 1 : 0)) & 0xffff);
}

size_t MakeIcmpError(Verdict verdict, absl::Span<const uint8_t> frame,
                     const Address& source, const Mac& station, uint16_t mtu,
                     uint8_t* out) {
  const bool v6 = source.family() == Family::kIpv6;
  const absl::Span<const uint8_t> ip = frame.subspan(kEthernetBytes);
  const IcmpKind kind = KindOf(verdict, source.family());
  if (kind.type == 0 || !(v6 ? MayAnswerV6(ip) : MayAnswerV4(ip))) return 0;
  // An IPv4 packet that may be cut would be; this router does not.
  if (!v6 && verdict == Verdict::kTooBig && (ip[6] & 0x40) == 0) return 0;
  const size_t header = v6 ? kIpv6Bytes : kIpv4Bytes;
  const size_t most = (v6 ? 1280 : 576) - header - 8;
  const size_t quoted = std::min(ip.size(), most);

  std::memset(out, 0, kEthernetBytes + header + 8);
  std::memcpy(out, &frame[6], 6);
  std::memcpy(out + 6, station.data(), station.size());
  std::memcpy(out + 12, &frame[12], 2);
  uint8_t* const reply = out + kEthernetBytes;
  uint8_t* const icmp = reply + header;
  icmp[0] = kind.type;
  icmp[1] = kind.code;
  if (verdict == Verdict::kTooBig) Write16(icmp + 6, mtu);
  std::memcpy(icmp + 8, ip.data(), quoted);
  const absl::Span<const uint8_t> message(icmp, 8 + quoted);
  const std::string own = source.ToPacked();
  uint16_t sum;
  if (v6) {
    reply[0] = 0x60;
    Write16(reply + 4, message.size());
    reply[6] = kIcmpv6;
    reply[7] = 64;
    std::memcpy(reply + 8, own.data(), 16);
    std::memcpy(reply + 24, &ip[8], 16);
    // The pseudo-header: addresses, length, protocol.
    uint32_t pseudo = htobe16(static_cast<uint16_t>(message.size())) +
                      uint32_t{htobe16(kIcmpv6)};
    pseudo += static_cast<uint16_t>(~InternetChecksum({reply + 8, 32}));
    sum = InternetChecksum(message, pseudo);
  } else {
    reply[0] = 0x45;
    Write16(reply + 2, kIpv4Bytes + message.size());
    reply[8] = 64;
    reply[9] = kIcmp;
    std::memcpy(reply + 12, own.data(), 4);
    std::memcpy(reply + 16, &ip[12], 4);
    sum = InternetChecksum({reply, kIpv4Bytes});
    std::memcpy(reply + 10, &sum, sizeof(sum));
    sum = InternetChecksum(message);
  }
  std::memcpy(icmp + 2, &sum, sizeof(sum));
  return kEthernetBytes + header + message.size();
}

}  // namespace planb::router
