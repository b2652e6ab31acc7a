// SPDX-License-Identifier: Apache-2.0

// grpc.reflection.v1alpha.ServerReflection, by which tools such as grpcurl
// learn the contract. gRPC's own implementation parses requests of any size and
// serves any number of calls, each of which takes a thread.

#ifndef PLANB_SERVER_OBSERVE_REFLECTION_SERVICE_H_
#define PLANB_SERVER_OBSERVE_REFLECTION_SERVICE_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>

#include "grpc/reflection/v1alpha/reflection.pb.h"

namespace planb::server {

// Thread-safe. Knows the services that this server serves, all types that they
// use, and no extensions.
class ReflectionService final : public grpc::Service {
 public:
  // Calls open at once.
  static constexpr int kMaxCalls = 8;

  ReflectionService();

 private:
  using Stream = grpc::ServerReaderWriter<
      grpc::reflection::v1alpha::ServerReflectionResponse, grpc::ByteBuffer>;

  // Errors: RESOURCE_EXHAUSTED (TOO_MANY_STREAMS, REQUEST_TOO_LARGE),
  // INVALID_ARGUMENT (MESSAGE_MALFORMED).
  grpc::Status Serve(grpc::ServerContext* call, Stream* stream);

  std::atomic<int> calls_{0};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_REFLECTION_SERVICE_H_
