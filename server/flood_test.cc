// SPDX-License-Identifier: Apache-2.0

// Many clients send and never read. Flow control stops each of them, the
// server's memory stays within a bound, and another client is served meanwhile.
//
// PLANB_FLOOD_CLIENTS says how many (25, which cannot fill the server's quota).
// A thousand may send several times that; then the server ends some of the
// calls.
//
// A connection may hold the bytes that HTTP/2's window admits (64 KiB at first,
// up to about 1 MiB later), one message, BatchStream::kMaxReplyBytes and one
// more reply. All connections together may hold --memory_quota_bytes, as gRPC
// accounts it; near that, windows shrink. The buffers of sockets belong to the
// kernel.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/await.h"
#include "base/testing/server_process.h"
#include "planb/v1/route_lookup.grpc.pb.h"

namespace planb::server {
namespace {

constexpr size_t kBatch = 4096;
constexpr int kFewClients = 25;
// The default quota, and a margin for memory that gRPC does not account.
[[maybe_unused]] constexpr int64_t kQuotaKib = 256 << 10;
[[maybe_unused]] constexpr int64_t kMarginKib = 128 << 10;

int64_t ResidentKib(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string word;
  while (status >> word) {
    int64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

std::shared_ptr<grpc::Channel> OwnConnection(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// A client that sends whenever gRPC admits it and never reads.
struct Sender {
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
  uint64_t sent = 0;
  bool finishing = false;
  grpc::Status status;  // once it has finished
};

TEST(Flood, ClientsThatDoNotReadAreStopped) {
  const auto clients =
      static_cast<int>(FromEnvironment("PLANB_FLOOD_CLIENTS", kFewClients));
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2 * static_cast<rlim_t>(clients) + 100)
    GTEST_SKIP() << "too few files";

  const std::string target = absl::StrCat("unix://", TempPath("flood.sock"));
  ServerProcess server({absl::StrCat("--listen=", target), "--metrics_address=",
                        "--generate=1000", "--max_connections=1100",
                        "--max_peer_connections=1100", "--polling=poll"});
  ASSERT_TRUE(server.AwaitServing());
  const int64_t idle = ResidentKib(server.pid());

  v1::BatchLookupRequest request;
  request.set_addresses_v6(std::string(16 * kBatch, '\x20'));
  const grpc::Slice slice(request.SerializeAsString());
  const grpc::ByteBuffer message(&slice, 1);

  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Sender>> senders;
  for (int i = 0; i < clients; ++i) {
    senders.push_back(std::make_unique<Sender>());
    Sender& sender = *senders.back();
    sender.stream =
        grpc::GenericStub(OwnConnection(target))
            .PrepareCall(&sender.context, "/planb.v1.RouteLookup/BatchLookup",
                         &queue);
    sender.stream->StartCall(&sender);
  }
  // Until each has begun, and none could send for a second.
  const absl::Time patience = absl::Now() + kPatience;
  const auto begun = [&] {
    return std::all_of(senders.begin(), senders.end(),
                       [](const auto& sender) { return sender->sent > 1; });
  };
  void* tag = nullptr;
  bool ok = false;
  int open = clients;
  while (true) {
    if (queue.AsyncNext(&tag, &ok,
                        absl::ToChronoTime(absl::Now() + absl::Seconds(1))) !=
        grpc::CompletionQueue::GOT_EVENT) {
      if (begun() || absl::Now() > patience) break;
      continue;
    }
    auto& sender = *static_cast<Sender*>(tag);
    if (sender.finishing) {
      --open;
      // What gRPC says of a stream that it ends to free the quota's memory.
      EXPECT_EQ(sender.status.error_code(),
                grpc::StatusCode::RESOURCE_EXHAUSTED)
          << "after " << sender.sent
          << " batches: " << sender.status.error_message();
      continue;
    }
    if (!ok) {
      sender.finishing = true;
      sender.stream->Finish(&sender.status, &sender);
      continue;
    }
    ASSERT_LT(++sender.sent, 1000u) << "is not stopped";
    sender.stream->Write(message, &sender);
  }
  EXPECT_GT(open, 0);
  EXPECT_TRUE(open == clients || clients > kFewClients) << open;
  uint64_t sent = 0;
  for (const auto& sender : senders) {
    EXPECT_GT(sender->sent, 1u);
    sent += sender->sent;
  }
  const int64_t flooded = ResidentKib(server.pid());
  std::cout << sent << " batches sent, " << clients - open
            << " calls ended; resident " << idle << " KiB idle, " << flooded
            << " KiB flooded\n";
#ifndef __SANITIZE_ADDRESS__  // ASan keeps freed memory
  EXPECT_LT(flooded - idle, kQuotaKib + kMarginKib);
#endif

  // A client that reads.
  const auto stub = v1::RouteLookup::NewStub(OwnConnection(target));
  grpc::ClientContext context;
  const auto stream = stub->BatchLookup(&context);
  for (int i = 0; i < 100; ++i) {
    v1::BatchLookupResponse reply;
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&reply));
    ASSERT_EQ(reply.next_hops().size(), 4 * kBatch);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());

  for (const auto& sender : senders) sender->context.TryCancel();
  for (; open > 0; --open) ASSERT_TRUE(queue.Next(&tag, &ok));
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) continue;
  server.Kill(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

}  // namespace
}  // namespace planb::server
