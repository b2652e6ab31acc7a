#include "benchmarks/serving/rpc/handlers.h"

#include <grpc/slice.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <vector>

#include "absl/strings/string_view.h"
#include "benchmarks/serving/rpc/workload.h"
#include "proto/wire/batch_request.h"
#include "proto/wire/batch_response.h"

namespace planb::rpc {
namespace {

bool Answerable(const wire::BatchRequest& request) {
  return request.addresses_v6.size() % Width(Form::kFull) == 0 &&
         request.upper_halves_v6.size() % Width(Form::kUpper) == 0 &&
         request.addresses_v4.empty() && request.table.empty() &&
         !request.want_prefix_lengths;
}

template <Form kForm>
void AnswerAll(const Fib& fib, const wire::Octets& addresses,
               char*& next_hops) {
  addresses.ForEachRun<Width(kForm)>([&](const char* run, size_t count) {
    Answer(fib, kForm, run, count, next_hops);
    next_hops += count * sizeof(NextHopId);
  });
}

bool AnswerBatch(const Fib& fib, grpc::ByteBuffer& message,
                 grpc::ByteBuffer& reply) {
  // Keep their capacity: no allocation a batch but gRPC's own.
  thread_local std::vector<absl::string_view> pieces;
  thread_local wire::BatchRequest request;
  pieces.clear();
  grpc::ProtoBufferReader reader(&message);
  const void* piece;
  int size;
  while (reader.Next(&piece, &size)) {
    pieces.emplace_back(static_cast<const char*>(piece),
                        static_cast<size_t>(size));
  }
  if (!wire::ParseBatchRequest(pieces, request) || !Answerable(request)) {
    return false;
  }
  const wire::ResponseShape shape = {
      .request_id = request.request_id,
      .generation = 1,
      .addresses = request.addresses_v6.size() / Width(Form::kFull) +
                   request.upper_halves_v6.size() / Width(Form::kUpper)};
  // Never an inlined slice: its octets would not be those of its copies.
  grpc_slice octets = grpc_slice_malloc_large(wire::EncodedSize(shape));
  const wire::ResponseBody body = wire::EncodeAround(
      shape, reinterpret_cast<char*>(GRPC_SLICE_START_PTR(octets)));
  char* next_hops = body.next_hops;
  AnswerAll<Form::kFull>(fib, request.addresses_v6, next_hops);
  AnswerAll<Form::kUpper>(fib, request.upper_halves_v6, next_hops);
  const grpc::Slice slice(octets, grpc::Slice::STEAL_REF);
  reply = grpc::ByteBuffer(&slice, 1);
  return true;
}

}  // namespace

Handler EchoHandler() {
  return [](grpc::ByteBuffer& request, grpc::ByteBuffer& reply) {
    reply.Swap(&request);
    return true;
  };
}

Handler LookupHandler(const Fib& fib) {
  return [&fib](grpc::ByteBuffer& request, grpc::ByteBuffer& reply) {
    return AnswerBatch(fib, request, reply);
  };
}

}  // namespace planb::rpc
