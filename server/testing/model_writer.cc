// SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "follow/convert.h"
#include "lpm/io/table_file.h"
#include "lpm/routes/table_digest.h"
#include "proto/wire/packed_changes.h"
#include "server/testing/model_clients.h"

namespace planb::server {
namespace {

using Kind = WriteCall::Kind;
using Outcome = WriteCall::Outcome;
using std::chrono::milliseconds;

constexpr size_t kInFlight = 4;
constexpr int kMaxRepeats = 40;
// The number of answered calls that may be repeated.
constexpr size_t kAnswered = 10;
// After so many other requests a request is no longer repeated. The server
// forgets it after 1,000.
constexpr uint64_t kRemembered = 500;

template <typename Request>
void FillChanges(const WriteCall& call, Request& request) {
  const UpdateBatch& batch = call.batch;
  static constexpr v1::RouteUpdate::Op kOps[] = {
      v1::RouteUpdate::OP_UPSERT, v1::RouteUpdate::OP_INSERT,
      v1::RouteUpdate::OP_REPLACE, v1::RouteUpdate::OP_DELETE,
      v1::RouteUpdate::OP_DELETE_STRICT};
  for (const RouteChange& change : batch.changes) {
    if (call.packed) {
      wire::AddPackedChange(
          {.address = change.prefix.address().ToPacked(),
           .length = static_cast<uint8_t>(change.prefix.length()),
           .op = static_cast<uint8_t>(kOps[static_cast<int>(change.op)]),
           .next_hop = change.next_hop},
          request);
      continue;
    }
    v1::RouteUpdate& update = *request.add_updates();
    update.set_op(kOps[static_cast<int>(change.op)]);
    ToProto(change.prefix, *update.mutable_prefix());
    update.set_next_hop_id(change.next_hop);
  }
  for (const NextHop& n : batch.next_hops) {
    *request.add_next_hops() = ToProto(n);
  }
  for (const NextHopGroup& g : batch.groups) *request.add_groups() = ToProto(g);
  request.set_request_id(batch.request_id);
  request.set_require_next_hops(batch.require_next_hops);
}

template <typename Request>
void FillTerms(const UpdateBatch& batch, Request& request) {
  if (batch.expected_generation.has_value()) {
    request.set_expected_generation(*batch.expected_generation);
  }
}

template <typename Request>
void FillUnaryTerms(const WriteCall& call, v1::Ack ack,
                    const std::string& table, Request& request) {
  request.set_table(table);
  FillTerms(call.batch, request);
  request.set_validate_only(call.batch.validate_only);
  request.set_writer_epoch(call.batch.writer_epoch);
  request.set_ack(ack);
}

template <typename Response>
void ReadCounts(const Response& response, WriteCall& call) {
  call.generation = response.generation();
  call.visible = response.visible_generation();
  call.counts.added = response.added();
  call.counts.changed = response.changed();
  call.counts.removed = response.removed();
}

// A batch of a stream, without its batch_id.
v1::StreamUpdatesRequest EncodeStreamed(const WriteCall& call) {
  v1::StreamUpdatesRequest request;
  FillChanges(call, request);
  FillTerms(call.batch, request);
  return request;
}

// Reads an answer of a stream that is no refusal.
void ReadStreamed(const v1::StreamUpdatesResponse& response, WriteCall& call) {
  ReadCounts(response, call);
  call.counts.unchanged = response.unchanged();
}

void ReadReplaced(const v1::ReplaceRoutesResponse& response, WriteCall& call) {
  ReadCounts(response, call);
  call.counts.unchanged = response.unchanged();
  call.digest = response.digest();
}

// The table file of a replacement.
std::string TableFileOf(const UpdateBatch& batch) {
  std::string file;
  TableFileWriter writer([&file](absl::string_view bytes) {
    absl::StrAppend(&file, bytes);
    return absl::OkStatus();
  });
  TableDigest digest;
  for (const Route& route : *batch.replacement) digest.Add(route);
  for (const NextHop& n : batch.next_hops) digest.Add(n);
  for (const NextHopGroup& g : batch.groups) digest.Add(g);
  absl::Status status = writer.Begin(
      {.table = "elsewhere", .digest = digest.ToString(), .attributes = true});
  for (const NextHop& n : batch.next_hops) status.Update(writer.Add(n));
  for (const NextHopGroup& g : batch.groups) status.Update(writer.Add(g));
  for (const Route& route : *batch.replacement) {
    status.Update(writer.Add(route));
  }
  status.Update(writer.Finish());
  ABSL_RAW_CHECK(status.ok(), status.ToString().c_str());
  return file;
}

// Makes the call that `call` describes and fills in the reply. REQUIRES: its
// kind is not kStream.
grpc::Status SendWrite(v1::RouteTable::Stub& stub, grpc::ClientContext& context,
                       const std::string& table, v1::Ack ack, WriteCall& call) {
  const UpdateBatch& batch = call.batch;
  call.acked_visible = ack == v1::ACK_VISIBLE;
  call.counts = {};
  if (call.kind == Kind::kRoutes) {
    v1::UpdateRoutesRequest request;
    FillChanges(call, request);
    FillUnaryTerms(call, ack, table, request);
    if (batch.complete.has_value()) request.set_complete(*batch.complete);
    v1::UpdateRoutesResponse response;
    const auto status = stub.UpdateRoutes(&context, request, &response);
    ReadCounts(response, call);
    call.counts.unchanged = response.unchanged();
    call.digest = response.digest();
    return status;
  }
  if (call.kind == Kind::kNextHops) {
    v1::UpdateNextHopsRequest request;
    for (const NextHop& n : batch.next_hops) {
      *request.add_upserts() = ToProto(n);
    }
    for (const NextHopGroup& g : batch.groups) {
      *request.add_group_upserts() = ToProto(g);
    }
    for (NextHopId id : batch.deleted_next_hops) request.add_delete_ids(id);
    for (NextHopId id : batch.deleted_groups) request.add_delete_group_ids(id);
    request.set_request_id(batch.request_id);
    FillUnaryTerms(call, ack, table, request);
    v1::UpdateNextHopsResponse response;
    const auto status = stub.UpdateNextHops(&context, request, &response);
    ReadCounts(response, call);
    return status;
  }
  v1::ReplaceRoutesResponse response;
  if (call.kind == Kind::kImport) {
    const auto stream = stub.ImportSnapshot(&context, &response);
    v1::ImportSnapshotRequest request;
    request.set_request_id(batch.request_id);
    FillUnaryTerms(call, ack, table, request);
    // In several messages.
    const std::string file = TableFileOf(batch);
    for (size_t at = 0; at < file.size(); at += request.data().size()) {
      if (at > 0) request.Clear();
      request.set_data(file.substr(at, 300));
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    ReadReplaced(response, call);
    return status;
  }
  const auto stream = stub.ReplaceRoutes(&context, &response);
  v1::ReplaceRoutesRequest request;
  request.set_request_id(batch.request_id);
  FillUnaryTerms(call, ack, table, request);
  // In several messages, others for each repeat.
  const auto size = static_cast<size_t>(4 + call.begin % 4);
  size_t left = batch.replacement->size();
  for (const Route& route : *batch.replacement) {
    ToProto(route, *request.add_routes());
    if (--left % size != 0 || left == 0) continue;
    if (!stream->Write(request)) break;
    request.Clear();
  }
  request.set_commit(true);
  stream->Write(request);
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  ReadReplaced(response, call);
  return status;
}

v1::Ack RandomAck(Random& random) {
  static constexpr v1::Ack kAcks[] = {v1::ACK_ACCEPTED, v1::ACK_VISIBLE,
                                      v1::ACK_PERSISTED};
  return kAcks[Below(random, 3)];
}

}  // namespace

ModelWriter::ModelWriter(ModelRun& run, int number)
    : run_(run),
      number_(number),
      random_(run.seed * 1000 + static_cast<uint64_t>(number)) {
  for (const std::string& target : run.targets) {
    stubs_.push_back(v1::RouteTable::NewStub(ModelChannel(target)));
  }
}

int ModelWriter::PickServer() {
  if (Chance(random_, 60)) return run_.ServerOf(number_);
  return static_cast<int>(Below(random_, stubs_.size()));
}

void ModelWriter::Run() {
  while (!run_.stop.load()) {
    if (Chance(random_, 20)) {
      std::vector<WriteCall> calls(2 + Below(random_, 15));
      for (WriteCall& call : calls) {
        call.kind = Kind::kStream;
        call.batch = RandomChanges(random_);
        AddTerms(call);
      }
      Stream(std::move(calls), run_.named.load());
    } else if (Chance(random_, 5) && !answered_.empty()) {
      const auto [since, call] = answered_[Below(random_, answered_.size())];
      if (Remembered(since)) Perform(call, since);
    } else {
      const uint64_t since = run_.named.load();
      Perform(Invent(), since);
    }
    if (Chance(random_, 50)) {
      absl::SleepFor(absl::Microseconds(Below(random_, 4000)));
    }
  }
}

WriteCall ModelWriter::Invent() {
  WriteCall call;
  const uint64_t kind = Below(random_, 100);
  if (kind < 75) {
    call.kind = Kind::kRoutes;
    if (kind >= 4) call.batch = RandomChanges(random_);
    if (kind < 8) call.batch.complete = Chance(random_, 50);
  } else if (kind < 82) {
    call.kind = Kind::kReplace;
    call.batch = RandomReplacement(random_);
  } else if (kind < 86) {
    call.kind = Kind::kImport;
    call.batch = RandomImport(random_);
  } else {
    call.kind = Kind::kNextHops;
    call.batch = RandomObjects(random_);
  }
  AddTerms(call);
  return call;
}

void ModelWriter::AddTerms(WriteCall& call) {
  UpdateBatch& batch = call.batch;
  call.packed = Chance(random_, 50);
  if (Chance(random_, 2)) epoch_ = ++run_.epoch;
  batch.writer_epoch = epoch_;
  if (Chance(random_, 15)) {
    batch.expected_generation = run_.accepted.load() + Below(random_, 2);
  }
  if (call.kind != Kind::kStream) batch.validate_only = Chance(random_, 6);
  if (!batch.validate_only && Chance(random_, 50)) {
    batch.request_id = NewRequestId();
  }
}

std::string ModelWriter::NewRequestId() {
  ++run_.named;
  return absl::StrCat(number_, "-", ++named_);
}

bool ModelWriter::Remembered(uint64_t since) const {
  return run_.named.load() - since < kRemembered;
}

void ModelWriter::Perform(WriteCall call, uint64_t since) {
  call.outcome = Outcome::kUnknown;
  for (int i = 0; i < kMaxRepeats; ++i) {
    Attempt(call);
    if (call.outcome != Outcome::kUnknown || call.batch.request_id.empty() ||
        call.reason == "TABLE_NOT_FOUND") {
      break;
    }
    absl::SleepFor(absl::Milliseconds(20));
    if (!Remembered(since)) break;
  }
  if (call.outcome == Outcome::kDone && !call.batch.request_id.empty()) {
    answered_.emplace_back(since, call);
    if (answered_.size() > kAnswered) answered_.pop_front();
  }
}

void ModelWriter::Attempt(WriteCall& call) {
  grpc::ClientContext context;
  // Some deadlines pass while the server works.
  Limit(context,
        milliseconds(Chance(random_, 3) ? 1 + Below(random_, 5) : 2000));
  call.server = PickServer();
  v1::RouteTable::Stub& stub = *stubs_[static_cast<size_t>(call.server)];
  call.begin = Now();
  Judge(SendWrite(stub, context, run_.table, RandomAck(random_), call), call);
  Record(call);
}

void ModelWriter::Stream(std::vector<WriteCall> calls, uint64_t since) {
  grpc::ClientContext context;
  Limit(context, milliseconds(3000));
  const int server = PickServer();
  const auto stream =
      stubs_[static_cast<size_t>(server)]->StreamUpdates(&context);
  const int number = ++run_.streams;
  const v1::Ack ack = RandomAck(random_);
  const uint64_t epoch = calls[0].batch.writer_epoch;
  const Instant begin = Now();
  v1::StreamUpdatesRequest hello;
  hello.set_table(run_.table);
  hello.set_ack(ack);
  hello.set_writer_epoch(epoch);
  v1::StreamUpdatesResponse response;
  size_t sent = 0, answered = 0;
  bool open = stream->Write(hello) && stream->Read(&response);
  while (open && answered < calls.size()) {
    if (sent < calls.size() && sent < answered + kInFlight) {
      WriteCall& call = calls[sent];
      call.stream = number;
      call.server = server;
      call.acked_visible = ack == v1::ACK_VISIBLE;
      call.batch.writer_epoch = epoch;
      call.outcome = Outcome::kUnknown;
      call.reason.clear();
      v1::StreamUpdatesRequest request = EncodeStreamed(call);
      request.set_batch_id(++sent);
      call.begin = Now();
      open = stream->Write(request);
    } else if ((open = stream->Read(&response))) {
      WriteCall& call = calls[answered++];
      if (response.batch_id() != answered) {
        run_.Surprise("a stream's answers are not in order");
      }
      ReadAnswer(response, call);
      Record(call);
    }
  }
  if (open) stream->WritesDone();
  const grpc::Status status = stream->Finish();
  run_.Failed(server, "StreamUpdates", begin, status);
  std::vector<WriteCall> repeats;
  for (; answered < sent; ++answered) {
    WriteCall& call = calls[answered];
    call.end = Now();
    Record(call);
    if (!call.batch.request_id.empty()) repeats.push_back(call);
  }
  if (status.error_code() == grpc::StatusCode::NOT_FOUND ||
      status.error_code() == grpc::StatusCode::ABORTED) {
    return;  // the table was deleted
  }
  if (!repeats.empty() && Remembered(since)) {
    Stream(std::move(repeats), since);
  }
}

void ModelWriter::ReadAnswer(const v1::StreamUpdatesResponse& response,
                             WriteCall& call) {
  call.end = Now();
  if (!response.has_error()) {
    call.outcome = Outcome::kDone;
    ReadStreamed(response, call);
    return;
  }
  Refused(response.error().reason(), call);
  if (response.generation() != 0) {
    run_.Surprise(absl::StrCat("a stream's refusal (", call.reason,
                               ") names a generation"));
  }
}

void ModelWriter::Judge(const grpc::Status& status, WriteCall& call) {
  call.end = Now();
  const std::string reason = ModelReason(status);
  if (status.ok()) {
    call.reason.clear();
    call.outcome = Outcome::kDone;
  } else if (!reason.empty() &&
             status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
             status.error_code() != grpc::StatusCode::CANCELLED) {
    Refused(reason, call);
  } else {
    call.reason.clear();
    call.outcome = Outcome::kUnknown;
    if (!IsBroken(status)) run_.Surprise(DescribeStatus("an update", status));
  }
}

void ModelWriter::Refused(const std::string& reason, WriteCall& call) {
  call.reason = reason;
  call.outcome = RefusedByStore(call) || reason == "TABLE_NOT_FOUND"
                     ? Outcome::kUnknown
                     : Outcome::kRefused;
}

void ModelWriter::Record(const WriteCall& call) {
  if (call.outcome == Outcome::kDone) Raise(run_.accepted, call.generation);
  if (call.outcome == Outcome::kRefused && call.reason == "WRITER_FENCED" &&
      Chance(random_, 50)) {
    epoch_ = run_.epoch.load();
  }
  run_.history.Add(&ModelHistory::writes, call);
}

}  // namespace planb::server
