// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/batch_reply.h"

#include <grpc/slice.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <bit>
#include <string>

#include "proto/wire/batch_messages.h"

namespace planb::server {
namespace {

// Kernels write next hops in the machine's order; the wire's is little-endian.
static_assert(std::endian::native == std::endian::little);

}  // namespace

bool RequestReader::Read(grpc::ByteBuffer& message) {
  pieces_.clear();
  request_ = wire::BatchRequest{.table = std::move(request_.table)};
  request_.table.clear();
  // The reader points into the buffer's own slices and copies nothing.
  grpc::ProtoBufferReader reader(&message);
  const void* data = nullptr;
  int size = 0;
  while (reader.Next(&data, &size)) {
    pieces_.emplace_back(static_cast<const char*>(data),
                         static_cast<size_t>(size));
  }
  return reader.status().ok() && wire::ParseBatchRequest(pieces_, request_);
}

grpc::ByteBuffer AnswerReply(const Snapshot& snapshot, const Kernel& kernel,
                             const wire::BatchRequest& request,
                             size_t& misses) {
  const wire::ResponseShape shape = {
      .request_id = request.request_id,
      .generation = snapshot.generation(),
      .addresses = BatchSize(request),
      .prefix_lengths = request.want_prefix_lengths};
  // Not grpc_slice_malloc: its small slices live inside the handle, and would
  // stay behind when that is copied.
  grpc_slice slice = grpc_slice_malloc_large(wire::EncodedSize(shape));
  const wire::ResponseBody answers = wire::EncodeAround(
      shape, reinterpret_cast<char*>(GRPC_SLICE_START_PTR(slice)));
  misses = AnswerBatch(snapshot, kernel, request, answers);
  const grpc::Slice owner(slice, grpc::Slice::STEAL_REF);
  return grpc::ByteBuffer(&owner, 1);
}

grpc::ByteBuffer ErrorReply(const absl::Status& error, uint64_t request_id,
                            uint64_t generation) {
  v1::BatchLookupResponse response;
  FailBatch(error, request_id, generation, response);
  const grpc::Slice owner(response.SerializeAsString());
  return grpc::ByteBuffer(&owner, 1);
}

}  // namespace planb::server
