// SPDX-License-Identifier: Apache-2.0

// Maps keep each prefix and each id once in a chunk, as the contract requires.

#include "client/whole_table.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "client/call.h"

namespace planb::client {

namespace {

LoadOptions Normalized(LoadOptions options) {
  options.chunk = std::max<size_t>(options.chunk, 1);
  return options;
}

}  // namespace

RouteLoader::RouteLoader(const TableClient& client, LoadOptions options)
    : client_(client), options_(Normalized(std::move(options))) {}

absl::Status RouteLoader::Add(const Route& route) {
  return Put(routes_, route.prefix, route.next_hop);
}

absl::Status RouteLoader::Add(const NextHop& next_hop) {
  return Put(next_hops_, next_hop.id, next_hop);
}

absl::Status RouteLoader::Add(const NextHopGroup& group) {
  return Put(groups_, group.id, group);
}

template <typename Map, typename Value>
absl::Status RouteLoader::Put(Map& map, const typename Map::key_type& key,
                              const Value& value) {
  if (map.size() == options_.chunk && !map.contains(key)) {
    absl::Status status = SendChunk(v1::ACK_ACCEPTED);
    if (!status.ok()) return status;
  }
  map[key] = value;
  return absl::OkStatus();
}

absl::StatusOr<LoadReport> RouteLoader::Finish() {
  absl::Status status = SendChunk(options_.ack);
  if (!status.ok()) return status;
  return report_;
}

absl::Status RouteLoader::SendChunk(v1::Ack ack) {
  v1::UpdateRoutesRequest request;
  request.set_table(options_.table);
  const bool persisted = options_.ack == v1::ACK_PERSISTED;
  request.set_ack(persisted ? v1::ACK_PERSISTED : ack);
  if (request.ack() == v1::ACK_REPLICATED) {
    request.set_ack_replicas(options_.ack_replicas);
  }
  request.set_writer_epoch(options_.writer_epoch);
  if (!options_.request_id.empty()) {
    request.set_request_id(
        absl::StrCat(options_.request_id, "/", report_.chunks + 1));
  }
  for (const auto& [prefix, next_hop] : routes_) {
    v1::RouteUpdate* update = request.add_updates();
    update->set_op(v1::RouteUpdate::OP_UPSERT);
    *update->mutable_prefix() = ToProto(prefix);
    update->set_next_hop_id(next_hop);
  }
  for (const auto& [id, next_hop] : next_hops_) {
    *request.add_next_hops() = ToProto(next_hop);
  }
  for (const auto& [id, group] : groups_) {
    *request.add_groups() = ToProto(group);
  }
  const auto response = SendPatiently(request);
  if (!response.ok()) return response.status();
  ++report_.chunks;
  report_.routes += routes_.size();
  report_.next_hops += next_hops_.size();
  report_.groups += groups_.size();
  report_.added += response->added();
  report_.changed += response->changed();
  report_.unchanged += response->unchanged();
  report_.generation = response->generation();
  report_.visible_generation = response->visible_generation();
  routes_.clear();
  next_hops_.clear();
  groups_.clear();
  if (options_.on_chunk) options_.on_chunk(report_);
  return absl::OkStatus();
}

absl::StatusOr<v1::UpdateRoutesResponse> RouteLoader::SendPatiently(
    const v1::UpdateRoutesRequest& request) const {
  const absl::Time give_up = MonotonicNow() + options_.patience;
  while (true) {
    std::optional<v1::UpdateRoutesRequest> prepared;
    if (options_.prepare) {
      absl::Status status = options_.prepare(prepared.emplace(request));
      if (!status.ok()) return status;
    }
    auto response =
        client_.UpdateRoutes(prepared.has_value() ? *prepared : request,
                             Deadline::After(options_.timeout));
    if (response.ok()) return response;
    const std::string reason = ErrorReason(response.status());
    const bool outdated =
        options_.prepare &&
        (reason == "GENERATION_MISMATCH" || reason == "NEXT_HOP_NOT_FOUND");
    std::optional<absl::Duration> delay = RetryDelay(response.status());
    if (outdated) {
      delay = absl::Milliseconds(10);
    } else if (!absl::IsResourceExhausted(response.status())) {
      return response;
    }
    if (!delay.has_value() || MonotonicNow() + *delay > give_up) {
      return response;
    }
    // A delay of zero must not become a busy loop.
    absl::SleepFor(std::max(*delay, absl::Milliseconds(1)));
  }
}

namespace {

// About as much as a server's own chunks.
constexpr size_t kChunkBytes = 64 << 10;

// A repeated message field's tag and length.
constexpr size_t kFieldBytes = 3;

}  // namespace

RouteReplacer::RouteReplacer(const std::shared_ptr<grpc::Channel>& channel,
                             v1::ReplaceRoutesRequest first, Deadline deadline)
    : stub_(v1::RouteTable::NewStub(channel)), chunk_(std::move(first)) {
  SetDeadline(context_, deadline);
  writer_ = stub_->ReplaceRoutes(&context_, &response_);
}

RouteReplacer::~RouteReplacer() {
  if (ended_) return;
  context_.TryCancel();
  writer_->Finish().IgnoreError();
}

absl::Status RouteReplacer::Add(const Route& route) {
  *chunk_.add_routes() = ToProto(route);
  return Grow(chunk_.routes().rbegin()->ByteSizeLong());
}

absl::Status RouteReplacer::Add(const NextHop& next_hop) {
  *chunk_.add_next_hops() = ToProto(next_hop);
  return Grow(chunk_.next_hops().rbegin()->ByteSizeLong());
}

absl::Status RouteReplacer::Add(const NextHopGroup& group) {
  *chunk_.add_groups() = ToProto(group);
  return Grow(chunk_.groups().rbegin()->ByteSizeLong());
}

absl::StatusOr<v1::ReplaceRoutesResponse> RouteReplacer::Finish() {
  chunk_.set_commit(true);
  absl::Status status = SendChunk();
  if (!status.ok()) return status;
  writer_->WritesDone();
  status = End();
  if (!status.ok()) return status;
  return response_;
}

absl::Status RouteReplacer::Grow(size_t bytes) {
  bytes_ += bytes + kFieldBytes;
  return bytes_ < kChunkBytes ? absl::OkStatus() : SendChunk();
}

absl::Status RouteReplacer::SendChunk() {
  if (!ended_ && writer_->Write(chunk_)) {
    chunk_.Clear();
    bytes_ = 0;
    return absl::OkStatus();
  }
  absl::Status status = End();
  if (!status.ok()) return status;
  return BrokenContract("it answered before the commit");
}

absl::Status RouteReplacer::End() {
  if (!std::exchange(ended_, true)) end_ = FromGrpc(writer_->Finish());
  return end_;
}

SnapshotTransfer::SnapshotTransfer(
    const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::RouteTable::NewStub(channel)) {}

absl::StatusOr<uint64_t> SnapshotTransfer::Export(const std::string& table,
                                                  AtomicFile& file,
                                                  Deadline deadline) const {
  v1::ExportSnapshotRequest request;
  request.set_table(table);
  uint64_t bytes = 0;
  absl::Status status =
      CallServerStream(*stub_, &v1::RouteTable::Stub::ExportSnapshot, request,
                       deadline, [&](const v1::ExportSnapshotResponse& chunk) {
                         bytes += chunk.data().size();
                         return file.Append(chunk.data());
                       });
  if (status.ok()) status = file.Commit();
  if (!status.ok()) return status;
  return bytes;
}

absl::StatusOr<v1::ReplaceRoutesResponse> SnapshotTransfer::Import(
    v1::ImportSnapshotRequest first, std::istream& file,
    Deadline deadline) const {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  v1::ReplaceRoutesResponse response;
  const auto writer = stub_->ImportSnapshot(&context, &response);
  v1::ImportSnapshotRequest message = std::move(first);
  std::string chunk(kChunkBytes, '\0');
  do {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    if (file.bad()) break;
    message.set_data(chunk.data(), static_cast<size_t>(file.gcount()));
    if (!writer->Write(message)) break;  // Finish knows why
    message.Clear();
  } while (file);
  if (file.bad()) {
    context.TryCancel();
    writer->Finish().IgnoreError();
    return absl::AbortedError("the file cannot be read");
  }
  writer->WritesDone();
  absl::Status status = FromGrpc(writer->Finish());
  if (!status.ok()) return status;
  return response;
}

}  // namespace planb::client
