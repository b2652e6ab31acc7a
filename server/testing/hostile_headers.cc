// SPDX-License-Identifier: Apache-2.0

// Attacks by headers in excess.

#include <string>

#include "server/testing/hostile_attacks.h"
#include "server/testing/raw_http2.h"

namespace planb::server {
namespace {

using http2::Frame;
using http2::Literal;
using http2::Preface;
using http2::RawConnection;

constexpr char kBatchLookup[] = "/planb.v1.RouteLookup/BatchLookup";
constexpr size_t kFrame = 16'000;  // below the 16,384 that a frame may have

// Opens a call whose header block goes on, in CONTINUATION frames of `payload`.
void Endless(Attacker& attacker, const std::string& first,
             const std::string& payload) {
  RawConnection connection(attacker.target());
  connection.Send(
      Preface() + http2::SettingsAck() +
      Frame(http2::kHeaders, 0, 1, http2::CallHeaders(kBatchLookup) + first));
  const std::string frame = Frame(http2::kContinuation, 0, 1, payload);
  while (attacker.Go() && connection.Send(frame)) continue;
}

// Blocks of a megabyte, one after the other, each ending as it should.
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

// Fields without end, each small.
void EndlessFields(Attacker& attacker) {
  std::string fields;
  while (fields.size() < kFrame - 16) fields += Literal("a", "b");
  Endless(attacker, "", fields);
}

// Frames without end, each of one field or of nothing at all.
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

// One field whose value, it says, has 4 GiB.
void EndlessString(Attacker& attacker) {
  Endless(attacker,
          std::string("\0\1x", 3) + http2::HpackInteger(0xfffffffe, 7, 0),
          std::string(kFrame, 'x'));
}

// An integer of ever more bytes that add nothing to it.
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

// One byte of HPACK for 3 KiB of field, thousands of times in each call.
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

// HPACK's table made large and small, thousands of times in each block.
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

}  // namespace

absl::Span<const Attack> HeaderAttacks() {
  static constexpr Attack kAttacks[] = {
      {"LargeBlocks", "call", LargeBlocks, Attack::kEdge},
      {"EndlessFields", "frame", EndlessFields, Attack::kEdge},
      {"EndlessSmallFrames", "frame", EndlessSmallFrames, Attack::kEdge},
      {"EndlessString", "frame", EndlessString, Attack::kEdge},
      {"EndlessInteger", "frame", EndlessInteger, Attack::kEdge},
      {"ThousandsOfFields", "call", ThousandsOfFields, Attack::kEdge},
      {"TableBombs", "call", TableBombs},
      {"TableSizes", "call", TableSizes},
  };
  return kAttacks;
}

}  // namespace planb::server
