// SPDX-License-Identifier: Apache-2.0

// Requests of two bytes for each object. Every method of every service refuses
// such a message before it takes memory, and says why.

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/testing/attacked_server.h"

namespace planb::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using grpc::ByteBuffer;

constexpr size_t kMessageBytes = size_t{4} << 20;
// A quarter of the default, as the messages are of the largest one allowed.
constexpr size_t kUpdateBytes = size_t{64} << 20;
// A few such messages and their copies. One that is parsed takes 100 MiB.
#ifdef __SANITIZE_ADDRESS__
[[maybe_unused]] constexpr int64_t kAllowedMib = 512;
#else
constexpr int64_t kAllowedMib = 64;
#endif

struct Payload {
  std::string name;
  std::string bytes;
};

std::string Varint(size_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) {
    bytes += static_cast<char>(value % 128 + 128);
  }
  return bytes + static_cast<char>(value);
}

std::string Tag(int number, int wire_type) {
  return Varint(static_cast<size_t>(number) << 3 |
                static_cast<size_t>(wire_type));
}

// `bytes` as the value of the field at `path`.
std::string Within(const std::vector<int>& path, std::string bytes) {
  for (auto number = path.rbegin(); number != path.rend(); ++number) {
    bytes = Tag(*number, 2) + Varint(bytes.size()) + bytes;
  }
  return bytes;
}

// `unit` repeated to 4 MiB, as the value of the field at `path`.
std::string Fill(const std::vector<int>& path, const std::string& unit) {
  std::string bytes = unit;
  bytes.reserve(2 * kMessageBytes);
  while (bytes.size() < kMessageBytes) bytes.append(bytes, 0);
  bytes.resize(kMessageBytes / unit.size() * unit.size());
  return Within(path, std::move(bytes));
}

// Each list of `type` at any depth in turn, and unknown fields in each message.
void Collect(const Descriptor& type, const std::string& name,
             std::vector<int> path, std::vector<Payload>& out) {
  out.push_back({name + " unknown numbers", Fill(path, Tag(15, 0) + '\0')});
  out.push_back({name + " unknown strings", Fill(path, Tag(15, 2) + '\0')});
  out.push_back(
      {name + " unknown groups", Fill(path, Tag(15, 3) + Tag(15, 4))});
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string inner = absl::StrCat(name, ".", field.name());
    const bool is_message = field.type() == FieldDescriptor::TYPE_MESSAGE;
    if (field.is_repeated()) {
      if (field.is_packable()) {
        const std::string packed(kMessageBytes - 8, '\0');
        out.push_back({inner + " packed",
                       Within(path, Tag(field.number(), 2) +
                                        Varint(packed.size()) + packed)});
      }
      if (is_message || field.type() == FieldDescriptor::TYPE_UINT32) {
        out.push_back(
            {inner,
             Fill(path, Tag(field.number(), is_message ? 2 : 0) + '\0')});
      }
    }
    if (!is_message) continue;
    path.push_back(field.number());
    Collect(*field.message_type(), inner, path, out);
    path.pop_back();
  }
}

// Sends one message and waits for the end of the call.
grpc::Status Send(grpc::Channel& channel, const std::string& path,
                  const std::string& message) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(2));
  const grpc::internal::RpcMethod method(
      path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING);
  const std::unique_ptr<grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>> call(
      grpc::internal::ClientReaderWriterFactory<ByteBuffer, ByteBuffer>::Create(
          &channel, method, &context));
  const grpc::Slice slice(message);
  call->Write(ByteBuffer(&slice, 1));
  call->WritesDone();
  ByteBuffer reply;
  while (call->Read(&reply)) continue;
  return call->Finish();
}

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status rich;
  rich.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  for (const auto& detail : rich.details()) {
    if (detail.UnpackTo(&info)) break;
  }
  return info.reason();
}

class RequestMemory : public testing::Test {
 protected:
  RequestMemory()
      : target_(absl::StrCat("unix://", TempPath("memory.sock"))),
        server_({absl::StrCat("--listen=", target_),
                 "--metrics_address=", "--store=none",
                 absl::StrCat("--update_memory_bytes=", kUpdateBytes)}) {
    EXPECT_TRUE(server_.AwaitServing());
    EXPECT_TRUE(AnnounceTheRoute(target_).ok());
    idle_kib_ = MemoryKib(server_.pid(), "VmHWM");
  }

  // The growth of the server's peak memory, in MiB.
  int64_t Added() const {
    return (MemoryKib(server_.pid(), "VmHWM") - idle_kib_) / 1024;
  }

  const std::string target_;
  ServerProcess server_;
  int64_t idle_kib_ = 0;
};

TEST_F(RequestMemory, EveryMethodRefusesAmplification) {
  const auto channel = Connect(target_);
  int sent = 0;
  for (const Descriptor* request :
       {v1::GetTableRequest::descriptor(), v1::LookupRequest::descriptor(),
        grpc::health::v1::HealthCheckRequest::descriptor(),
        grpc::reflection::v1alpha::ServerReflectionRequest::descriptor()}) {
    const auto* const service = request->file()->service(0);
    for (int i = 0; i < service->method_count(); ++i) {
      const auto& method = *service->method(i);
      const std::string path =
          absl::StrCat("/", service->full_name(), "/", method.name());
      std::vector<Payload> payloads;
      Collect(*method.input_type(), path, {}, payloads);
      for (const Payload& payload : payloads) {
        const grpc::Status status = Send(*channel, path, payload.bytes);
        ++sent;
        ASSERT_LT(Added(), kAllowedMib) << payload.name;
        // The server reads BatchLookup requests in place and parses none.
        if (method.name() == "BatchLookup") continue;
        EXPECT_TRUE(status.error_code() ==
                        grpc::StatusCode::RESOURCE_EXHAUSTED ||
                    status.error_code() == grpc::StatusCode::INVALID_ARGUMENT)
            << payload.name << ": " << status.error_code() << " "
            << status.error_message();
        EXPECT_NE(ReasonOf(status), "")
            << payload.name << ": " << status.error_message();
      }
    }
  }
  std::cout << sent << " messages of 4 MiB; " << Added()
            << " MiB more at the peak\n";
  EXPECT_GT(sent, 100);
}

TEST_F(RequestMemory, ManyCallsAtOnceStayWithinTheLimit) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      const auto channel = Connect(target_);
      const std::string message = Fill({}, Tag(2, 2) + '\0');
      for (const char* path :
           {"UpdateRoutes", "StreamUpdates", "UpdateRoutes"}) {
        EXPECT_NE(
            ReasonOf(Send(*channel, absl::StrCat("/planb.v1.RouteTable/", path),
                          message)),
            "");
      }
    });
  }
  for (std::thread& client : clients) client.join();
  std::cout << Added() << " MiB more at the peak\n";
  EXPECT_LT(Added(), 2 * kAllowedMib);
}

}  // namespace
}  // namespace planb::server
