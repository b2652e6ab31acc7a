// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/bare_server.h"

#include <grpc/slice.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/kernels/kernel.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "proto/wire/batch_messages.h"

namespace planb::rpc {
namespace {

using grpc::ByteBuffer;

// As the server's --max_message_bytes.
constexpr int kMaxMessageBytes = 16 << 20;

// Replies waiting to be written on one stream; then reading stops.
constexpr size_t kMaxReplies = 8;

// The bytes of an address, and of its upper half.
constexpr size_t kFullBytes = 16;
constexpr size_t kUpperBytes = 8;

bool Answerable(const wire::BatchRequest& request) {
  return request.addresses_v6.size() % kFullBytes == 0 &&
         request.upper_halves_v6.size() % kUpperBytes == 0 &&
         request.addresses_v4.empty() && request.table.empty() &&
         !request.want_prefix_lengths;
}

bool AnswerBatch(const Fib& fib, ByteBuffer& message, ByteBuffer& reply) {
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
      .addresses = request.addresses_v6.size() / kFullBytes +
                   request.upper_halves_v6.size() / kUpperBytes};
  // Never an inlined slice: its bytes would not be those of its copies.
  grpc_slice bytes = grpc_slice_malloc_large(wire::EncodedSize(shape));
  const wire::ResponseBody body = wire::EncodeAround(
      shape, reinterpret_cast<char*>(GRPC_SLICE_START_PTR(bytes)));
  char* next_hops = body.next_hops;
  const Kernel& kernel = *AvailableKernels().front();
  request.addresses_v6.ForEachRun<kFullBytes>(
      [&](const char* run, size_t count) {
        fib.Lookup(run, count, next_hops, kernel);
        next_hops += count * sizeof(NextHopId);
      });
  request.upper_halves_v6.ForEachRun<kUpperBytes>(
      [&](const char* run, size_t count) {
        fib.LookupUpper(run, count, next_hops, kernel);
        next_hops += count * sizeof(NextHopId);
      });
  const grpc::Slice slice(bytes, grpc::Slice::STEAL_REF);
  reply = ByteBuffer(&slice, 1);
  return true;
}

// What a tag of the queue points to.
class Event {
 public:
  virtual ~Event() = default;
  virtual void Done(bool ok) = 0;
};

// A member function of `Owner`, as a tag.
template <typename Owner, void (Owner::*kMethod)(bool)>
class EventOf final : public Event {
 public:
  explicit EventOf(Owner* owner) : owner_(owner) {}
  void Done(bool ok) override { (owner_->*kMethod)(ok); }

 private:
  Owner* const owner_;
};

struct Shared {
  explicit Shared(const Fib& table) : fib(table) {}

  v1::RouteLookup::WithRawMethod_BatchLookup<v1::RouteLookup::Service> service;
  const Fib& fib;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  // Streams that have started and not ended.
  std::atomic<int> streams = 0;
};

// One BatchLookup call. Reading and writing overlap. Deletes itself: when it
// is not started, or when it has ended and nothing is under way.
class StreamCall {
 public:
  explicit StreamCall(Shared& shared) : shared_(shared) {
    shared.service.RequestBatchLookup(&context_, &stream_, shared.queue.get(),
                                      shared.queue.get(), &started_);
  }

 private:
  void OnStarted(bool ok) {
    if (!ok) {
      delete this;
      return;
    }
    ++shared_.streams;
    new StreamCall(shared_);
    stream_.Read(&request_, &read_);
  }

  void OnRead(bool ok) {
    ByteBuffer reply;
    if (ok && !AnswerBatch(shared_.fib, request_, reply)) {
      status_ = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "malformed");
      ok = false;
    }
    if (!ok) {
      ended_ = true;
      if (!writing_) stream_.Finish(status_, &finished_);
      return;
    }
    replies_.emplace_back().Swap(&reply);
    if (!writing_) Write();
    paused_ = replies_.size() >= kMaxReplies;
    if (!paused_) stream_.Read(&request_, &read_);
  }

  void OnWritten(bool ok) {
    writing_ = false;
    replies_.pop_front();
    if (!ok) replies_.clear();
    if (!replies_.empty()) {
      Write();
    } else if (ended_) {
      stream_.Finish(status_, &finished_);
      return;
    }
    if (std::exchange(paused_, false)) stream_.Read(&request_, &read_);
  }

  void OnFinished(bool) {
    --shared_.streams;
    delete this;
  }

  void Write() {
    writing_ = true;
    stream_.Write(replies_.front(), &written_);
  }

  Shared& shared_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<ByteBuffer, ByteBuffer> stream_{&context_};
  ByteBuffer request_;
  std::deque<ByteBuffer> replies_;  // the first is being written
  grpc::Status status_;
  bool writing_ = false, paused_ = false, ended_ = false;
  EventOf<StreamCall, &StreamCall::OnStarted> started_{this};
  EventOf<StreamCall, &StreamCall::OnRead> read_{this};
  EventOf<StreamCall, &StreamCall::OnWritten> written_{this};
  EventOf<StreamCall, &StreamCall::OnFinished> finished_{this};
};

class Server final : public BareServer {
 public:
  Server(const std::vector<std::string>& addresses, const Fib& fib)
      : shared_(fib), ports_(addresses.size()) {
    grpc::ServerBuilder builder;
    for (size_t i = 0; i < addresses.size(); ++i) {
      builder.AddListeningPort(addresses[i], grpc::InsecureServerCredentials(),
                               &ports_[i]);
    }
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.RegisterService(&shared_.service);
    shared_.queue = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return;
    new StreamCall(shared_);
    thread_ = std::thread([this] { Loop(); });
  }

  ~Server() override {
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now());
      // All streams are cancelled. Each still has to finish, which a queue that
      // is shut down does not allow.
      while (shared_.streams > 0) std::this_thread::yield();
    }
    shared_.queue->Shutdown();
    if (thread_.joinable()) {
      thread_.join();
    } else {
      Loop();  // never started: only empties it
    }
  }

  bool running() const { return server_ != nullptr; }
  int port(size_t i) const override { return ports_[i]; }

 private:
  void Loop() {
    void* tag;
    bool ok;
    while (shared_.queue->Next(&tag, &ok)) static_cast<Event*>(tag)->Done(ok);
  }

  Shared shared_;
  std::vector<int> ports_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BareServer>> BareServer::Start(
    const std::vector<std::string>& addresses, const Fib& fib) {
  auto server = std::make_unique<Server>(addresses, fib);
  if (!server->running()) {
    return absl::UnavailableError("cannot listen on an address given");
  }
  return server;
}

}  // namespace planb::rpc
