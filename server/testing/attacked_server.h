// SPDX-License-Identifier: Apache-2.0

// What tests of attacks need: the memory and files of a server's process, and
// an honest client.

#ifndef PLANB_SERVER_TESTING_ATTACKED_SERVER_H_
#define PLANB_SERVER_TESTING_ATTACKED_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/await.h"
#include "base/testing/server_process.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::server {

// Returns the memory of a process in KiB; 0 if it is gone. `what` is VmRSS, its
// resident memory, or VmHWM, the peak of that.
inline int64_t MemoryKib(pid_t pid, absl::string_view what) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string word;
  while (status >> word) {
    int64_t kib = 0;
    if (word == absl::StrCat(what, ":") && status >> kib) return kib;
  }
  return 0;
}

inline size_t OpenFiles(pid_t pid) {
  std::error_code error;
  const std::filesystem::directory_iterator files(
      absl::StrCat("/proc/", pid, "/fd"), error);
  return error ? 0
               : static_cast<size_t>(std::distance(begin(files), end(files)));
}

// A channel with a connection of its own, which reconnects after 100 ms.
inline std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// Announces 2000::/3 -> 7 to `target`, and waits until it is visible.
inline grpc::Status AnnounceTheRoute(const std::string& target) {
  v1::UpdateRoutesRequest request;
  request.set_ack(v1::ACK_VISIBLE);
  v1::RouteUpdate& update = *request.add_updates();
  update.set_op(v1::RouteUpdate::OP_UPSERT);
  update.mutable_prefix()->set_address(std::string("\x20", 1) +
                                       std::string(15, '\0'));
  update.mutable_prefix()->set_length(3);
  update.set_next_hop_id(7);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(1));
  v1::UpdateRoutesResponse response;
  return v1::RouteTable::NewStub(Connect(target))
      ->UpdateRoutes(&context, request, &response);
}

// Looks up batches one after the other and compares each answer with the route
// above. Runs in a thread and on a connection of its own. Fails if an answer is
// wrong or the stream ends.
class HonestClient {
 public:
  explicit HonestClient(std::string target)
      : target_(std::move(target)), thread_([this] { Run(); }) {}
  ~HonestClient() {
    stop_ = true;
    thread_.join();
  }

  // The number of correct answers.
  uint64_t answered() const { return answered_; }
  bool failed() const { return failed_; }
  // How often the server reset the stream to free memory. Each time the client
  // opens a new one.
  int resets() const { return resets_; }
  // What went wrong. REQUIRES: failed().
  std::string failure() const { return failure_; }

 private:
  static constexpr size_t kBatch = 256;

  void Run() {
    const auto stub = v1::RouteLookup::NewStub(Connect(target_));
    while (!stop_ && !failed_) RunStream(*stub);
  }

  void RunStream(v1::RouteLookup::Stub& stub) {
    grpc::ClientContext context;
    // Longer than any test: a server that hangs fails it.
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::minutes(5));
    // Later streams do not wait for a server that has ended.
    context.set_wait_for_ready(resets_ == 0);
    const auto stream = stub.BatchLookup(&context);
    v1::BatchLookupRequest request;
    request.set_addresses_v6(std::string(16 * kBatch, '\x20'));
    std::string expected;
    for (size_t i = 0; i < kBatch; ++i) expected += std::string("\7\0\0\0", 4);
    v1::BatchLookupResponse response;
    while (!stop_ && stream->Write(request) && stream->Read(&response)) {
      if (response.next_hops() != expected) {
        return Fail(absl::StrCat("wrong: ", response.ShortDebugString()));
      }
      ++answered_;
    }
    stream->WritesDone();
    const grpc::Status ended = stream->Finish();
    if (stop_ && ended.ok()) return;
    // All connections together have reached the memory quota: gRPC resets
    // streams of any connection (ENHANCE_YOUR_CALM), and closes one without
    // streams.
    if (ended.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
        ended.error_code() == grpc::StatusCode::UNAVAILABLE) {
      ++resets_;
      absl::SleepFor(absl::Milliseconds(10));
    } else {
      Fail("the stream ended: " + ended.error_message());
    }
  }

  void Fail(std::string why) {
    failure_ = std::move(why);
    failed_ = true;
  }

  const std::string target_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::atomic<int> resets_{0};
  std::atomic<uint64_t> answered_{0};
  std::string failure_;
  std::thread thread_;  // uses the members above
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_ATTACKED_SERVER_H_
