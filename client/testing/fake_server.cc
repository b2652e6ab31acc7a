// Synchronous services: one thread a call, which is simple and enough here.

#include "client/testing/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "client/convert.h"

namespace planb::client::testing {
namespace {

bool IsDefault(const std::string& table) {
  return table.empty() || table == "default";
}

grpc::Status NoTable(const std::string& table) {
  return MakeError(grpc::StatusCode::NOT_FOUND, "TABLE_NOT_FOUND",
                   absl::StrCat("no table \"", table, "\""));
}

void AppendLittleEndian(uint32_t value, std::string& to) {
  for (int shift = 0; shift < 32; shift += 8) {
    to.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

void Answer(const FakeTable& table, const std::string& octets, size_t width,
            v1::BatchLookupResponse& reply, bool lengths) {
  for (size_t at = 0; at < octets.size(); at += width) {
    const auto route = table.Lookup(
        *Address::FromPacked(absl::string_view(octets).substr(at, width)));
    AppendLittleEndian(route.has_value() ? route->next_hop : kNoRoute,
                       *reply.mutable_next_hops());
    if (lengths) {
      reply.mutable_prefix_lengths()->push_back(
          static_cast<char>(route.has_value() ? route->prefix.length() : 255));
    }
  }
}

void SetError(int code, const char* reason, const char* field,
              v1::BatchLookupResponse& reply) {
  reply.mutable_error()->set_code(code);
  reply.mutable_error()->set_reason(reason);
  reply.mutable_error()->set_field(field);
  reply.mutable_error()->set_message("the batch is wrong");
}

v1::BatchLookupResponse Reply(const FakeTable& table,
                              const v1::BatchLookupRequest& request) {
  v1::BatchLookupResponse reply;
  reply.set_request_id(request.request_id());
  reply.set_generation(table.generation());
  if (!IsDefault(request.table())) {
    SetError(5, "TABLE_NOT_FOUND", "table", reply);
  } else if (request.addresses_v6().size() % 16 != 0) {
    SetError(3, "ADDRESSES_LENGTH", "addresses_v6", reply);
  } else if (request.addresses_v4().size() % 4 != 0) {
    SetError(3, "ADDRESSES_LENGTH", "addresses_v4", reply);
  } else if (request.min_generation() > table.generation()) {
    SetError(9, "GENERATION_NOT_VISIBLE", "min_generation", reply);
  } else {
    const bool lengths = request.want_prefix_lengths();
    Answer(table, request.addresses_v6(), 16, reply, lengths);
    Answer(table, request.addresses_v4(), 4, reply, lengths);
  }
  return reply;
}

void Spoiled(Spoil how, v1::BatchLookupResponse& reply) {
  std::string& next_hops = *reply.mutable_next_hops();
  if (how == Spoil::kWrongId) reply.set_request_id(reply.request_id() + 1);
  if (how == Spoil::kShort && !next_hops.empty()) {
    next_hops.resize(next_hops.size() - 4);
  }
  if (how == Spoil::kWrongNextHop && !next_hops.empty()) ++next_hops[0];
}

}  // namespace

class FakeServer::LookupService : public v1::RouteLookup::Service {
 public:
  explicit LookupService(FakeServer& fake) : fake_(fake) {}

  grpc::Status Lookup(grpc::ServerContext*, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override {
    ++fake_.lookups_called_;
    const FakeTable table = fake_.table();
    if (!IsDefault(request->table())) return NoTable(request->table());
    if (static_cast<size_t>(request->addresses_size()) >
        fake_.options_.max_lookup_addresses) {
      return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED,
                       "TOO_MANY_ADDRESSES", "too many addresses");
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
      const auto next_hop = table.next_hops().find(route->next_hop);
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
    v1::BatchLookupRequest request;
    for (uint64_t batch = 0; stream->Read(&request); ++batch) {
      ++fake_.batches_read_;
      if (!fake_.AwaitRelease(*context)) return grpc::Status::CANCELLED;
      {
        absl::MutexLock lock(&fake_.mutex_);
        if (batch == fake_.end_after_) return fake_.end_status_;
      }
      v1::BatchLookupResponse reply = Reply(fake_.table(), request);
      const Spoil spoil = fake_.spoil_;
      Spoiled(spoil, reply);
      stream->Write(reply);
      if (spoil == Spoil::kTwice) stream->Write(reply);
    }
    return grpc::Status::OK;
  }

 private:
  FakeServer& fake_;
};

class FakeServer::TableService : public v1::RouteTable::Service {
 public:
  explicit TableService(FakeServer& fake) : fake_(fake) {}

  grpc::Status UpdateRoutes(grpc::ServerContext*,
                            const v1::UpdateRoutesRequest* request,
                            v1::UpdateRoutesResponse* response) override {
    absl::MutexLock lock(&fake_.mutex_);
    if (fake_.failing_updates_ > 0) {
      --fake_.failing_updates_;
      return fake_.update_error_;
    }
    if (!IsDefault(request->table())) return NoTable(request->table());
    fake_.updates_.push_back(*request);
    return fake_.table_.Update(*request, fake_.options_.max_update_routes,
                               *response);
  }

  grpc::Status GetTable(grpc::ServerContext*,
                        const v1::GetTableRequest* request,
                        v1::Table* response) override {
    if (!IsDefault(request->table())) return NoTable(request->table());
    *response = fake_.table().Describe();
    return grpc::Status::OK;
  }

  grpc::Status ListRoutes(
      grpc::ServerContext*, const v1::ListRoutesRequest* request,
      grpc::ServerWriter<v1::ListRoutesResponse>* writer) override {
    if (!IsDefault(request->table())) return NoTable(request->table());
    const FakeTable table = fake_.table();
    v1::ListRoutesResponse chunk;
    chunk.set_generation(table.generation());
    for (const auto& [prefix, next_hop] : table.routes()) {
      v1::Route* route = chunk.add_routes();
      *route->mutable_prefix() = ToProto(prefix);
      route->set_next_hop_id(next_hop);
      if (chunk.routes_size() < 3) continue;  // small chunks: many of them
      writer->Write(chunk);
      chunk.clear_routes();
    }
    writer->Write(chunk);
    return grpc::Status::OK;
  }

 private:
  FakeServer& fake_;
};

FakeServer::FakeServer(const FakeServerOptions& options)
    : options_(options),
      lookup_service_(std::make_unique<LookupService>(*this)),
      table_service_(std::make_unique<TableService>(*this)),
      table_(options.routes) {
  static std::atomic<int> count = 0;
  // Not below TEST_TMPDIR: a socket's path has at most 107 octets.
  target_ =
      absl::StrCat("unix:///tmp/planb_fake_", getpid(), "_", count++, ".sock");
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

void FakeServer::EndStreams(uint64_t batches, const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  end_after_ = batches;
  end_status_ = status;
}

void FakeServer::FailUpdates(int calls, const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  failing_updates_ = calls;
  update_error_ = status;
}

void FakeServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void FakeServer::Die() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
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
