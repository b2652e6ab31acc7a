// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/ping.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/engine/machine.h"

namespace planb::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::ByteBuffer;

// One exchange after the other. Thread-compatible.
class Pinger {
 public:
  virtual ~Pinger() = default;
  // False if the call has ended.
  virtual bool Exchange(const ByteBuffer& request, ByteBuffer& reply) = 0;
  // Ends it, if it has not ended, and says how.
  virtual grpc::Status Finish() = 0;
};

// Waits for the one event that is under way; whether it went well.
class Events {
 public:
  explicit Events(bool spin) : spin_(spin) {}

  grpc::CompletionQueue* queue() { return &queue_; }

  bool Await() {
    void* tag;
    bool ok = false;
    if (!spin_) return queue_.Next(&tag, &ok) && ok;
    while (queue_.AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) ==
           grpc::CompletionQueue::TIMEOUT) {
    }
    return ok;
  }

 private:
  const bool spin_;
  grpc::CompletionQueue queue_;
};

class StreamPinger final : public Pinger {
 public:
  StreamPinger(const std::shared_ptr<grpc::Channel>& channel, bool spin)
      : events_(spin), stub_(channel) {
    stream_ = stub_.PrepareCall(&context_, "/planb.v1.RouteLookup/BatchLookup",
                                events_.queue());
    stream_->StartCall(nullptr);
    open_ = events_.Await();
  }

  // The read is started first: the reply then finds it there.
  bool Exchange(const ByteBuffer& request, ByteBuffer& reply) override {
    if (!open_) return false;
    stream_->Read(&reply, nullptr);
    stream_->Write(request, nullptr);
    const bool first = events_.Await();
    const bool second = events_.Await();
    return open_ = first && second;
  }

  grpc::Status Finish() override {
    grpc::Status status;
    if (open_) {
      stream_->WritesDone(nullptr);
      events_.Await();
    }
    stream_->Finish(&status, nullptr);
    events_.Await();
    return status;
  }

 private:
  Events events_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool open_ = false;
};

class UnaryPinger final : public Pinger {
 public:
  UnaryPinger(const std::shared_ptr<grpc::Channel>& channel, bool spin)
      : events_(spin), stub_(channel) {}

  bool Exchange(const ByteBuffer& request, ByteBuffer& reply) override {
    grpc::ClientContext context;
    const auto call = stub_.PrepareUnaryCall(
        &context, "/planb.v1.RouteLookup/Lookup", request, events_.queue());
    call->StartCall();
    call->Finish(&reply, &status_, nullptr);
    events_.Await();
    return status_.ok();
  }

  grpc::Status Finish() override { return status_; }

 private:
  Events events_;
  grpc::GenericStub stub_;
  grpc::Status status_;
};

absl::Status Ended(Pinger& pinger) {
  const grpc::Status status = pinger.Finish();
  return status.ok()
             ? absl::UnavailableError("the call has ended")
             : absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            status.error_message());
}

std::string Text(const ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace

absl::StatusOr<PingResult> Ping(const std::shared_ptr<grpc::Channel>& channel,
                                const PingOptions& options, int server) {
  std::unique_ptr<Pinger> pinger;
  if (options.stream) {
    pinger = std::make_unique<StreamPinger>(channel, options.spin);
  } else {
    pinger = std::make_unique<UnaryPinger>(channel, options.spin);
  }
  const grpc::Slice slice(options.request);
  const ByteBuffer request(&slice, 1);
  ByteBuffer reply;
  if (!pinger->Exchange(request, reply)) return Ended(*pinger);
  if (const absl::Status status = options.check(Text(reply)); !status.ok()) {
    return status;
  }
  PingResult result;
  const auto run = [&](absl::Duration duration, bool measured) {
    const Clock::time_point start = Clock::now();
    Clock::time_point now = start;
    do {
      if (!pinger->Exchange(request, reply)) return false;
      const Clock::time_point answered = Clock::now();
      if (measured) result.latency.Add(absl::FromChrono(answered - now));
      now = answered;
    } while (now - start < absl::ToChronoNanoseconds(duration));
    result.elapsed = absl::FromChrono(now - start);
    return true;
  };
  if (!run(options.warm_up, false)) return Ended(*pinger);
  const double client_before = CpuSecondsOf(getpid());
  const double server_before = CpuSecondsOf(server);
  if (!run(options.duration, true)) return Ended(*pinger);
  result.client_cpu_seconds = CpuSecondsOf(getpid()) - client_before;
  result.server_cpu_seconds = CpuSecondsOf(server) - server_before;
  static_cast<void>(pinger->Finish());
  return result;
}

}  // namespace planb::rpc
