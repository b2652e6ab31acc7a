// A chunk is sent when it is full, the last one with the commit.

#include "client/route_replacer.h"

#include <utility>

#include "client/call.h"
#include "client/convert.h"
#include "client/status.h"

namespace planb::client {
namespace {

// About as much as a server's own chunks.
constexpr size_t kChunkBytes = 64 << 10;

// A repeated message field's tag and length.
constexpr size_t kFieldBytes = 3;

}  // namespace

RouteReplacer::RouteReplacer(const std::shared_ptr<grpc::Channel>& channel,
                             v1::ReplaceRoutesRequest first,
                             absl::Time deadline)
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

absl::Status RouteReplacer::Grow(size_t octets) {
  octets_ += octets + kFieldBytes;
  return octets_ < kChunkBytes ? absl::OkStatus() : SendChunk();
}

absl::Status RouteReplacer::SendChunk() {
  if (!ended_ && writer_->Write(chunk_)) {
    chunk_.Clear();
    octets_ = 0;
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

}  // namespace planb::client
