// planb.v1.RouteLookup: the read path over gRPC.

#ifndef PLANB_SERVER_LOOKUP_SERVICE_H_
#define PLANB_SERVER_LOOKUP_SERVICE_H_

#include "grpcpp/grpcpp.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "server/batch_stream.h"
#include "server/lookup_context.h"

namespace planb::server {

// Thread-safe. `context` outlives the service, the service the gRPC server.
class LookupService final : public v1::RouteLookup::CallbackService {
 public:
  explicit LookupService(LookupContext& context)
      : context_(context), streams_(context) {}

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* call,
                                   const v1::LookupRequest* request,
                                   v1::LookupResponse* response) override;

  grpc::ServerBidiReactor<v1::BatchLookupRequest, v1::BatchLookupResponse>*
  BatchLookup(grpc::CallbackServerContext* call) override;

  // Lets every stream answer what it has received, then ends it; waits for
  // the last one until the deadline.
  void Drain(absl::Time deadline) { streams_.Drain(deadline); }

 private:
  LookupContext& context_;
  BatchStreams streams_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_SERVICE_H_
