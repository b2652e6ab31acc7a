// SPDX-License-Identifier: Apache-2.0

// The synchronous style: a thread of gRPC's pool sits in each call. The
// generated code has no raw form of it; what it is made of takes bytes too.

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>

#include <utility>

#include "benchmarks/serving/rpc/bare_server.h"

namespace planb::rpc {
namespace {

using grpc::ByteBuffer;
using grpc::internal::BidiStreamingHandler;
using grpc::internal::RpcMethod;
using grpc::internal::RpcMethodHandler;
using grpc::internal::RpcServiceMethod;

class Service final : public grpc::Service {
 public:
  explicit Service(Handler handler) : handler_(std::move(handler)) {
    AddMethod(new RpcServiceMethod(
        "/planb.v1.RouteLookup/Lookup", RpcMethod::NORMAL_RPC,
        new RpcMethodHandler<Service, ByteBuffer, ByteBuffer>(
            [](Service*, grpc::ServerContext*, const ByteBuffer* request,
               ByteBuffer* reply) {
              *reply = *request;
              return grpc::Status::OK;
            },
            this)));
    AddMethod(new RpcServiceMethod(
        "/planb.v1.RouteLookup/BatchLookup", RpcMethod::BIDI_STREAMING,
        new BidiStreamingHandler<Service, ByteBuffer, ByteBuffer>(
            [](Service* self, grpc::ServerContext*,
               grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>* stream) {
              return self->Serve(*stream);
            },
            this)));
  }

 private:
  grpc::Status Serve(grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>& stream) {
    ByteBuffer request;
    while (stream.Read(&request)) {
      ByteBuffer reply;
      if (!handler_(request, reply)) {
        return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "malformed");
      }
      if (!stream.Write(reply)) break;
    }
    return grpc::Status::OK;
  }

  const Handler handler_;
};

class SyncStyle final : public Style {
 public:
  explicit SyncStyle(Handler handler) : service_(std::move(handler)) {}
  grpc::Service& service() override { return service_; }

 private:
  Service service_;
};

}  // namespace

std::unique_ptr<Style> MakeSyncStyle(Handler handler) {
  return std::make_unique<SyncStyle>(std::move(handler));
}

}  // namespace planb::rpc
