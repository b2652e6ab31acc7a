// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/bare_server.h"

#include <grpc/slice.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmarks/serving/rpc/workload.h"
#include "proto/wire/batch_messages.h"

namespace planb::rpc {
namespace {

// As the server's --max_message_bytes.
constexpr int kMaxMessageBytes = 16 << 20;

std::unique_ptr<Style> MakeStyle(absl::string_view name, Handler handler) {
  if (name == "callback") return MakeCallbackStyle(std::move(handler));
  if (name == "async") return MakeAsyncStyle(std::move(handler), false);
  if (name == "async_spin") return MakeAsyncStyle(std::move(handler), true);
  if (name == "sync") return MakeSyncStyle(std::move(handler));
  return nullptr;
}

bool Answerable(const wire::BatchRequest& request) {
  return request.addresses_v6.size() % Width(AddressForm::kFull) == 0 &&
         request.upper_halves_v6.size() % Width(AddressForm::kUpper) == 0 &&
         request.addresses_v4.empty() && request.table.empty() &&
         !request.want_prefix_lengths;
}

template <AddressForm kForm>
void AnswerAll(const Fib& fib, const wire::Bytes& addresses, char*& next_hops) {
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
      .addresses = request.addresses_v6.size() / Width(AddressForm::kFull) +
                   request.upper_halves_v6.size() / Width(AddressForm::kUpper)};
  // Never an inlined slice: its bytes would not be those of its copies.
  grpc_slice bytes = grpc_slice_malloc_large(wire::EncodedSize(shape));
  const wire::ResponseBody body = wire::EncodeAround(
      shape, reinterpret_cast<char*>(GRPC_SLICE_START_PTR(bytes)));
  char* next_hops = body.next_hops;
  AnswerAll<AddressForm::kFull>(fib, request.addresses_v6, next_hops);
  AnswerAll<AddressForm::kUpper>(fib, request.upper_halves_v6, next_hops);
  const grpc::Slice slice(bytes, grpc::Slice::STEAL_REF);
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

absl::StatusOr<std::unique_ptr<BareServer>> BareServer::Start(
    absl::string_view style, const std::vector<std::string>& addresses,
    Handler handler) {
  std::unique_ptr<BareServer> self(new BareServer);
  self->style_ = MakeStyle(style, std::move(handler));
  if (self->style_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "style \"", style, "\" is not callback, async, async_spin or sync"));
  }
  grpc::ServerBuilder builder;
  self->ports_.resize(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    builder.AddListeningPort(addresses[i], grpc::InsecureServerCredentials(),
                             &self->ports_[i]);
  }
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.RegisterService(&self->style_->service());
  self->style_->Prepare(builder);
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) {
    self->style_->Stop();
    return absl::UnavailableError("cannot listen on an address given");
  }
  self->style_->Start();
  return self;
}

BareServer::~BareServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  style_->Stop();
  server_->Wait();
  server_.reset();
}

}  // namespace planb::rpc
