// SPDX-License-Identifier: Apache-2.0

// Attacks by frames and messages that are wrong.

#include <zlib.h>

#include <algorithm>
#include <string>

#include "planb/v1/route_lookup.pb.h"
#include "server/testing/hostile_attacks.h"
#include "server/testing/raw_http2.h"

namespace planb::server {
namespace {

using http2::Frame;
using http2::Preface;
using http2::RawConnection;

constexpr char kBatchLookup[] = "/planb.v1.RouteLookup/BatchLookup";
constexpr char kLookup[] = "/planb.v1.RouteLookup/Lookup";
constexpr char kUpdate[] = "/planb.v1.RouteTable/UpdateRoutes";

std::string OneBatch() {
  v1::BatchLookupRequest request;
  request.set_addresses_v6(std::string(160, '\x20'));
  return request.SerializeAsString();
}

std::string ACall(uint32_t stream) {
  return http2::OpenCall(stream, kBatchLookup) +
         Frame(http2::kData, http2::kEndStream, stream,
               http2::Message(OneBatch()));
}

void RandomBytes(Attacker& attacker) {
  RawConnection connection(attacker.target());
  while (attacker.Go() && connection.Send(attacker.RandomBytes(4096))) continue;
}

void GarbageAfterPreface(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  while (attacker.Go() && connection.Send(attacker.RandomBytes(4096))) continue;
}

// A call, one of whose frames has a wrong type, flags, stream, length or
// content.
void WrongFrames(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    const auto type = static_cast<uint8_t>(attacker.Random(12));
    const auto flags = static_cast<uint8_t>(attacker.Random(256));
    const uint32_t streams[] = {
        0,          1,          stream,
        stream + 2, 0x7fffffff, static_cast<uint32_t>(attacker.Random(64))};
    const uint64_t lengths[] = {0, 1, 3, 4, 5, 6, 8, 9, 64, 16'385};
    std::string payload =
        attacker.Random(2) == 0
            ? http2::CallHeaders(kBatchLookup)
            : attacker.RandomBytes(lengths[attacker.Random(10)]);
    const size_t told =
        attacker.Random(4) == 0 ? lengths[attacker.Random(10)] : payload.size();
    const bool sent = connection.Send(
        http2::FrameHeader(told, type, flags, streams[attacker.Random(6)]) +
        payload + ACall(stream));
    if (!sent) return;
  }
}

// Each byte of a sound beginning in turn, spoilt.
void SpoiltBytes(Attacker& attacker) {
  std::string bytes = Preface() + http2::SettingsAck() + ACall(1);
  bytes[attacker.Random(bytes.size())] ^=
      static_cast<char>(1 << attacker.Random(8));
  RawConnection connection(attacker.target());
  connection.Send(bytes + ACall(3));
  attacker.Go();
  connection.Drop();
}

void ClosedMidFrame(Attacker& attacker) {
  const std::string bytes = Preface() + http2::SettingsAck() + ACall(1);
  RawConnection connection(attacker.target());
  connection.Send(bytes.substr(0, attacker.Random(bytes.size())));
  attacker.Go();
}

// Says of a message that it has 4 GiB, or one byte more than is allowed, and
// sends as much of it as is taken.
void GiganticMessages(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  const uint32_t lengths[] = {0xffffffff, 0x80000000, (16u << 20) + 1};
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    const uint32_t length = lengths[attacker.Random(3)];
    if (!connection.Send(http2::OpenCall(stream, kBatchLookup))) return;
    connection.SendData(
        stream,
        http2::MessageHeader(false, length) + std::string(100'000, '\0'),
        absl::Milliseconds(200));
  }
}

// A frame of nearly 16 MiB, where 16 KiB are allowed.
void GiganticFrames(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck() +
                  http2::OpenCall(1, kBatchLookup) +
                  http2::FrameHeader(0xffffff, http2::kData, 0, 1));
  const std::string zeros(1 << 16, '\0');
  while (attacker.Go() && connection.Send(zeros)) continue;
}

// 128 MiB of zeros in 128 KiB, where messages of 16 MiB are allowed.
std::string MakeBomb() {
  z_stream deflating = {};
  constexpr int kGzip = 16 + MAX_WBITS;
  constexpr int kMebibytes = 128;
  deflateInit2(&deflating, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 9,
               Z_DEFAULT_STRATEGY);
  std::string zeros(1 << 20, '\0'), bomb(1 << 20, '\0');
  deflating.next_out = reinterpret_cast<Bytef*>(bomb.data());
  deflating.avail_out = static_cast<uInt>(bomb.size());
  for (int i = 0; i < kMebibytes; ++i) {
    deflating.next_in = reinterpret_cast<Bytef*>(zeros.data());
    deflating.avail_in = static_cast<uInt>(zeros.size());
    deflate(&deflating, i == kMebibytes - 1 ? Z_FINISH : Z_NO_FLUSH);
  }
  bomb.resize(deflating.total_out);
  deflateEnd(&deflating);
  return bomb;
}

void CompressedBombs(Attacker& attacker) {
  static const std::string bomb = MakeBomb();
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  const char* const paths[] = {kBatchLookup, kLookup, kUpdate};
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    if (!connection.Send(Frame(http2::kHeaders, http2::kEndHeaders, stream,
                               http2::CallHeaders(paths[stream / 2 % 3]) +
                                   http2::Literal("grpc-encoding", "gzip")))) {
      return;
    }
    connection.SendData(
        stream,
        http2::MessageHeader(true, static_cast<uint32_t>(bomb.size())) + bomb,
        absl::Milliseconds(200));
    if (!connection.Send(Frame(http2::kData, http2::kEndStream, stream, ""))) {
      return;
    }
  }
}

void MalformedMessages(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  const char* const paths[] = {kBatchLookup,
                               kLookup,
                               kUpdate,
                               "/planb.v1.RouteTable/ReplaceRoutes",
                               "/planb.v1.RouteTable/ImportSnapshot",
                               "/grpc.health.v1.Health/Check"};
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    std::string message = OneBatch();
    if (attacker.Random(2) == 0) {
      message = attacker.RandomBytes(attacker.Random(200));
    } else {
      message[attacker.Random(4)] = static_cast<char>(attacker.Random(256));
    }
    if (!connection.Send(http2::OpenCall(stream, paths[attacker.Random(6)]) +
                         Frame(http2::kData, http2::kEndStream, stream,
                               http2::Message(message)))) {
      return;
    }
  }
}

void WrongPaths(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    const std::string paths[] = {"",
                                 "/",
                                 "*",
                                 "//",
                                 "/planb.v1.RouteLookup/",
                                 "/no.Such/Method",
                                 "/planb.v1.RouteLookup/BatchLookup/",
                                 std::string(4000, '/'),
                                 attacker.RandomBytes(20)};
    if (!connection.Send(http2::OpenCall(stream, paths[attacker.Random(9)]) +
                         Frame(http2::kData, http2::kEndStream, stream,
                               http2::Message(OneBatch())))) {
      return;
    }
  }
}

}  // namespace

absl::Span<const Attack> MalformedAttacks() {
  static constexpr Attack kAttacks[] = {
      {"RandomBytes", "4 KiB", RandomBytes},
      {"GarbageAfterPreface", "4 KiB", GarbageAfterPreface},
      {"WrongFrames", "frame", WrongFrames},
      {"SpoiltBytes", "connection", SpoiltBytes},
      {"ClosedMidFrame", "connection", ClosedMidFrame},
      {"GiganticMessages", "call", GiganticMessages},
      {"GiganticFrames", "64 KiB", GiganticFrames},
      {"CompressedBombs", "call", CompressedBombs},
      {"MalformedMessages", "call", MalformedMessages, Attack::kEdge},
      {"WrongPaths", "call", WrongPaths, Attack::kEdge},
  };
  return kAttacks;
}

}  // namespace planb::server
