// SPDX-License-Identifier: Apache-2.0

// The file's own end is the commit, so a broken import needs no undoing.

#include "client/snapshot_transfer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/call.h"

namespace planb::client {

// rename(2) is atomic; fsync before it, so that a crash cannot leave the new
// name with half of the contents, and one of the directory after it.

namespace {

// The directory that holds `path`.
std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, slash == 0 ? 1 : slash);
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  if (path_ == "-") {
    descriptor_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) Failed("cannot write").IgnoreError();
    return;
  }
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path_, error);
  if (!error) {
    path_ = target;
    if (!std::filesystem::is_regular_file(target, error)) {
      // Renamed over, a device would be gone.
      status_ = absl::InvalidArgumentError(
          absl::StrCat(path_, " is no regular file"));
      return;
    }
  }
  temporary_ = absl::StrCat(path_, ".XXXXXX");
  descriptor_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    temporary_.clear();
    Failed("cannot create").IgnoreError();
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(absl::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Failed("cannot write");
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return status_;
}

absl::Status AtomicFile::Commit() {
  if (!status_.ok()) return status_;
  if (!temporary_.empty() && fsync(descriptor_) != 0) {
    return Failed("cannot sync");
  }
  const int closed = close(std::exchange(descriptor_, -1));
  if (closed != 0) return Failed("cannot close");
  if (temporary_.empty()) return status_;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Failed("cannot rename to");
  }
  temporary_.clear();
  const int directory =
      open(DirectoryOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return Failed("cannot open the directory of");
  const int synced = fsync(directory);
  if (synced != 0) Failed("cannot sync the directory of").IgnoreError();
  close(directory);
  return status_;
}

absl::Status AtomicFile::Failed(absl::string_view what) {
  status_ = absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path_));
  return status_;
}

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
