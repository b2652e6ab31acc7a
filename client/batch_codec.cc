// The fields of a protobuf message may come in any order. So the generated
// code writes the small ones, and the two large ones, the addresses, are put
// behind them with one copy: from the caller's buffer into the slice that gRPC
// sends. Through the generated message they would be copied twice.

#include "client/batch_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpc/slice.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "client/status.h"
#include "planb/v1/route_lookup.pb.h"

namespace planb::client {
namespace {

using google::protobuf::io::CodedOutputStream;

// Next hops are little-endian octets, copied as they are.
static_assert(std::endian::native == std::endian::little);

// A key of the protobuf wire format: a length-delimited field.
constexpr uint32_t LengthDelimited(int field) {
  return static_cast<uint32_t>(field) << 3 | 2;
}

// Octets of a bytes field on the wire; an empty one is left out.
size_t FieldSize(int field, absl::string_view octets) {
  if (octets.empty()) return 0;
  return CodedOutputStream::VarintSize32(LengthDelimited(field)) +
         CodedOutputStream::VarintSize64(octets.size()) + octets.size();
}

uint8_t* WriteField(int field, absl::string_view octets, uint8_t* to) {
  if (octets.empty()) return to;
  to = CodedOutputStream::WriteVarint32ToArray(LengthDelimited(field), to);
  to = CodedOutputStream::WriteVarint64ToArray(octets.size(), to);
  std::memcpy(to, octets.data(), octets.size());
  return to + octets.size();
}

uint32_t ToMilliseconds(absl::Duration duration) {
  const int64_t milliseconds =
      absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1)));
  return static_cast<uint32_t>(std::clamp<int64_t>(
      milliseconds, 0, std::numeric_limits<uint32_t>::max()));
}

absl::Status Broken(const ExpectedReply& expected, absl::string_view why) {
  return absl::InternalError(
      absl::StrCat("the server broke its contract: the reply to batch ",
                   expected.request_id, " ", why));
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeBatch(uint64_t request_id,
                                             const Batch& batch) {
  constexpr int kV6 = v1::BatchLookupRequest::kAddressesV6FieldNumber;
  constexpr int kV4 = v1::BatchLookupRequest::kAddressesV4FieldNumber;
  v1::BatchLookupRequest rest;
  rest.set_request_id(request_id);
  rest.set_table(std::string(batch.table));
  rest.set_min_generation(batch.min_generation);
  rest.set_max_wait_ms(ToMilliseconds(batch.max_wait));
  rest.set_want_prefix_lengths(batch.want_prefix_lengths);

  const size_t size = rest.ByteSizeLong() + FieldSize(kV6, batch.addresses_v6) +
                      FieldSize(kV4, batch.addresses_v4);
  if (size > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", size, " octets is longer than a message (",
                     kMaxMessageBytes, ")"));
  }
  // Small slices of grpc_slice_malloc live inside the handle, which is copied
  // when it is wrapped; large ones are what their pointer says.
  grpc_slice slice = grpc_slice_malloc_large(size);
  uint8_t* to = GRPC_SLICE_START_PTR(slice);
  to = rest.SerializeWithCachedSizesToArray(to);
  to = WriteField(kV6, batch.addresses_v6, to);
  WriteField(kV4, batch.addresses_v4, to);
  const grpc::Slice owner(slice, grpc::Slice::STEAL_REF);
  return grpc::ByteBuffer(&owner, 1);
}

absl::Status DecodeReply(grpc::ByteBuffer& reply, const ExpectedReply& expected,
                         BatchResult& result) {
  v1::BatchLookupResponse message;
  grpc::ProtoBufferReader reader(&reply);
  if (!reader.status().ok() || !message.ParseFromZeroCopyStream(&reader)) {
    return Broken(expected, "does not parse");
  }
  if (message.request_id() != expected.request_id) {
    return Broken(expected, absl::StrCat("has the id ", message.request_id()));
  }
  result.request_id = message.request_id();
  result.generation = message.generation();
  result.next_hops.clear();
  result.prefix_lengths.clear();
  if (message.has_error()) {
    result.status = FromBatchError(message.error());
    return absl::OkStatus();
  }
  result.status = absl::OkStatus();
  const std::string& next_hops = message.next_hops();
  if (next_hops.size() != expected.addresses * sizeof(NextHopId)) {
    return Broken(expected, absl::StrCat("has ", next_hops.size(),
                                         " octets of next hops for ",
                                         expected.addresses, " addresses"));
  }
  result.next_hops.resize(expected.addresses);
  if (!next_hops.empty()) {
    std::memcpy(result.next_hops.data(), next_hops.data(), next_hops.size());
  }
  const std::string& lengths = message.prefix_lengths();
  const size_t due = expected.prefix_lengths ? expected.addresses : 0;
  if (lengths.size() != due) {
    return Broken(expected, absl::StrCat("has ", lengths.size(),
                                         " prefix lengths, not ", due));
  }
  result.prefix_lengths.assign(lengths.begin(), lengths.end());
  return absl::OkStatus();
}

}  // namespace planb::client
