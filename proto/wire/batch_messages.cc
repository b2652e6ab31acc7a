// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/batch_messages.h"

#include <type_traits>

#include "proto/wire/fields.h"

namespace planb::wire {
namespace {

// The fields' tags, as route_lookup.proto numbers them. Of BatchLookupRequest,
// besides RequestNumbers:
constexpr uint32_t kAddressesV6 = Tag(2, WireType::kLengthDelimited);
constexpr uint32_t kAddressesV4 = Tag(3, WireType::kLengthDelimited);
constexpr uint32_t kTable = Tag(4, WireType::kLengthDelimited);
constexpr uint32_t kUpperHalvesV6 = Tag(8, WireType::kLengthDelimited);
constexpr uint32_t kFlowHashes = Tag(9, WireType::kLengthDelimited);

// The fields as read, before the request gets them.
struct RequestFields : RequestNumbers {
  Bytes addresses_v6;
  Bytes addresses_v4;
  Bytes upper_halves_v6;
  Bytes flow_hashes;
  Bytes table;
};

// Reads a number, of a field that is known or not. One that is too large for
// its field is cut as the generated parser does.
bool ReadNumber(MessageReader& reader, uint32_t tag, RequestNumbers& numbers) {
  uint64_t value;
  if (!reader.ReadVarint(value)) return false;
  RequestNumbers::ForEach(numbers, [&](uint32_t number, auto& field) {
    if (tag != Tag(number, WireType::kVarint)) return;
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  });
  return true;
}

bool ReadField(MessageReader& reader, RequestFields& fields) {
  uint32_t tag;
  if (!reader.ReadTag(tag)) return false;
  switch (tag) {
    case kAddressesV6:
      return reader.ReadBytes(fields.addresses_v6);
    case kAddressesV4:
      return reader.ReadBytes(fields.addresses_v4);
    case kTable:
      return reader.ReadBytes(fields.table) && IsUtf8(fields.table);
    case kUpperHalvesV6:
      return reader.ReadBytes(fields.upper_halves_v6);
    case kFlowHashes:
      return reader.ReadBytes(fields.flow_hashes);
    default:
      return tag >> 3 != 0 && tag == Tag(tag >> 3, WireType::kVarint)
                 ? ReadNumber(reader, tag, fields)
                 : reader.SkipField(tag);
  }
}

}  // namespace

bool ParseBatchRequest(Pieces message, BatchRequest& request) {
  RequestFields fields;
  MessageReader reader(message);
  while (!reader.AtEnd()) {
    if (!ReadField(reader, fields)) {
      request.request_id = fields.request_id;
      return false;
    }
  }
  static_cast<RequestNumbers&>(request) = fields;
  request.addresses_v6 = fields.addresses_v6;
  request.addresses_v4 = fields.addresses_v4;
  request.upper_halves_v6 = fields.upper_halves_v6;
  request.flow_hashes = fields.flow_hashes;
  request.table.resize(fields.table.size());
  fields.table.CopyTo(request.table.data());
  return true;
}

absl::string_view Tail(const OutgoingRequest& request) {
  if (!request.upper_halves_v6.empty()) return request.upper_halves_v6;
  if (!request.addresses_v4.empty()) return request.addresses_v4;
  return request.addresses_v6;
}

size_t EncodedSize(const OutgoingRequest& request) {
  size_t size = 0;
  RequestNumbers::ForEach(request, [&](uint32_t, uint64_t value) {
    size += VarintFieldSize(value);
  });
  for (const absl::string_view bytes :
       {request.table, request.flow_hashes, request.addresses_v6,
        request.addresses_v4, request.upper_halves_v6}) {
    size += PrefixSize(bytes.size()) + bytes.size();
  }
  return size;
}

size_t EncodedHeadSize(const OutgoingRequest& request) {
  return EncodedSize(request) - Tail(request).size();
}

// The bytes of an address field are written only if another one follows.
char* EncodeHead(const OutgoingRequest& request, char* to) {
  RequestNumbers::ForEach(request, [&](uint32_t number, uint64_t value) {
    to = WriteVarintField(Tag(number, WireType::kVarint), value, to);
  });
  to = WritePrefix(kTable, request.table.size(), to);
  to = WriteBytes(request.table, to);
  // Before the addresses, which are four times as long: these are the tail.
  to = WritePrefix(kFlowHashes, request.flow_hashes.size(), to);
  to = WriteBytes(request.flow_hashes, to);

  absl::string_view before;
  const auto write = [&](uint32_t tag, absl::string_view addresses) {
    if (addresses.empty()) return;
    to = WriteBytes(before, to);
    to = WritePrefix(tag, addresses.size(), to);
    before = addresses;
  };
  write(kAddressesV6, request.addresses_v6);
  write(kAddressesV4, request.addresses_v4);
  write(kUpperHalvesV6, request.upper_halves_v6);
  return to;
}

char* Encode(const OutgoingRequest& request, char* to) {
  return WriteBytes(Tail(request), EncodeHead(request, to));
}

namespace {

// Of BatchLookupResponse.
constexpr uint32_t kRequestId = Tag(1, WireType::kVarint);
constexpr uint32_t kGeneration = Tag(2, WireType::kVarint);
constexpr uint32_t kNextHops = Tag(3, WireType::kLengthDelimited);
constexpr uint32_t kPrefixLengths = Tag(4, WireType::kLengthDelimited);
constexpr uint32_t kError = Tag(5, WireType::kLengthDelimited);

// Of BatchError. Its `code` is skipped, like an unknown varint.
constexpr uint32_t kReason = Tag(2, WireType::kLengthDelimited);
constexpr uint32_t kField = Tag(3, WireType::kLengthDelimited);
constexpr uint32_t kMessage = Tag(4, WireType::kLengthDelimited);

constexpr uint64_t kBytesPerNextHop = 4;

// True if the generated parser accepts `message` as a BatchError.
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
