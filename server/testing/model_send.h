// SPDX-License-Identifier: Apache-2.0

// Between the writes of a history and the messages of the contract.

#ifndef PLANB_SERVER_TESTING_MODEL_SEND_H_
#define PLANB_SERVER_TESTING_MODEL_SEND_H_

#include <grpcpp/grpcpp.h>

#include "planb/v1/route_table.grpc.pb.h"
#include "server/testing/model_history.h"

namespace planb::server {

// Makes the unary call (or the one replacement) that `call` describes, and
// fills in what the reply says. REQUIRES: it is not of a stream.
grpc::Status SendWrite(v1::RouteTable::Stub& stub, grpc::ClientContext& context,
                       v1::Ack ack, WriteCall& call);

// One of a stream, without its batch_id.
v1::StreamUpdatesRequest EncodeStreamed(const UpdateBatch& batch);

// What its reply says, which is no refusal.
void ReadStreamed(const v1::StreamUpdatesResponse& response, WriteCall& call);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_SEND_H_
