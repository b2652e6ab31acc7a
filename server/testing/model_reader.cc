// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "follow/convert.h"
#include "lpm/io/table_file.h"
#include "lpm/routes/table_digest.h"
#include "server/testing/model_clients.h"

namespace planb::server {
namespace {

using std::chrono::milliseconds;

// A generation that no table reaches.
constexpr uint64_t kNeverMade = uint64_t{1} << 40;

uint64_t RandomMinimum(const ModelRun& run, Random& random) {
  if (Chance(random, 2)) return kNeverMade;
  return Chance(random, 25) ? run.accepted.load() : 0;
}

v1::BatchLookupRequest AllProbes() {
  v1::BatchLookupRequest request;
  for (const Address& probe : WorldProbes()) {
    (probe.family() == Family::kIpv6 ? request.mutable_addresses_v6()
                                     : request.mutable_addresses_v4())
        ->append(probe.ToPacked());
  }
  return request;
}

WatchCall::Message Decode(const v1::WatchRoutesResponse& response) {
  WatchCall::Message message;
  message.at = Now();
  message.complete = response.generation_complete();
  if (response.has_complete_since_unix_nanos()) {
    message.complete_table = response.complete_since_unix_nanos() != 0;
  }
  Delta& delta = message.delta;
  delta.generation = response.generation();
  delta.digest = response.digest();
  for (const v1::RouteUpdate& update : response.updates()) {
    delta.routes.push_back(
        {FromProto(update.prefix()).value(), update.next_hop_id()});
  }
  for (const v1::NextHop& next_hop : response.next_hops()) {
    delta.next_hops.push_back(FromProto(next_hop).value());
  }
  for (const v1::NextHopGroup& group : response.groups()) {
    delta.groups.push_back(FromProto(group).value());
  }
  delta.deleted_next_hops.assign(response.deleted_next_hop_ids().begin(),
                                 response.deleted_next_hop_ids().end());
  delta.deleted_groups.assign(response.deleted_group_ids().begin(),
                              response.deleted_group_ids().end());
  return message;
}

// What a snapshot says, as calls that list.
struct SnapshotCalls final : public TableFileSink {
  absl::Status OnHeader(const TableFileHeader& header) override {
    list.generation = objects.generation = header.generation;
    return absl::OkStatus();
  }
  absl::Status OnNextHop(const NextHop& next_hop) override {
    objects.next_hops.push_back(next_hop);
    return absl::OkStatus();
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    objects.groups.push_back(group);
    return absl::OkStatus();
  }
  absl::Status OnRoute(const Route& route) override {
    list.routes.push_back(route);
    return absl::OkStatus();
  }
  absl::Status OnEnd(const TableFileCounts&) override {
    return absl::OkStatus();
  }

  ListCall list;
  ObjectsCall objects;
};

}  // namespace

ModelReader::ModelReader(ModelRun& run, int number)
    : run_(run),
      number_(number),
      random_(run.seed * 1000 + 500 + static_cast<uint64_t>(number)) {
  const auto channel = ModelChannel(run.TargetOf(number));
  lookup_ = v1::RouteLookup::NewStub(channel);
  table_ = v1::RouteTable::NewStub(channel);
}

void ModelReader::Run() {
  while (!run_.stop.load()) {
    const uint64_t kind = Below(random_, 100);
    ListCall list;
    StateCall state;
    if (kind < 15) {
      Stream();
    } else if (kind < 65) {
      Lookup();
    } else if (kind < 80) {
      GetRoute();
    } else if (kind < 90) {
      Explain();
    } else if (kind < 94) {
      List(list);
    } else if (kind < 96) {
      Objects();
    } else if (kind < 98) {
      Export();
    } else {
      State(state);
    }
    absl::SleepFor(absl::Microseconds(Below(random_, 2000)));
  }
}

void ModelReader::Stream() {
  grpc::ClientContext context;
  Limit(context, milliseconds(3000));
  const auto stream = lookup_->BatchLookup(&context);
  const int number = ++run_.streams;
  v1::BatchLookupRequest request = AllProbes();
  request.set_table(run_.table);
  v1::BatchLookupResponse response;
  const Instant begin = Now();
  std::deque<LookupCall> in_flight;
  uint64_t sent = 0;
  bool open = true;
  for (uint64_t left = 10 + Below(random_, 200);
       open && (left > 0 || !in_flight.empty());) {
    if (left > 0 && in_flight.size() < 3) {
      LookupCall call;
      call.stream = number;
      call.min_generation = RandomMinimum(run_, random_);
      request.set_request_id(++sent);
      request.set_min_generation(call.min_generation);
      request.set_max_wait_ms(
          call.min_generation == kNeverMade
              ? 1
              : static_cast<uint32_t>(Below(random_, 3) * 100));
      call.begin = Now();
      open = stream->Write(request);
      in_flight.push_back(call);
      if (run_.stop.load()) left = 1;
      --left;
    } else if ((open = stream->Read(&response))) {
      LookupCall call = in_flight.front();
      in_flight.pop_front();
      call.end = Now();
      call.generation = response.generation();
      call.not_visible = response.error().reason() == "GENERATION_NOT_VISIBLE";
      if (response.error().reason() == "DRAINING") continue;
      if (response.error().reason() == "TABLE_NOT_FOUND") {
        run_.Add(number_, &ModelHistory::absents,
                 AbsentCall{call.begin, call.end});
        continue;
      }
      if (response.has_error() && !call.not_visible) {
        run_.Surprise(response.error().ShortDebugString());
      }
      if (response.request_id() != sent - in_flight.size()) {
        run_.Surprise("a lookup stream's answers are not in order");
      }
      if (!call.not_visible) {
        call.answers.resize(response.next_hops().size() / 4);
        std::memcpy(call.answers.data(), response.next_hops().data(),
                    4 * call.answers.size());
      }
      run_.Add(number_, &ModelHistory::lookups, std::move(call));
      absl::SleepFor(absl::Microseconds(Below(random_, 1500)));
    }
  }
  if (open) stream->WritesDone();
  run_.Failed(number_, "BatchLookup", begin, stream->Finish());
}

void ModelReader::Lookup() {
  LookupCall call;
  call.min_generation = RandomMinimum(run_, random_);
  v1::LookupRequest request;
  request.set_table(run_.table);
  for (const Address& probe : WorldProbes()) {
    request.add_addresses()->set_packed(probe.ToPacked());
  }
  request.set_min_generation(call.min_generation);
  grpc::ClientContext context;
  Limit(context, milliseconds(call.min_generation == kNeverMade ? 5 : 1000));
  v1::LookupResponse response;
  call.begin = Now();
  const grpc::Status status = lookup_->Lookup(&context, request, &response);
  call.end = Now();
  if (!status.ok()) return run_.Failed(number_, "Lookup", call.begin, status);
  call.generation = response.generation();
  for (const v1::LookupResult& result : response.results()) {
    call.answers.push_back(result.next_hop_id());
  }
  run_.Add(number_, &ModelHistory::lookups, std::move(call));
}

void ModelReader::GetRoute() {
  RouteCall call;
  call.prefix = WorldPrefixes()[Below(random_, WorldPrefixes().size())];
  v1::GetRouteRequest request;
  request.set_table(run_.table);
  ToProto(call.prefix, *request.mutable_prefix());
  grpc::ClientContext context;
  Limit(context, milliseconds(1000));
  v1::Route response;
  call.begin = Now();
  const grpc::Status status = table_->GetRoute(&context, request, &response);
  call.end = Now();
  if (status.ok()) {
    call.next_hop = response.next_hop_id();
  } else if (ModelReason(status) != "ROUTE_NOT_FOUND") {
    return run_.Failed(number_, "GetRoute", call.begin, status);
  }
  run_.Add(number_, &ModelHistory::routes, call);
}

void ModelReader::Explain() {
  ExplainCall call;
  call.address = WorldProbes()[Below(random_, WorldProbes().size())];
  v1::ExplainLookupRequest request;
  request.set_table(run_.table);
  request.set_address(call.address.ToPacked());
  grpc::ClientContext context;
  Limit(context, milliseconds(1000));
  v1::ExplainLookupResponse response;
  call.begin = Now();
  const grpc::Status status =
      table_->ExplainLookup(&context, request, &response);
  call.end = Now();
  if (!status.ok())
    return run_.Failed(number_, "ExplainLookup", call.begin, status);
  call.generation = response.generation();
  call.next_hop = response.next_hop_id();
  for (const v1::Route& route : response.matches()) {
    call.matches.push_back(FromProto(route).value());
  }
  run_.Add(number_, &ModelHistory::explains, std::move(call));
}

bool ModelReader::List(ListCall& call) {
  grpc::ClientContext context;
  Limit(context, milliseconds(1000));
  call.begin = Now();
  v1::ListRoutesRequest request;
  request.set_table(run_.table);
  const auto stream = table_->ListRoutes(&context, request);
  v1::ListRoutesResponse response;
  while (stream->Read(&response)) {
    if (!call.routes.empty() && response.generation() != call.generation) {
      run_.Surprise("one list shows two generations");
    }
    call.generation = response.generation();
    for (const v1::Route& route : response.routes()) {
      call.routes.push_back(FromProto(route).value());
    }
  }
  const grpc::Status status = stream->Finish();
  call.end = Now();
  run_.Failed(number_, "ListRoutes", call.begin, status);
  if (!status.ok()) return false;
  run_.Add(number_, &ModelHistory::lists, call);
  return true;
}

void ModelReader::Objects() {
  ObjectsCall call;
  v1::ListNextHopsRequest request;
  request.set_table(run_.table);
  grpc::ClientContext context;
  Limit(context, milliseconds(1000));
  call.begin = Now();
  const auto stream = table_->ListNextHops(&context, request);
  v1::ListNextHopsResponse response;
  while (stream->Read(&response)) {
    call.generation = response.generation();
    for (const v1::NextHop& next_hop : response.next_hops()) {
      call.next_hops.push_back(FromProto(next_hop).value());
    }
    for (const v1::NextHopGroup& group : response.groups()) {
      call.groups.push_back(FromProto(group).value());
    }
  }
  const grpc::Status status = stream->Finish();
  call.end = Now();
  run_.Failed(number_, "ListNextHops", call.begin, status);
  if (status.ok()) run_.Add(number_, &ModelHistory::objects, std::move(call));
}

void ModelReader::Export() {
  SnapshotCalls calls;
  TableFileReader file(calls);
  v1::ExportSnapshotRequest request;
  request.set_table(run_.table);
  grpc::ClientContext context;
  Limit(context, milliseconds(1000));
  const Instant begin = Now();
  const auto stream = table_->ExportSnapshot(&context, request);
  v1::ExportSnapshotResponse response;
  absl::Status read;
  while (stream->Read(&response)) read.Update(file.Push(response.data()));
  const grpc::Status status = stream->Finish();
  if (!status.ok())
    return run_.Failed(number_, "ExportSnapshot", begin, status);
  read.Update(file.Finish());
  if (!read.ok()) return run_.Surprise(read.ToString());
  calls.list.begin = calls.objects.begin = begin;
  calls.list.end = calls.objects.end = Now();
  run_.Add(number_, &ModelHistory::lists, std::move(calls.list));
  run_.Add(number_, &ModelHistory::objects, std::move(calls.objects));
}

bool ModelReader::State(StateCall& call) {
  grpc::ClientContext context;
  Limit(context, milliseconds(1000));
  v1::GetTableRequest request;
  request.set_table(run_.table);
  v1::Table response;
  call.begin = Now();
  const grpc::Status status = table_->GetTable(&context, request, &response);
  call.end = Now();
  run_.Failed(number_, "GetTable", call.begin, status);
  if (!status.ok()) return false;
  call.accepted = response.accepted_generation();
  call.visible = response.visible_generation();
  call.persisted = response.persisted_generation();
  call.digest = response.digest();
  call.complete_table = response.complete_since_unix_nanos() != 0;
  run_.Add(number_, &ModelHistory::states, call);
  return true;
}

ModelWatcher::ModelWatcher(ModelRun& run, int number)
    : run_(run),
      number_(number),
      random_(run.seed * 1000 + 800 + static_cast<uint64_t>(number)),
      // A reader of the same server.
      lists_(run, number + 100 * static_cast<int>(run.targets.size())),
      stub_(v1::RouteTable::NewStub(ModelChannel(run.TargetOf(number)))),
      generation_(run.first),
      digest_(TableDigest().ToString()) {}

void ModelWatcher::Run() {
  const Instant second = 1'000'000'000;
  Instant stopped = kNever;
  for (;;) {
    Watch();
    if (!run_.table.empty() && run_.stop.load()) return;
    const uint64_t last = run_.last_generation.load();
    if (last == 0) continue;
    if (generation_ >= last) return;
    stopped = std::min(stopped, Now());
    if (Now() - stopped > 20 * second) {
      return run_.Surprise(absl::StrCat("a watcher has seen ", generation_,
                                        " of ", last, " generations"));
    }
  }
}

void ModelWatcher::Watch() {
  WatchCall call;
  call.start_generation = generation_;
  v1::WatchRoutesRequest request;
  request.set_table(run_.table);
  request.set_start_generation(generation_);
  request.set_start_digest(digest_);
  grpc::ClientContext context;
  Limit(context, milliseconds(300 + Below(random_, 2000)));
  call.begin = Now();
  const auto stream = stub_->WatchRoutes(&context, request);
  v1::WatchRoutesResponse response;
  while (stream->Read(&response)) {
    WatchCall::Message message = Decode(response);
    const Delta& delta = message.delta;
    if (message.complete && delta.generation > generation_) {
      generation_ = delta.generation;
      digest_ = delta.digest;
    }
    call.messages.push_back(std::move(message));
  }
  const grpc::Status status = stream->Finish();
  call.end = Now();
  if (ModelReason(status) == "HISTORY_COMPACTED") {
    call.out_of_range = true;
    ListCall list;
    if (lists_.List(list)) {
      generation_ = list.generation;
      digest_.clear();
    }
  } else {
    run_.Failed(number_, "WatchRoutes", call.begin, status);
  }
  if (call.out_of_range || !call.messages.empty()) {
    run_.Add(number_, &ModelHistory::watches, std::move(call));
  }
}

}  // namespace planb::server
