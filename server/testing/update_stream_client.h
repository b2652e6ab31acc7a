// SPDX-License-Identifier: Apache-2.0

// The client's end of StreamUpdates, for tests.

#ifndef PLANB_SERVER_TESTING_UPDATE_STREAM_CLIENT_H_
#define PLANB_SERVER_TESTING_UPDATE_STREAM_CLIENT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "server/testing/control_calls.h"

namespace planb::server {

// A stream that was greeted. Not thread-safe.
class UpdateStream {
 public:
  explicit UpdateStream(RunningServer& running, v1::Ack ack = v1::ACK_VISIBLE,
                        const std::string& table = "", uint64_t epoch = 0)
      : stream_(running.table().StreamUpdates(&context_)) {
    v1::StreamUpdatesRequest hello;
    hello.set_table(table);
    hello.set_ack(ack);
    hello.set_writer_epoch(epoch);
    EXPECT_TRUE(stream_->Write(hello));
    hello_ = Read();
  }

  const v1::StreamUpdatesResponse& hello() const { return hello_; }
  bool Write(const v1::StreamUpdatesRequest& r) { return stream_->Write(r); }
  bool Read(v1::StreamUpdatesResponse* reply) { return stream_->Read(reply); }
  v1::StreamUpdatesResponse Read() {
    v1::StreamUpdatesResponse reply;
    EXPECT_TRUE(stream_->Read(&reply));
    return reply;
  }
  void HalfClose() { stream_->WritesDone(); }
  void Vanish() { context_.TryCancel(); }
  // After the last reply.
  grpc::Status Finish() {
    v1::StreamUpdatesResponse none;
    EXPECT_FALSE(stream_->Read(&none)) << none.ShortDebugString();
    return stream_->Finish();
  }

 private:
  CallContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::StreamUpdatesRequest,
                                           v1::StreamUpdatesResponse>>
      stream_;
  v1::StreamUpdatesResponse hello_;
};

inline v1::StreamUpdatesRequest Batch(
    uint64_t id,
    std::initializer_list<std::pair<const char*, uint32_t>> routes) {
  v1::StreamUpdatesRequest batch;
  batch.set_batch_id(id);
  for (const auto& [prefix, hop] : routes) AddUpdate(prefix, hop, batch);
  return batch;
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_UPDATE_STREAM_CLIENT_H_
