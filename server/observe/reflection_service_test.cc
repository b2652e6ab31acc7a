// SPDX-License-Identifier: Apache-2.0

#include "server/observe/reflection_service.h"

#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// An open call.
class Reflection {
 public:
  explicit Reflection(const std::shared_ptr<grpc::Channel>& channel)
      : stream_(grpc::internal::ClientReaderWriterFactory<
                ServerReflectionRequest,
                ServerReflectionResponse>::Create(channel.get(), method_,
                                                  &context_)) {}

  ServerReflectionResponse Ask(const ServerReflectionRequest& request) {
    ServerReflectionResponse response;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }
  bool Answers() {
    ServerReflectionRequest request;
    request.set_list_services("");
    ServerReflectionResponse response;
    return stream_->Write(request) && stream_->Read(&response);
  }
  grpc::Status Finish() {
    stream_->WritesDone();
    return stream_->Finish();
  }

 private:
  const grpc::internal::RpcMethod method_{
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::internal::RpcMethod::BIDI_STREAMING};
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<ServerReflectionRequest,
                                           ServerReflectionResponse>>
      stream_;
};

TEST(Reflection, DescribesEveryService) {
  RunningServer running;
  Reflection call(running.tcp());
  ServerReflectionRequest request;
  request.set_host("here");
  request.set_list_services("*");
  const ServerReflectionResponse list = call.Ask(request);
  EXPECT_EQ(list.valid_host(), "here");
  EXPECT_EQ(list.original_request().list_services(), "*");
  EXPECT_EQ(list.list_services_response().service_size(), 4);
  for (const auto& service : list.list_services_response().service()) {
    request.set_file_containing_symbol(service.name());
    const ServerReflectionResponse found = call.Ask(request);
    // Each file comes with all that it imports.
    std::set<std::string> names;
    std::vector<google::protobuf::FileDescriptorProto> files;
    for (const auto& bytes :
         found.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto& file = files.emplace_back();
      ASSERT_TRUE(file.ParseFromString(bytes));
      EXPECT_TRUE(names.insert(file.name()).second) << "is there twice";
    }
    ASSERT_FALSE(files.empty()) << service.name();
    EXPECT_EQ(files[0].package() + "." + files[0].service(0).name(),
              service.name());
    for (const auto& file : files) {
      for (const std::string& import : file.dependency()) {
        EXPECT_TRUE(names.count(import)) << import;
      }
    }
    request.set_file_by_filename(files[0].name());
    EXPECT_GT(call.Ask(request)
                  .file_descriptor_response()
                  .file_descriptor_proto_size(),
              0);
  }
  EXPECT_TRUE(call.Finish().ok());
}

TEST(Reflection, AnswersInBandWhatThereIsNot) {
  RunningServer running;
  Reflection call(running.tcp());
  ServerReflectionRequest request;
  EXPECT_EQ(call.Ask(request).error_response().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.set_file_by_filename("no.proto");
  EXPECT_EQ(call.Ask(request).error_response().error_code(),
            grpc::StatusCode::NOT_FOUND);
  request.set_file_containing_symbol("no.Such");
  EXPECT_TRUE(call.Ask(request).has_error_response());
  request.mutable_file_containing_extension()->set_extension_number(1);
  EXPECT_TRUE(call.Ask(request).has_error_response());
  request.set_all_extension_numbers_of_type("no.Such");
  EXPECT_TRUE(call.Ask(request).has_error_response());
  request.set_all_extension_numbers_of_type("planb.v1.Route");
  EXPECT_EQ(call.Ask(request).all_extension_numbers_response().base_type_name(),
            "planb.v1.Route");
  EXPECT_TRUE(call.Finish().ok());
}

TEST(Reflection, CallsAreBounded) {
  RunningServer running;
  std::vector<std::unique_ptr<Reflection>> calls;
  for (int i = 0; i < ReflectionService::kMaxCalls; ++i) {
    calls.push_back(std::make_unique<Reflection>(running.tcp()));
    EXPECT_TRUE(calls.back()->Answers());
  }
  Reflection beyond(running.tcp());
  EXPECT_FALSE(beyond.Answers());
  EXPECT_EQ(ReasonOf(beyond.Finish()), "TOO_MANY_STREAMS");
  for (const auto& call : calls) EXPECT_TRUE(call->Finish().ok());
  Reflection after(running.tcp());
  EXPECT_TRUE(after.Answers());
  EXPECT_TRUE(after.Finish().ok());
}

}  // namespace
}  // namespace planb::server
