// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/batch_response.h"

#include "proto/wire/message_reader.h"
#include "proto/wire/message_writer.h"
#include "proto/wire/utf8.h"

namespace planb::wire {
namespace {

// The fields' tags, as route_lookup.proto numbers them.
constexpr uint32_t kRequestId = Tag(1, WireType::kVarint);
constexpr uint32_t kGeneration = Tag(2, WireType::kVarint);
constexpr uint32_t kNextHops = Tag(3, WireType::kLengthDelimited);
constexpr uint32_t kPrefixLengths = Tag(4, WireType::kLengthDelimited);
constexpr uint32_t kError = Tag(5, WireType::kLengthDelimited);

// Of BatchError; its `code` is read as an unknown varint would be.
constexpr uint32_t kReason = Tag(2, WireType::kLengthDelimited);
constexpr uint32_t kField = Tag(3, WireType::kLengthDelimited);
constexpr uint32_t kMessage = Tag(4, WireType::kLengthDelimited);

constexpr uint64_t kBytesPerNextHop = 4;

// True if the generated parser takes `message` for a BatchError.
bool IsError(const Bytes& message) {
  MessageReader reader(message, MessageReader::kDeepest - 1);
  while (!reader.AtEnd()) {
    uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    if (tag == kReason || tag == kField || tag == kMessage) {
      Bytes text;
      if (!reader.ReadBytes(text) || !IsUtf8(text)) return false;
    } else if (!reader.SkipField(tag)) {
      return false;
    }
  }
  return true;
}

bool ReadField(MessageReader& reader, BatchResponse& response) {
  uint32_t tag;
  if (!reader.ReadTag(tag)) return false;
  switch (tag) {
    case kRequestId:
      return reader.ReadVarint(response.request_id);
    case kGeneration:
      return reader.ReadVarint(response.generation);
    case kNextHops:
      return reader.ReadBytes(response.next_hops);
    case kPrefixLengths:
      return reader.ReadBytes(response.prefix_lengths);
    case kError: {
      response.has_error = true;
      Bytes error;
      return reader.ReadBytes(error) && IsError(error);
    }
    default:
      return reader.SkipField(tag);
  }
}

}  // namespace

bool ParseBatchResponse(Pieces message, BatchResponse& response) {
  response = BatchResponse();
  MessageReader reader(message);
  while (!reader.AtEnd()) {
    if (!ReadField(reader, response)) return false;
  }
  return true;
}

size_t EncodedSize(const ResponseShape& shape) {
  const size_t next_hops = shape.addresses * kBytesPerNextHop;
  const size_t prefix_lengths = shape.prefix_lengths ? shape.addresses : 0;
  return VarintFieldSize(shape.request_id) + VarintFieldSize(shape.generation) +
         PrefixSize(next_hops) + next_hops + PrefixSize(prefix_lengths) +
         prefix_lengths;
}

ResponseBody EncodeAround(const ResponseShape& shape, char* to) {
  const size_t next_hops = shape.addresses * kBytesPerNextHop;
  to = WriteVarintField(kRequestId, shape.request_id, to);
  to = WriteVarintField(kGeneration, shape.generation, to);
  ResponseBody body;
  body.next_hops = WritePrefix(kNextHops, next_hops, to);
  body.prefix_lengths = shape.prefix_lengths
                            ? WritePrefix(kPrefixLengths, shape.addresses,
                                          body.next_hops + next_hops)
                            : nullptr;
  return body;
}

}  // namespace planb::wire
