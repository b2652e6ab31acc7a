// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_watcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/table/convert.h"
#include "server/table/table_digest.h"

namespace planb::server {
namespace {

using std::chrono::milliseconds;

WatchCall::Message Decode(const v1::WatchRoutesResponse& response) {
  WatchCall::Message message;
  message.at = Now();
  message.complete = response.generation_complete();
  Delta& delta = message.delta;
  delta.generation = response.generation();
  delta.digest = response.digest();
  for (const v1::RouteUpdate& update : response.updates()) {
    delta.routes.push_back(
        {DecodePrefix(update.prefix()).value(), update.next_hop_id()});
  }
  for (const v1::NextHop& next_hop : response.next_hops()) {
    delta.next_hops.push_back(DecodeNextHop(next_hop).value());
  }
  for (const v1::NextHopGroup& group : response.groups()) {
    delta.groups.push_back(DecodeGroup(group).value());
  }
  delta.deleted_next_hops.assign(response.deleted_next_hop_ids().begin(),
                                 response.deleted_next_hop_ids().end());
  delta.deleted_groups.assign(response.deleted_group_ids().begin(),
                              response.deleted_group_ids().end());
  return message;
}

}  // namespace

ModelWatcher::ModelWatcher(ModelRun& run, int number)
    : run_(run),
      random_(run.seed * 1000 + 800 + static_cast<uint64_t>(number)),
      lists_(run, 100 + number),
      stub_(v1::RouteTable::NewStub(ModelChannel(run.target))),
      digest_(TableDigest().ToString()) {}

void ModelWatcher::Run() {
  const Instant second = 1'000'000'000;
  Instant stopped = kNever;
  for (;;) {
    Watch();
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
    if (message.complete && !message.bookmark()) {
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
      TableDigest digest;
      for (const Route& route : list.routes) digest.Add(route);
      digest_ = digest.ToString();
    }
  } else if (!IsBroken(status)) {
    run_.Surprise(DescribeStatus("WatchRoutes", status));
  }
  if (call.out_of_range || !call.messages.empty()) {
    run_.history.Add(&ModelHistory::watches, std::move(call));
  }
}

}  // namespace planb::server
