// SPDX-License-Identifier: Apache-2.0

// Table files from and to a server. What is in them is the server's affair.

#ifndef PLANB_CLIENT_SNAPSHOT_TRANSFER_H_
#define PLANB_CLIENT_SNAPSHOT_TRANSFER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

// Writes a file so that its name leads to all of it or to what was there
// before: under another name first, and renamed once it is on the disk. Or, for
// a pipe to take, writes to the standard output.
//
// The file can be read by its owner only. Thread-compatible.
class AtomicFile {
 public:
  // Opens a new file beside `path`, or beside what that links to. What is there
  // must be a regular file, if anything. "-" is the standard output, of which
  // nothing can be taken back.
  explicit AtomicFile(std::string path);
  // Without Commit: leaves nothing behind.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // The first thing that went wrong, with the path and the system's words;
  // nothing more is written then.
  const absl::Status& status() const { return status_; }

  // Both return status().
  absl::Status Append(absl::string_view bytes);
  // Brings everything to the disk, and the file to its name. Call once, last.
  absl::Status Commit();

 private:
  // Notes that `what` failed, as errno says.
  absl::Status Failed(absl::string_view what);

  std::string path_;
  // Of the file being written; empty if there is none, or it has no name.
  std::string temporary_;
  int descriptor_ = -1;
  absl::Status status_;
};

// Thread-safe.
class SnapshotTransfer {
 public:
  explicit SnapshotTransfer(const std::shared_ptr<grpc::Channel>& channel);

  // Writes the visible generation of `table` to `file` and commits it. Returns
  // its number of bytes. Memory: one message.
  // Errors: the server's, by FromGrpc; file.status() if that is not OK. Then
  // nothing is committed.
  absl::StatusOr<uint64_t> Export(
      const std::string& table, AtomicFile& file,
      absl::Time deadline = absl::InfiniteFuture()) const;

  // Replaces all of a table by the bytes of `file`, to its end. `first` says
  // what the contract's first message does: table, ack, conditions.
  // Errors: the server's, by FromGrpc, DATA_LOSS for a damaged file among them;
  // ABORTED, with nothing changed, if `file` cannot be read: file.bad().
  absl::StatusOr<v1::ReplaceRoutesResponse> Import(
      v1::ImportSnapshotRequest first, std::istream& file,
      absl::Time deadline = absl::InfiniteFuture()) const;

 private:
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_SNAPSHOT_TRANSFER_H_
