// The file's own end is the commit, so a broken import needs no undoing.

#include "client/snapshot_transfer.h"

#include <string>
#include <utility>

#include "client/rpc.h"

namespace planb::client {
namespace {

constexpr size_t kChunkBytes = 64 << 10;

}  // namespace

SnapshotTransfer::SnapshotTransfer(
    const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::RouteTable::NewStub(channel)) {}

absl::StatusOr<uint64_t> SnapshotTransfer::Export(const std::string& table,
                                                  AtomicFile& file,
                                                  absl::Time deadline) const {
  v1::ExportSnapshotRequest request;
  request.set_table(table);
  uint64_t octets = 0;
  absl::Status status =
      CallServerStream(*stub_, &v1::RouteTable::Stub::ExportSnapshot, request,
                       deadline, [&](const v1::ExportSnapshotResponse& chunk) {
                         octets += chunk.data().size();
                         return file.Append(chunk.data());
                       });
  if (status.ok()) status = file.Commit();
  if (!status.ok()) return status;
  return octets;
}

absl::StatusOr<v1::ReplaceRoutesResponse> SnapshotTransfer::Import(
    v1::ImportSnapshotRequest first, std::istream& file,
    absl::Time deadline) const {
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
