// SPDX-License-Identifier: Apache-2.0

// Reads addresses and writes next hops byte by byte, unlike the client, so that
// both do not share a mistake. The services are synchronous: one thread for
// each call.

#include "client/testing/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "client/channel.h"

namespace planb::client::testing {

namespace {

void AppendLittleEndian(uint32_t value, std::string& to) {
  for (int shift = 0; shift < 32; shift += 8) {
    to.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

void Answer(const FakeTable& table, const std::string& bytes, size_t width,
            v1::BatchLookupResponse& reply, bool lengths) {
  for (size_t at = 0; at < bytes.size(); at += width) {
    const auto route = table.Lookup(
        *Address::FromPacked(absl::string_view(bytes).substr(at, width)));
    AppendLittleEndian(route.has_value() ? route->next_hop : kNoRoute,
                       *reply.mutable_next_hops());
    if (lengths) {
      reply.mutable_prefix_lengths()->push_back(
          static_cast<char>(route.has_value() ? route->prefix.length() : 255));
    }
  }
}

// The answers to upper halves: undecided if the /64 contains a longer route.
void AnswerHalves(const FakeTable& table, const std::string& bytes,
                  v1::BatchLookupResponse& reply) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const Prefix half = Prefix::Truncate(
        *Address::FromPacked(bytes.substr(at, 8) + std::string(8, '\0')), 64);
    const auto route = table.Lookup(half.address());
    NextHopId answer = route.has_value() ? route->next_hop : kNoRoute;
    for (const auto& [prefix, next_hop] : table.routes()) {
      if (prefix.length() > 64 && half.Covers(prefix)) answer = kUndecided;
    }
    AppendLittleEndian(answer, *reply.mutable_next_hops());
  }
}

uint32_t LittleEndianAt(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

// Replaces groups by members.
void ChooseMembers(const std::string& flow_hashes, std::string& next_hops) {
  std::string chosen;
  for (size_t at = 0; at < flow_hashes.size(); at += 4) {
    AppendLittleEndian(MemberOf(LittleEndianAt(next_hops, at),
                                LittleEndianAt(flow_hashes, at)),
                       chosen);
  }
  next_hops = chosen;
}

void SetError(int code, const char* reason, const char* field,
              v1::BatchLookupResponse& reply) {
  reply.mutable_error()->set_code(code);
  reply.mutable_error()->set_reason(reason);
  reply.mutable_error()->set_field(field);
  reply.mutable_error()->set_message("the batch is wrong");
}

v1::BatchLookupResponse AnswerBatch(const FakeTable& table,
                                    const v1::BatchLookupRequest& request) {
  v1::BatchLookupResponse reply;
  reply.set_request_id(request.request_id());
  reply.set_generation(table.generation());
  if (!IsDefaultTable(request.table())) {
    SetError(5, "TABLE_NOT_FOUND", "table", reply);
  } else if (request.addresses_v6().size() % 16 != 0) {
    SetError(3, "ADDRESSES_LENGTH", "addresses_v6", reply);
  } else if (request.addresses_v4().size() % 4 != 0) {
    SetError(3, "ADDRESSES_LENGTH", "addresses_v4", reply);
  } else if (request.upper_halves_v6().size() % 8 != 0) {
    SetError(3, "ADDRESSES_LENGTH", "upper_halves_v6", reply);
  } else if (request.min_generation() > table.generation()) {
    SetError(9, "GENERATION_NOT_VISIBLE", "min_generation", reply);
  } else {
    const bool lengths = request.want_prefix_lengths();
    Answer(table, request.addresses_v6(), 16, reply, lengths);
    Answer(table, request.addresses_v4(), 4, reply, lengths);
    AnswerHalves(table, request.upper_halves_v6(), reply);
    if (request.flow_hashes().empty()) return reply;
    if (request.flow_hashes().size() != reply.next_hops().size()) {
      reply.clear_next_hops();
      reply.clear_prefix_lengths();
      SetError(3, "FLOW_HASHES_LENGTH", "flow_hashes", reply);
      return reply;
    }
    ChooseMembers(request.flow_hashes(), *reply.mutable_next_hops());
  }
  return reply;
}

v1::BatchLookupResponse RefuseToDrain(const FakeTable& table,
                                      const v1::BatchLookupRequest& request) {
  v1::BatchLookupResponse reply;
  reply.set_request_id(request.request_id());
  reply.set_generation(table.generation());
  SetError(14, "DRAINING", "", reply);
  return reply;
}

void SpoilReply(Spoil how, v1::BatchLookupResponse& reply) {
  std::string& next_hops = *reply.mutable_next_hops();
  if (how == Spoil::kWrongId) reply.set_request_id(reply.request_id() + 1);
  if (how == Spoil::kShort && !next_hops.empty()) {
    next_hops.resize(next_hops.size() - 4);
  }
  if (how == Spoil::kWrongNextHop && !next_hops.empty()) ++next_hops[0];
}

}  // namespace

grpc::Status FakeServer::NoTable(const std::string& table) {
  return MakeError(grpc::StatusCode::NOT_FOUND, "TABLE_NOT_FOUND",
                   absl::StrCat("no table \"", table, "\""));
}

class FakeServer::LookupService : public v1::RouteLookup::Service {
 public:
  explicit LookupService(FakeServer& fake) : fake_(fake) {}

  grpc::Status Lookup(grpc::ServerContext*, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override {
    ++fake_.lookups_called_;
    const FakeTable table = fake_.table();
    if (!IsDefaultTable(request->table())) return NoTable(request->table());
    if (static_cast<size_t>(request->addresses_size()) >
        fake_.options_.max_lookup_addresses) {
      return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED,
                       "TOO_MANY_ADDRESSES", "too many addresses");
    }
    if (request->flow_hashes_size() != 0 &&
        request->flow_hashes_size() != request->addresses_size()) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "FLOW_HASHES_LENGTH",
                       "not one for each address", "flow_hashes");
    }
    if (request->min_generation() > table.generation()) {
      return MakeError(grpc::StatusCode::FAILED_PRECONDITION,
                       "GENERATION_NOT_VISIBLE", "not yet visible");
    }
    response->set_generation(table.generation());
    for (int i = 0; i < request->addresses_size(); ++i) {
      const v1::Address& form = request->addresses(i);
      const auto address = form.has_text() ? Address::Parse(form.text())
                                           : Address::FromPacked(form.packed());
      if (!address.ok()) {
        return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "BAD_ADDRESS",
                         std::string(address.status().message()),
                         absl::StrCat("addresses[", i, "]"));
      }
      v1::LookupResult* result = response->add_results();
      const auto route = table.Lookup(*address);
      if (!route.has_value()) continue;
      result->set_next_hop_id(route->next_hop);
      if (request->want_prefix()) {
        *result->mutable_prefix() = ToProto(route->prefix);
      }
      NextHopId taken = route->next_hop;
      if (request->flow_hashes_size() > 0) {
        taken = MemberOf(taken, request->flow_hashes(i));
        if (taken != route->next_hop) result->set_member_id(taken);
      }
      const auto next_hop = table.next_hops().find(taken);
      if (request->want_next_hop() && next_hop != table.next_hops().end()) {
        *result->mutable_next_hop() = next_hop->second;
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status BatchLookup(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::BatchLookupResponse, v1::BatchLookupRequest>*
          stream) override {
    ++fake_.streams_opened_;
    const Fate fate = fake_.NextFate();
    v1::BatchLookupRequest request;
    for (uint64_t batch = 0; stream->Read(&request); ++batch) {
      ++fake_.batches_read_;
      if (!fake_.AwaitRelease(*context)) return grpc::Status::CANCELLED;
      if (batch == fate.end_after) return fate.status;
      v1::BatchLookupResponse reply =
          batch < fate.drain_after ? AnswerBatch(fake_.table(), request)
                                   : RefuseToDrain(fake_.table(), request);
      const Spoil spoil = fake_.spoil_;
      SpoilReply(spoil, reply);
      stream->Write(reply);
      if (spoil == Spoil::kTwice) stream->Write(reply);
    }
    return grpc::Status::OK;
  }

 private:
  FakeServer& fake_;
};

FakeServer::FakeServer(const FakeServerOptions& options)
    : options_(options), table_(FirstTable()) {
  static std::atomic<int> count = 0;
  // Not below TEST_TMPDIR: a socket's path has at most 107 bytes.
  target_ =
      absl::StrCat("unix:///tmp/planb_fake_", getpid(), "_", count++, ".sock");
  Start();
}

FakeTable FakeServer::FirstTable() const {
  return FakeTable(options_.routes, options_.durable);
}

void FakeServer::Start() {
  lookup_service_ = std::make_unique<LookupService>(*this);
  table_service_ = MakeTableService();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(target_, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.RegisterService(lookup_service_.get());
  builder.RegisterService(table_service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) ABSL_RAW_LOG(FATAL, "cannot listen");
}

FakeServer::~FakeServer() {
  Die();
  unlink(target_.substr(std::string("unix://").size()).c_str());
}

std::shared_ptr<grpc::Channel> FakeServer::Channel() const {
  return *MakeChannel(target_, {.own_connection = true});
}

void FakeServer::Hold() {
  absl::MutexLock lock(&mutex_);
  held_ = true;
}

void FakeServer::Release() {
  absl::MutexLock lock(&mutex_);
  held_ = false;
}

bool FakeServer::AwaitRelease(const grpc::ServerContextBase& context) const {
  while (!context.IsCancelled()) {
    absl::MutexLock lock(&mutex_);
    const auto released = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !held_;
    };
    if (mutex_.AwaitWithTimeout(absl::Condition(&released),
                                absl::Milliseconds(10))) {
      return true;
    }
  }
  return false;
}

void FakeServer::EndStreams(uint64_t batches, const grpc::Status& status,
                            uint64_t streams) {
  absl::MutexLock lock(&mutex_);
  fate_ = {.end_after = batches, .status = status};
  fated_streams_ = streams;
}

void FakeServer::DrainStreams(uint64_t batches, uint64_t streams) {
  absl::MutexLock lock(&mutex_);
  fate_ = {.drain_after = batches};
  fated_streams_ = streams;
}

FakeServer::Fate FakeServer::NextFate() {
  absl::MutexLock lock(&mutex_);
  if (fated_streams_ == 0) return {};
  --fated_streams_;
  return fate_;
}

void FakeServer::FailUpdates(int calls, const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  failing_updates_ = calls;
  update_error_ = status;
}

void FakeServer::ForgetHistory() {
  absl::MutexLock lock(&mutex_);
  table_.ForgetHistory();
}

void FakeServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void FakeServer::SetReplicas(const v1::ListReplicasResponse& replicas) {
  absl::MutexLock lock(&mutex_);
  replicas_ = replicas;
}

void FakeServer::Die() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void FakeServer::Restart() {
  server_.reset();
  {
    absl::MutexLock lock(&mutex_);
    table_ = FirstTable();
  }
  Start();
}

std::vector<v1::UpdateRoutesRequest> FakeServer::updates() const {
  absl::MutexLock lock(&mutex_);
  return updates_;
}

FakeTable FakeServer::table() const {
  absl::MutexLock lock(&mutex_);
  return table_;
}

}  // namespace planb::client::testing
