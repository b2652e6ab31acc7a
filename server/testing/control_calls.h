// SPDX-License-Identifier: Apache-2.0

// Makes RouteTable's calls in a line each, has the client's end of
// StreamUpdates, and checks errors.

#ifndef PLANB_SERVER_TESTING_CONTROL_CALLS_H_
#define PLANB_SERVER_TESTING_CONTROL_CALLS_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lpm/prefix.h"
#include "server/testing/running_server.h"

namespace planb::server {

using Stub = v1::RouteTable::Stub;
using Code = grpc::StatusCode;

// A context with a deadline, so that a call that hangs fails where it is made.
class CallContext : public grpc::ClientContext {
 public:
  CallContext() {
    set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
  }
};

template <typename Response>
struct Reply {
  grpc::Status status;
  Response response;
};

// Calls a unary method, with a request that may be given as {}.
template <typename Request, typename Response>
Reply<Response> Call(RunningServer& running,
                     grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                  const Request&, Response*),
                     const std::type_identity_t<Request>& request) {
  Reply<Response> reply;
  CallContext context;
  reply.status = (running.table().*method)(&context, request, &reply.response);
  return reply;
}

template <typename Response>
struct Replies {
  grpc::Status status;
  std::vector<Response> all;
};

// Calls a method that answers with a stream.
template <typename Request, typename Response>
Replies<Response> Call(RunningServer& running,
                       std::unique_ptr<grpc::ClientReader<Response>> (
                           Stub::*method)(grpc::ClientContext*, const Request&),
                       const std::type_identity_t<Request>& request) {
  Replies<Response> replies;
  CallContext context;
  const auto reader = (running.table().*method)(&context, request);
  Response response;
  while (reader->Read(&response)) replies.all.push_back(response);
  replies.status = reader->Finish();
  return replies;
}

// Calls a method that takes a stream.
template <typename Request, typename Response>
Reply<Response> Call(RunningServer& running,
                     std::unique_ptr<grpc::ClientWriter<Request>> (
                         Stub::*method)(grpc::ClientContext*, Response*),
                     const std::vector<std::type_identity_t<Request>>& sent) {
  Reply<Response> reply;
  CallContext context;
  const auto writer = (running.table().*method)(&context, &reply.response);
  for (const Request& request : sent) {
    if (!writer->Write(request)) break;
  }
  writer->WritesDone();
  reply.status = writer->Finish();
  return reply;
}

// A client that buffers 64 KiB of a stream, and no more when the path is fast.
inline std::unique_ptr<Stub> NarrowClient(const RunningServer& running) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::RouteTable::NewStub(
      grpc::CreateCustomChannel(absl::StrCat("unix://", running.socket()),
                                grpc::InsecureChannelCredentials(), arguments));
}

inline void ExpectError(const grpc::Status& status, Code code,
                        const std::string& reason, const std::string& field) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  EXPECT_EQ(info.reason(), reason) << status.error_message();
  EXPECT_EQ(info.domain(), "planb");
  EXPECT_EQ(FieldOf(status), field);
}

// Expects RESOURCE_EXHAUSTED with the name of the limit, and with a delay if
// the call is to be repeated.
inline void ExpectQuota(const grpc::Status& status, const std::string& reason,
                        bool retry) {
  ExpectError(status, Code::RESOURCE_EXHAUSTED, reason, "");
  const auto quota = DetailOf<google::rpc::QuotaFailure>(status);
  ASSERT_EQ(quota.violations_size(), 1) << reason;
  EXPECT_FALSE(quota.violations(0).subject().empty());
  EXPECT_FALSE(quota.violations(0).description().empty());
  const auto delay = DetailOf<google::rpc::RetryInfo>(status).retry_delay();
  EXPECT_EQ(delay.seconds() > 0 || delay.nanos() > 0, retry) << reason;
}

// Adds an upsert; a next hop of 0 means a withdrawal.
template <typename Request>
void AddUpdate(const std::string& prefix, uint32_t next_hop, Request& request) {
  v1::RouteUpdate& update = *request.add_updates();
  update.set_op(next_hop == 0 ? v1::RouteUpdate::OP_DELETE
                              : v1::RouteUpdate::OP_UPSERT);
  update.mutable_prefix()->set_text(prefix);
  update.set_next_hop_id(next_hop);
}

inline v1::UpdateRoutesRequest Updates(
    std::initializer_list<std::pair<const char*, uint32_t>> routes,
    const std::string& table = "") {
  v1::UpdateRoutesRequest request;
  request.set_table(table);
  for (const auto& [prefix, hop] : routes) AddUpdate(prefix, hop, request);
  return request;
}

inline void SetPrefix(const Prefix& prefix, v1::Prefix& out) {
  out.set_address(prefix.address().ToPacked());
  out.set_length(static_cast<uint32_t>(prefix.length()));
}

inline Prefix ToPrefix(const v1::Prefix& prefix) {
  return *Prefix::Create(*Address::FromPacked(prefix.address()),
                         static_cast<int>(prefix.length()));
}

// Adds a group; `members` are pairs of next hop and weight.
inline void AddGroup(
    uint32_t id, std::initializer_list<std::pair<uint32_t, uint32_t>> members,
    google::protobuf::RepeatedPtrField<v1::NextHopGroup>& groups) {
  v1::NextHopGroup& group = *groups.Add();
  group.set_id(id);
  for (const auto& [next_hop, weight] : members) {
    v1::NextHopGroup::Member& member = *group.add_members();
    member.set_next_hop_id(next_hop);
    member.set_weight(weight);
  }
}

inline v1::Table GetTable(RunningServer& running,
                          const std::string& table = "") {
  v1::GetTableRequest request;
  request.set_table(table);
  const auto reply = Call(running, &Stub::GetTable, request);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  return reply.response;
}

inline void CreateTable(RunningServer& running, const std::string& table) {
  v1::CreateTableRequest request;
  request.set_table(table);
  const auto reply = Call(running, &Stub::CreateTable, request);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
}

inline grpc::Status DeleteTable(RunningServer& running,
                                const std::string& table) {
  v1::DeleteTableRequest request;
  request.set_table(table);
  return Call(running, &Stub::DeleteTable, request).status;
}

// Returns every route of the visible generation, in order.
inline std::vector<Route> ListAll(RunningServer& running,
                                  const std::string& table = "") {
  v1::ListRoutesRequest request;
  request.set_table(table);
  const auto list = Call(running, &Stub::ListRoutes, request);
  EXPECT_TRUE(list.status.ok()) << list.status.error_message();
  std::vector<Route> routes;
  for (const v1::ListRoutesResponse& chunk : list.all) {
    for (const v1::Route& route : chunk.routes()) {
      routes.push_back({ToPrefix(route.prefix()), route.next_hop_id()});
    }
  }
  return routes;
}

// An open StreamUpdates call after its hello was answered. Not thread-safe.
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
  // The final status. Expects that no reply is left.
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

inline v1::StreamUpdatesRequest StreamBatch(
    uint64_t id,
    std::initializer_list<std::pair<const char*, uint32_t>> routes) {
  v1::StreamUpdatesRequest batch;
  batch.set_batch_id(id);
  for (const auto& [prefix, hop] : routes) AddUpdate(prefix, hop, batch);
  return batch;
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_CONTROL_CALLS_H_
