// SPDX-License-Identifier: Apache-2.0

#include "server/observe/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>

#include <functional>
#include <set>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/decoded_size.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// A request is a name.
constexpr DecodedLimits kLimits = {.bytes = size_t{64} << 10};

constexpr const char* kServices[] = {
    "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
    "planb.v1.RouteLookup", "planb.v1.RouteTable"};

// Adds `file` and what it imports, each once.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
             FileDescriptorResponse& out) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto description;
  file.CopyTo(&description);
  out.add_file_descriptor_proto(description.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFile(*file.dependency(i), added, out);
  }
}

void Answer(const ServerReflectionRequest& request,
            ServerReflectionResponse& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const FileDescriptor* file = nullptr;
  absl::StatusCode code = absl::StatusCode::kNotFound;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const char* name : kServices) {
        response.mutable_list_services_response()->add_service()->set_name(
            name);
      }
      return;
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const std::string& type = request.all_extension_numbers_of_type();
      if (pool.FindMessageTypeByName(type) == nullptr) break;
      response.mutable_all_extension_numbers_response()->set_base_type_name(
          type);
      return;
    }
    case ServerReflectionRequest::kFileByFilename:
      file = pool.FindFileByName(request.file_by_filename());
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      file = pool.FindFileContainingSymbol(request.file_containing_symbol());
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      break;
    default:
      code = absl::StatusCode::kInvalidArgument;
  }
  if (file != nullptr) {
    std::set<const FileDescriptor*> added;
    AddFile(*file, added, *response.mutable_file_descriptor_response());
    return;
  }
  auto& error = *response.mutable_error_response();
  error.set_error_code(static_cast<int>(code));
  error.set_error_message("there is no such thing");
}

}  // namespace

ReflectionService::ReflectionService() {
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::internal::RpcMethod::BIDI_STREAMING,
      new grpc::internal::BidiStreamingHandler<
          ReflectionService, grpc::ByteBuffer, ServerReflectionResponse>(
          std::mem_fn(&ReflectionService::Serve), this)));
}

grpc::Status ReflectionService::Serve(grpc::ServerContext*, Stream* stream) {
  const absl::Cleanup leave = [this] { --calls_; };
  if (++calls_ > kMaxCalls) {
    return ToGrpc(QuotaError("TOO_MANY_STREAMS", "reflection",
                             absl::StrCat("the limit is ", kMaxCalls),
                             absl::Seconds(1)));
  }
  grpc::ByteBuffer bytes;
  while (stream->Read(&bytes)) {
    ServerReflectionResponse response;
    ServerReflectionRequest& request = *response.mutable_original_request();
    const auto size = DecodedSize<ServerReflectionRequest>(bytes, kLimits);
    if (!size.ok()) return ToGrpc(size.status());
    const absl::Status parsed = ParseAndFree(bytes, request);
    if (!parsed.ok()) return ToGrpc(parsed);
    response.set_valid_host(request.host());
    Answer(request, response);
    if (!stream->Write(response)) break;
  }
  return grpc::Status::OK;
}

}  // namespace planb::server
