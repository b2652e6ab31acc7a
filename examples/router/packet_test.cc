// SPDX-License-Identifier: Apache-2.0

#include "examples/router/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "examples/router/testing/frames.h"

namespace planb::router {
namespace {

constexpr char kSource4[] = "192.0.2.1";
constexpr char kDestination4[] = "198.51.100.1";

Frame Ipv4(FrameOptions options = {}) {
  options.source = kSource4;
  options.destination = kDestination4;
  return MakeFrame(options);
}

Verdict Check(const Frame& frame, Packet& packet) {
  return CheckPacket(frame, frame.size(), kStation, packet);
}
Verdict Check(const Frame& frame) {
  Packet packet;
  return Check(frame, packet);
}

TEST(Packet, IsMeasuredWithoutThePaddingOfItsFrame) {
  for (const bool v6 : {true, false}) {
    const Frame frame =
        v6 ? MakeFrame({.padding = 6}) : Ipv4({.bytes = 12, .padding = 14});
    Packet packet;
    EXPECT_EQ(Check(frame, packet), Verdict::kForward);
    EXPECT_EQ(packet.family, v6 ? Family::kIpv6 : Family::kIpv4);
    EXPECT_EQ(packet.bytes, v6 ? 14 + 40 + 8 : 14 + 20 + 12);
  }
}

TEST(Packet, IsDroppedForTheReasonThatItGives) {
  const auto with = [](Frame frame, size_t at, uint8_t value) {
    frame[at] = value;
    return frame;
  };
  const auto with4 = [&](size_t at, uint8_t value) {
    Frame frame = with(Ipv4(), at, value);
    SetIpv4Checksum(frame);
    return frame;
  };
  const Frame v6 = MakeFrame({});
  const std::vector<std::pair<Frame, Verdict>> cases = {
      {with(v6, 0, 3), Verdict::kOtherStation},
      {with(v6, 13, 0x06), Verdict::kNotIp},  // ARP's type is 0x0806
      {with(v6, 14, 0x40), Verdict::kBadVersion},
      {with(v6, 5 + 14, 9), Verdict::kBadLength},
      {with(v6, 4 + 14, 0xff), Verdict::kBadLength},
      {MakeFrame({.protocol = 0, .bytes = 0}), Verdict::kBadLength},  // jumbo
      {MakeFrame({.protocol = 59, .bytes = 0}), Verdict::kForward},
      {MakeFrame({.destination = "ff02::1"}), Verdict::kBadAddress},
      {MakeFrame({.destination = "ff0e::1"}), Verdict::kBadAddress},
      {MakeFrame({.destination = "fe80::1"}), Verdict::kBadAddress},
      {MakeFrame({.source = "fe80::1"}), Verdict::kBadAddress},
      {MakeFrame({.source = "::"}), Verdict::kBadAddress},
      {MakeFrame({.destination = "::1"}), Verdict::kBadAddress},
      {MakeFrame({.destination = "::2"}), Verdict::kForward},
      {MakeFrame({.hops = 1}), Verdict::kExpired},
      {MakeFrame({.hops = 0}), Verdict::kExpired},
      {MakeFrame({.hops = 2}), Verdict::kForward},
      {with4(14, 0x65), Verdict::kBadVersion},
      {with(Ipv4(), 14, 0x44), Verdict::kBadLength},  // its header is too short
      {with(Ipv4(), 14, 0x4f), Verdict::kBadLength},  // longer than the packet
      {with4(14 + 3, 19), Verdict::kBadLength},
      {with4(14 + 3, 29), Verdict::kBadLength},
      {Ipv4({.bytes = 65'521 - 20}), Verdict::kForward},
      {Ipv4({.bytes = 65'522 - 20}), Verdict::kBadLength},
      {MakeFrame({.bytes = 65'521 - 40}), Verdict::kForward},
      {MakeFrame({.bytes = 65'522 - 40}), Verdict::kBadLength},
      {with(Ipv4(), 14 + 1, 1), Verdict::kBadChecksum},
      {with4(14 + 16, 224), Verdict::kBadAddress},
      {with4(14 + 16, 127), Verdict::kBadAddress},
      {with4(14 + 12, 0), Verdict::kBadAddress},
      {with4(14 + 8, 1), Verdict::kExpired},
      {with4(14 + 6, 0x20), Verdict::kForward},  // a fragment
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(VerdictName(Check(cases[i].first)), VerdictName(cases[i].second))
        << "case " << i;
  }
}

TEST(Packet, IsNotForwardedIfItWasCut) {
  for (const Frame& frame : {MakeFrame({}), Ipv4()}) {
    for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
      // A copy of this size, so that ASan sees a byte read behind it.
      const Verdict verdict =
          Check(Frame(frame.begin(), frame.begin() + bytes));
      EXPECT_TRUE(verdict == Verdict::kTruncated ||
                  verdict == Verdict::kBadLength);
    }
  }
}

TEST(Packet, FlowsAreKeptTogetherAndSpread) {
  Packet a, b;
  ASSERT_EQ(Check(MakeFrame({.hops = 9, .number = 1, .bytes = 100}), a),
            Verdict::kForward);
  ASSERT_EQ(Check(MakeFrame({.number = 2}), b), Verdict::kForward);
  EXPECT_EQ(a.flow_hash, b.flow_hash);
  // Fragments have no ports: each of a packet has the same hash.
  Frame first = Ipv4(), later = Ipv4({.port = 77});
  first[14 + 6] = 0x20;
  later[14 + 7] = 1;
  for (Frame* frame : {&first, &later}) SetIpv4Checksum(*frame);
  ASSERT_EQ(Check(first, a), Verdict::kForward);
  ASSERT_EQ(Check(later, b), Verdict::kForward);
  EXPECT_EQ(a.flow_hash, b.flow_hash);
  std::map<uint32_t, int> shares;
  for (uint16_t port = 0; port < 3000; ++port) {
    Check(port % 2 == 0 ? Ipv4({.port = port}) : MakeFrame({.port = port}), a);
    ++shares[a.flow_hash % 3];
  }
  for (const auto& [core, flows] : shares) EXPECT_NEAR(flows, 1000, 150);
}

TEST(Rewrite, KeepsEveryChecksumRight) {
  std::mt19937 random(1);
  // With each number of a packet once, and so with each sum.
  for (int i = 0; i < 0x10000; ++i) {
    Frame frame = Ipv4({.hops = static_cast<uint8_t>(2 + random() % 254)});
    frame[14 + 4] = static_cast<uint8_t>(i >> 8);
    frame[14 + 5] = static_cast<uint8_t>(i);
    SetIpv4Checksum(frame);
    const uint8_t before = frame[14 + 8];
    Rewrite(frame.data(), Family::kIpv4, kStation, kPeer);
    ASSERT_EQ(frame[14 + 8], before - 1);
    // The very one that is computed anew: 0, not 0xffff.
    Frame anew = frame;
    SetIpv4Checksum(anew);
    ASSERT_EQ(frame, anew);
  }
  Frame frame = MakeFrame({.hops = 2});
  Frame expected = frame;
  expected[14 + 7] = 1;
  std::swap_ranges(&expected[0], &expected[6], &expected[6]);
  Rewrite(frame.data(), Family::kIpv6, kStation, kPeer);
  EXPECT_EQ(frame, expected);
}

Frame IcmpAbout(const Frame& frame, Verdict verdict, uint16_t mtu = 1400) {
  Frame out(kMaxIcmpFrame);
  const bool v6 = frame[12] == 0x86;
  out.resize(MakeIcmpError(verdict, frame,
                           *Address::Parse(v6 ? "2001:db8::ff" : "192.0.2.254"),
                           kStation, mtu, out.data()));
  return out;
}

TEST(Icmp, QuotesThePacketAndReturnsToItsSource) {
  const std::map<Verdict, std::pair<int, int>> kinds6 = {
      {Verdict::kExpired, {3, 0}},
      {Verdict::kNoRoute, {1, 0}},
      {Verdict::kUnresolved, {1, 3}},
      {Verdict::kTooBig, {2, 0}}};
  for (const auto& [verdict, kind] : kinds6) {
    const Frame about = MakeFrame({.bytes = 2000});
    Frame reply = IcmpAbout(about, verdict);
    ASSERT_EQ(reply.size(), kMaxIcmpFrame);
    EXPECT_EQ(reply[14 + 40], kind.first);
    EXPECT_EQ(reply[14 + 41], kind.second);
    EXPECT_EQ(std::memcmp(&reply[14 + 48], &about[14], 1280 - 48), 0);
    EXPECT_EQ(std::memcmp(&reply[14 + 24], &about[14 + 8], 16), 0);
    EXPECT_EQ(std::memcmp(&reply[0], kPeer.data(), 6), 0);
    if (verdict == Verdict::kTooBig) {
      EXPECT_EQ(reply[14 + 46] << 8 | reply[14 + 47], 1400);
    }
    // Length and protocol stand where the hop limit was, for the checksum.
    reply[14 + 7] = 58;
    reply[14 + 6] = 0;
    EXPECT_EQ(InternetChecksum({&reply[14 + 4], reply.size() - 18}), 0);
  }
  const Frame reply = IcmpAbout(Ipv4({.hops = 1}), Verdict::kExpired);
  ASSERT_EQ(reply.size(), 14u + 20 + 8 + 28);
  EXPECT_EQ(reply[14 + 20], 11);
  EXPECT_EQ(InternetChecksum({&reply[14], 20}), 0);
  EXPECT_EQ(InternetChecksum({&reply[34], reply.size() - 34}), 0);
  Packet packet;
  Frame back = reply;
  std::swap_ranges(&back[0], &back[6], &back[6]);
  EXPECT_EQ(Check(back, packet), Verdict::kForward);
}

TEST(Icmp, IsNotSentAboutErrorsFragmentsAndOtherDrops) {
  EXPECT_TRUE(IcmpAbout(MakeFrame({}), Verdict::kQueueFull).empty());
  Frame frame = Ipv4({.protocol = 1});
  for (const uint8_t type : std::vector<uint8_t>{3, 4, 5, 11, 12, 99}) {
    frame[34] = type;
    EXPECT_TRUE(IcmpAbout(frame, Verdict::kExpired).empty());
  }
  frame[34] = 8;  // echo
  EXPECT_FALSE(IcmpAbout(frame, Verdict::kExpired).empty());
  frame[14 + 7] = 1;
  EXPECT_TRUE(IcmpAbout(frame, Verdict::kExpired).empty());
  // Packets that may be cut are no reason to tell that they are too big.
  EXPECT_TRUE(IcmpAbout(Ipv4(), Verdict::kTooBig).empty());

  frame = MakeFrame({.protocol = 58});
  frame[54] = 1;
  EXPECT_TRUE(IcmpAbout(frame, Verdict::kExpired).empty());
  frame[54] = 128;
  EXPECT_FALSE(IcmpAbout(frame, Verdict::kExpired).empty());
  // Behind destination options, and in a later fragment.
  frame = MakeFrame({.protocol = 60, .bytes = 16});
  std::fill(frame.begin() + 54, frame.end(), 0);
  frame[54] = 58;
  frame[62] = 1;
  EXPECT_TRUE(IcmpAbout(frame, Verdict::kExpired).empty());
  frame[62] = 129;
  EXPECT_FALSE(IcmpAbout(frame, Verdict::kExpired).empty());
  frame[55] = 200;  // longer than the packet
  EXPECT_TRUE(IcmpAbout(frame, Verdict::kExpired).empty());
  for (const uint8_t header : std::vector<uint8_t>{51, 135, 139, 140}) {
    frame = MakeFrame({.protocol = header, .bytes = 24});
    std::fill(frame.begin() + 54, frame.end(), 0);
    frame[54] = 58;
    frame[55] = header == 51 ? 2 : 1;  // of 16 bytes
    frame[70] = 1;
    EXPECT_TRUE(IcmpAbout(frame, Verdict::kExpired).empty()) << int{header};
    frame[70] = 128;
    EXPECT_FALSE(IcmpAbout(frame, Verdict::kExpired).empty()) << int{header};
  }
  frame = MakeFrame({.protocol = 44, .bytes = 16});
  frame[54] = 17;
  frame[54 + 2] = 0;
  frame[54 + 3] = 1;
  EXPECT_FALSE(IcmpAbout(frame, Verdict::kExpired).empty());
  frame[54 + 3] = 9;
  EXPECT_TRUE(IcmpAbout(frame, Verdict::kExpired).empty());
}

TEST(RateLimit, AllowsABurstAndThenTheRate) {
  RateLimit limit(10, 3);
  int allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += limit.Allow(5) ? 1 : 0;
  EXPECT_EQ(allowed, 3);
  for (int i = 0; i < 100; ++i) allowed += limit.Allow(5 + i / 100.0) ? 1 : 0;
  EXPECT_NEAR(allowed, 13, 1);
}

TEST(Packet, RandomBytesAreNeverReadOutside) {
  std::mt19937 random(1);
  const std::vector<Frame> seeds = {
      MakeFrame({}), Ipv4(), MakeFrame({.protocol = 60, .bytes = 64}),
      Ipv4({.protocol = 1, .bytes = 40}), MakeFrame({.protocol = 44})};
  size_t accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    Frame frame = seeds[random() % seeds.size()];
    frame.resize(std::min<size_t>(random() % 200 + 1, frame.size() + 40));
    for (size_t n = random() % 4; n > 0; --n) {
      frame[random() % frame.size()] = static_cast<uint8_t>(random());
    }
    frame.shrink_to_fit();
    Packet packet;
    const Verdict verdict = Check(frame, packet);
    if (verdict != Verdict::kForward && verdict != Verdict::kExpired) continue;
    ++accepted;
    ASSERT_LE(packet.bytes, frame.size());
    ASSERT_GE(packet.bytes, kEthernetBytes + 20);
    Frame trimmed(frame.begin(), frame.begin() + packet.bytes);
    ASSERT_LE(IcmpAbout(trimmed, Verdict::kExpired).size(), kMaxIcmpFrame);
  }
  EXPECT_GT(accepted, 2'500U);
}

TEST(Mac, IsReadStrictly) {
  EXPECT_EQ(*ParseMac("02:00:00:00:00:01"), kStation);
  EXPECT_EQ(MacText(kPeer), "02:00:00:00:00:02");
  for (const char* text : {"", "02:00:00:00:00", "02:00:00:00:00:0g",
                           "020:0:00:00:00:01", "02-00-00-00-00-01"}) {
    EXPECT_FALSE(ParseMac(text).ok()) << text;
  }
}

}  // namespace
}  // namespace planb::router
