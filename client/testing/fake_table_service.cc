// SPDX-License-Identifier: Apache-2.0

// The fake server's RouteTable. What it cannot do is tested with the real
// server.

#include <grpcpp/server_context.h>

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/call.h"
#include "client/testing/fake_server.h"

namespace planb::client::testing {

namespace {

v1::UpdateRoutesRequest ToUnary(const v1::StreamUpdatesRequest& first,
                                const v1::StreamUpdatesRequest& batch) {
  v1::UpdateRoutesRequest request;
  request.set_ack(first.ack());
  request.set_writer_epoch(first.writer_epoch());
  *request.mutable_updates() = batch.updates();
  *request.mutable_next_hops() = batch.next_hops();
  *request.mutable_groups() = batch.groups();
  if (batch.has_expected_generation()) {
    request.set_expected_generation(batch.expected_generation());
  }
  return request;
}

v1::StreamUpdatesResponse ToStreamed(const grpc::Status& status,
                                     const v1::UpdateRoutesResponse& answer) {
  v1::StreamUpdatesResponse reply;
  if (!status.ok()) {
    reply.mutable_error()->set_code(status.error_code());
    reply.mutable_error()->set_reason("FAKE_REFUSAL");
    reply.mutable_error()->set_field("updates[0]");
    reply.mutable_error()->set_message(status.error_message());
    return reply;
  }
  reply.set_generation(answer.generation());
  reply.set_added(answer.added());
  reply.set_visible_generation(answer.visible_generation());
  return reply;
}

}  // namespace

// Thread-safe.
class FakeServer::TableService : public v1::RouteTable::Service {
 public:
  explicit TableService(FakeServer& fake) : fake_(fake) {}

  grpc::Status UpdateRoutes(grpc::ServerContext*,
                            const v1::UpdateRoutesRequest* request,
                            v1::UpdateRoutesResponse* response) override {
    return WithTable(request->table(), [&](FakeTable& table) {
      fake_.mutex_.AssertHeld();
      if (fake_.failing_updates_ > 0) {
        --fake_.failing_updates_;
        return fake_.update_error_;
      }
      fake_.updates_.push_back(*request);
      return table.Update(*request, *response);
    });
  }

  grpc::Status GetTable(grpc::ServerContext*,
                        const v1::GetTableRequest* request,
                        v1::Table* response) override {
    return WithTable(request->table(), [&](FakeTable& table) {
      *response = table.Describe();
      return grpc::Status::OK;
    });
  }

  // All routes.
  grpc::Status ListRoutes(
      grpc::ServerContext*, const v1::ListRoutesRequest* request,
      grpc::ServerWriter<v1::ListRoutesResponse>* writer) override {
    v1::ListRoutesResponse response;
    grpc::Status status = WithTable(request->table(), [&](FakeTable& table) {
      response.set_generation(table.generation());
      for (const auto& [prefix, next_hop] : table.routes()) {
        *response.add_routes() = ToProto(Route{prefix, next_hop});
      }
      return grpc::Status::OK;
    });
    if (status.ok()) writer->Write(response);
    return status;
  }

  grpc::Status ListNextHops(
      grpc::ServerContext*, const v1::ListNextHopsRequest* request,
      grpc::ServerWriter<v1::ListNextHopsResponse>* writer) override {
    ++fake_.lists_called_;
    v1::ListNextHopsResponse response;
    grpc::Status status = WithTable(request->table(), [&](FakeTable& table) {
      response.set_generation(table.generation());
      for (const auto& [id, next_hop] : table.next_hops()) {
        *response.add_next_hops() = next_hop;
      }
      for (const auto& [id, group] : table.groups()) {
        *response.add_groups() = group;
      }
      return grpc::Status::OK;
    });
    if (status.ok()) writer->Write(response);
    return status;
  }

  grpc::Status ListReplicas(grpc::ServerContext*,
                            const v1::ListReplicasRequest*,
                            v1::ListReplicasResponse* response) override {
    absl::MutexLock lock(&fake_.mutex_);
    *response = fake_.replicas_;
    return response->replicas().empty()
               ? MakeError(grpc::StatusCode::FAILED_PRECONDITION,
                           "STORE_NOT_SHARED", "no server shares the store")
               : grpc::Status::OK;
  }

  grpc::Status WatchRoutes(
      grpc::ServerContext* context, const v1::WatchRoutesRequest* request,
      grpc::ServerWriter<v1::WatchRoutesResponse>* writer) override {
    ++fake_.streams_opened_;
    const Fate fate = fake_.NextFate();
    uint64_t sent = request->start_generation();
    const auto check = [&](FakeTable& table) {
      if (sent < table.oldest() || sent > table.generation()) {
        return MakeError(
            grpc::StatusCode::OUT_OF_RANGE, "HISTORY_COMPACTED",
            absl::StrCat("the oldest generation is ", table.oldest()));
      }
      return grpc::Status::OK;
    };
    grpc::Status status = WithTable(request->table(), [&](FakeTable& table) {
      const grpc::Status checked = check(table);
      if (!checked.ok()) return checked;
      if (!request->start_digest().empty() &&
          request->start_digest() != table.DigestOf(sent)) {
        return MakeError(grpc::StatusCode::OUT_OF_RANGE, "HISTORY_DIVERGED",
                         "another digest");
      }
      return grpc::Status::OK;
    });
    if (!status.ok()) return status;
    v1::WatchRoutesResponse bookmark;
    bookmark.set_generation(sent);
    writer->Write(bookmark);
    uint64_t messages = 0;
    const auto write = [&](const v1::WatchRoutesResponse& message) {
      if (messages++ == fate.end_after) return false;
      writer->Write(message);
      return true;
    };
    while (!context->IsCancelled()) {
      std::shared_ptr<const v1::WatchRoutesResponse> next;
      status = WithTable(request->table(), [&](FakeTable& table) {
        const grpc::Status checked = check(table);
        if (checked.ok() && sent < table.generation()) {
          next = table.history()[sent - table.oldest()];
        }
        return checked;
      });
      if (!status.ok()) return status;
      if (next == nullptr) {
        absl::SleepFor(absl::Milliseconds(1));
        continue;
      }
      // Each update in its own message, then all other changes.
      v1::WatchRoutesResponse part;
      part.set_generation(next->generation());
      for (const v1::RouteUpdate& update : next->updates()) {
        *part.add_updates() = update;
        if (!write(part)) return fate.status;
        part.clear_updates();
      }
      part = *next;
      part.clear_updates();
      if (!write(part)) return fate.status;
      sent = next->generation();
    }
    return grpc::Status::CANCELLED;
  }

  grpc::Status StreamUpdates(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::StreamUpdatesResponse,
                               v1::StreamUpdatesRequest>* stream) override {
    ++fake_.streams_opened_;
    const Fate fate = fake_.NextFate();
    v1::StreamUpdatesRequest first;
    if (!stream->Read(&first)) return grpc::Status::OK;
    grpc::Status status = CheckTable(first.table());
    if (!status.ok()) return status;
    uint64_t credits = fake_.options_.update_credits;
    v1::StreamUpdatesResponse hello;
    hello.set_credits(credits);
    stream->Write(hello);
    v1::StreamUpdatesRequest batch;
    for (uint64_t number = 0; stream->Read(&batch); ++number) {
      ++fake_.batches_read_;
      const auto cost =
          static_cast<uint64_t>(batch.updates_size() + batch.next_hops_size() +
                                batch.groups_size() + 1);
      if (cost > credits) {
        return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED,
                         "CREDIT_EXCEEDED", "more than was granted");
      }
      credits -= cost;
      if (!fake_.AwaitRelease(*context)) return grpc::Status::CANCELLED;
      if (number == fate.end_after) return fate.status;
      v1::UpdateRoutesResponse answer;
      status = WithTable(first.table(), [&](FakeTable& table) {
        return table.Update(ToUnary(first, batch), answer);
      });
      v1::StreamUpdatesResponse reply = ToStreamed(status, answer);
      reply.set_batch_id(batch.batch_id() +
                         (fake_.spoil_ == Spoil::kWrongId ? 1 : 0));
      reply.set_credits(cost);
      credits += cost;
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }

  // No snapshot, but for a stream that ends early.
  grpc::Status ExportSnapshot(
      grpc::ServerContext*, const v1::ExportSnapshotRequest*,
      grpc::ServerWriter<v1::ExportSnapshotResponse>* writer) override {
    const Fate fate = fake_.NextFate();
    v1::ExportSnapshotResponse chunk;
    chunk.set_data("a part of a snapshot");
    for (uint64_t i = 0; i < std::min<uint64_t>(fate.end_after, 9); ++i) {
      writer->Write(chunk);
    }
    return fate.status;
  }

 private:
  // OK for the table "default".
  static grpc::Status CheckTable(const std::string& name) {
    return IsDefaultTable(name) ? grpc::Status::OK : NoTable(name);
  }

  // Calls `use` with the table, under the lock. Errors: TABLE_NOT_FOUND; those
  // of `use`.
  grpc::Status WithTable(const std::string& name,
                         absl::FunctionRef<grpc::Status(FakeTable&)> use) {
    if (!IsDefaultTable(name)) return NoTable(name);
    absl::MutexLock lock(&fake_.mutex_);
    return use(fake_.table_);
  }

  FakeServer& fake_;
};

std::unique_ptr<grpc::Service> FakeServer::MakeTableService() {
  return std::make_unique<TableService>(*this);
}

}  // namespace planb::client::testing
