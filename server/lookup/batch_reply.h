// SPDX-License-Identifier: Apache-2.0

// Batches as gRPC carries them: requests in the slices they were received in,
// replies in the slice that is sent.

#ifndef PLANB_SERVER_LOOKUP_BATCH_REPLY_H_
#define PLANB_SERVER_LOOKUP_BATCH_REPLY_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/wire/batch_messages.h"
#include "server/lookup/batch.h"

namespace planb::server {

// Where a received message is read. Kept from batch to batch, it allocates only
// for a message in more pieces, or a table name longer, than ever before.
class RequestReader {
 public:
  // Reads the message; false if it is no BatchLookupRequest. The bytes stay
  // in `message`, which must outlive the use of request().
  bool Read(grpc::ByteBuffer& message);

  const wire::BatchRequest& request() const { return request_; }

 private:
  std::vector<absl::string_view> pieces_;
  wire::BatchRequest request_;
};

// The reply to `request` from `snapshot`: one slice, into which the kernel
// writes. `misses` is set to the number of addresses without a route.
// REQUIRES: CheckBatch(request) is OK.
grpc::ByteBuffer AnswerReply(const Snapshot& snapshot, const Kernel& kernel,
                             const wire::BatchRequest& request, size_t& misses);

// A reply that says why the batch failed. `generation` is what is visible now.
grpc::ByteBuffer ErrorReply(const absl::Status& error, uint64_t request_id,
                            uint64_t generation);

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_BATCH_REPLY_H_
