// Table files from and to a server. What is in them is the server's affair.

#ifndef PLANB_CLIENT_SNAPSHOT_TRANSFER_H_
#define PLANB_CLIENT_SNAPSHOT_TRANSFER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/atomic_file.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

// Thread-safe.
class SnapshotTransfer {
 public:
  explicit SnapshotTransfer(const std::shared_ptr<grpc::Channel>& channel);

  // Writes the visible generation of `table` to `file` and commits it. Returns
  // its number of octets. Memory: one message.
  // Errors: the server's, by FromGrpc; file.status() if that is not OK. Then
  // nothing is committed.
  absl::StatusOr<uint64_t> Export(
      const std::string& table, AtomicFile& file,
      absl::Time deadline = absl::InfiniteFuture()) const;

  // Replaces all of a table by the octets of `file`, to its end. `first` says
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
