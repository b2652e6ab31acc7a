// What a benchmark's driver acts on: the clock and one stream. Tests put a
// made-up server and a made-up clock in their place, and know to the nanosecond
// what has to come out.

#ifndef PLANB_CLIENT_LOAD_BENCH_PORT_H_
#define PLANB_CLIENT_LOAD_BENCH_PORT_H_

#include <grpcpp/channel.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "client/batch_stream.h"

namespace planb::client {

// As BatchStream, which says more.
class BenchPort {
 public:
  virtual ~BenchPort() = default;

  virtual absl::Time Now() = 0;
  virtual void SleepUntil(absl::Time time) = 0;

  virtual absl::Status Send(const Batch& batch) = 0;
  virtual absl::Status CloseSend() = 0;
  virtual bool Ready() = 0;
  virtual absl::StatusOr<bool> Receive(BatchResult& result) = 0;
  virtual absl::Status Finish() = 0;
  virtual void Cancel() = 0;
};

// The monotonic clock and a real stream. As thread-safe as BatchStream.
class StreamPort : public BenchPort {
 public:
  StreamPort(const std::shared_ptr<grpc::Channel>& channel,
             const BatchStreamOptions& options)
      : stream_(channel, options) {}

  absl::Time Now() override { return MonotonicNow(); }
  // Precise to microseconds, where the kernel can.
  void SleepUntil(absl::Time time) override;

  absl::Status Send(const Batch& batch) override {
    return stream_.Send(batch).status();
  }
  absl::Status CloseSend() override { return stream_.CloseSend(); }
  bool Ready() override { return stream_.Ready(); }
  absl::StatusOr<bool> Receive(BatchResult& result) override {
    return stream_.Receive(result);
  }
  absl::Status Finish() override { return stream_.Finish(); }
  void Cancel() override { stream_.Cancel(); }

 private:
  BatchStream stream_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_BENCH_PORT_H_
