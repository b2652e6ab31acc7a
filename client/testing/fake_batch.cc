// SPDX-License-Identifier: Apache-2.0

// Addresses are read and next hops written byte by byte, so that the tests
// do not share the client's way of doing it.

#include "client/testing/fake_batch.h"

#include <cstdint>

namespace planb::client::testing {
namespace {

void AppendLittleEndian(uint32_t value, std::string& to) {
  for (int shift = 0; shift < 32; shift += 8) {
    to.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

void Answer(const FakeTable& table, const std::string& bytes, size_t width,
            v1::BatchLookupResponse& reply, bool lengths) {
  for (size_t at = 0; at < bytes.size(); at += width) {
    const auto route = table.Lookup(
        *Address::FromPacked(absl::string_view(bytes).substr(at, width)));
    AppendLittleEndian(route.has_value() ? route->next_hop : kNoRoute,
                       *reply.mutable_next_hops());
    if (lengths) {
      reply.mutable_prefix_lengths()->push_back(
          static_cast<char>(route.has_value() ? route->prefix.length() : 255));
    }
  }
}

// The answers to upper halves: undecided where a longer route lies within.
void AnswerHalves(const FakeTable& table, const std::string& bytes,
                  v1::BatchLookupResponse& reply) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const Prefix half = Prefix::Truncate(
        *Address::FromPacked(bytes.substr(at, 8) + std::string(8, '\0')), 64);
    const auto route = table.Lookup(half.address());
    NextHopId answer = route.has_value() ? route->next_hop : kNoRoute;
    for (const auto& [prefix, next_hop] : table.routes()) {
      if (prefix.length() > 64 && half.Covers(prefix)) answer = kUndecided;
    }
    AppendLittleEndian(answer, *reply.mutable_next_hops());
  }
}

uint32_t LittleEndianAt(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

// Members in the place of groups.
void ChooseMembers(const std::string& flow_hashes, std::string& next_hops) {
  std::string chosen;
  for (size_t at = 0; at < flow_hashes.size(); at += 4) {
    AppendLittleEndian(MemberOf(LittleEndianAt(next_hops, at),
                                LittleEndianAt(flow_hashes, at)),
                       chosen);
  }
  next_hops = chosen;
}

void SetError(int code, const char* reason, const char* field,
              v1::BatchLookupResponse& reply) {
  reply.mutable_error()->set_code(code);
  reply.mutable_error()->set_reason(reason);
  reply.mutable_error()->set_field(field);
  reply.mutable_error()->set_message("the batch is wrong");
}

}  // namespace

bool IsDefaultTable(const std::string& table) {
  return table.empty() || table == "default";
}

v1::BatchLookupResponse AnswerBatch(const FakeTable& table,
                                    const v1::BatchLookupRequest& request) {
  v1::BatchLookupResponse reply;
  reply.set_request_id(request.request_id());
  reply.set_generation(table.generation());
  if (!IsDefaultTable(request.table())) {
    SetError(5, "TABLE_NOT_FOUND", "table", reply);
  } else if (request.addresses_v6().size() % 16 != 0) {
    SetError(3, "ADDRESSES_LENGTH", "addresses_v6", reply);
  } else if (request.addresses_v4().size() % 4 != 0) {
    SetError(3, "ADDRESSES_LENGTH", "addresses_v4", reply);
  } else if (request.upper_halves_v6().size() % 8 != 0) {
    SetError(3, "ADDRESSES_LENGTH", "upper_halves_v6", reply);
  } else if (request.min_generation() > table.generation()) {
    SetError(9, "GENERATION_NOT_VISIBLE", "min_generation", reply);
  } else {
    const bool lengths = request.want_prefix_lengths();
    Answer(table, request.addresses_v6(), 16, reply, lengths);
    Answer(table, request.addresses_v4(), 4, reply, lengths);
    AnswerHalves(table, request.upper_halves_v6(), reply);
    if (request.flow_hashes().empty()) return reply;
    if (request.flow_hashes().size() != reply.next_hops().size()) {
      reply.clear_next_hops();
      reply.clear_prefix_lengths();
      SetError(3, "FLOW_HASHES_LENGTH", "flow_hashes", reply);
      return reply;
    }
    ChooseMembers(request.flow_hashes(), *reply.mutable_next_hops());
  }
  return reply;
}

v1::BatchLookupResponse RefuseToDrain(const FakeTable& table,
                                      const v1::BatchLookupRequest& request) {
  v1::BatchLookupResponse reply;
  reply.set_request_id(request.request_id());
  reply.set_generation(table.generation());
  SetError(14, "DRAINING", "", reply);
  return reply;
}

void SpoilReply(Spoil how, v1::BatchLookupResponse& reply) {
  std::string& next_hops = *reply.mutable_next_hops();
  if (how == Spoil::kWrongId) reply.set_request_id(reply.request_id() + 1);
  if (how == Spoil::kShort && !next_hops.empty()) {
    next_hops.resize(next_hops.size() - 4);
  }
  if (how == Spoil::kWrongNextHop && !next_hops.empty()) ++next_hops[0];
}

}  // namespace planb::client::testing
