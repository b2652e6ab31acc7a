// SPDX-License-Identifier: Apache-2.0

// One batch of packed addresses: read in the slices that it was received in,
// checked, and answered into the slice that is sent.

#ifndef PLANB_SERVER_LOOKUP_BATCH_H_
#define PLANB_SERVER_LOOKUP_BATCH_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lpm/fib/fib.h"
#include "planb/v1/route_lookup.pb.h"
#include "proto/wire/batch_messages.h"
#include "server/table/snapshot.h"

namespace planb::server {

// Prefixes that are found at once; more are found in as large steps, between
// other work of the thread. One takes microseconds, up to some tens if many
// prefixes hold the address.
inline constexpr size_t kPrefixStep = 8;

struct LookupLimits {
  size_t max_batch_addresses = 1 << 18;
  // In a Lookup, or in a batch that wants prefix lengths of a table that does
  // not keep them: these take microseconds an address.
  size_t max_lookup_addresses = 4096;
  absl::Duration max_generation_wait = absl::Seconds(10);
  // Memory of the Lookup calls that wait, for a generation or between other
  // work. Batches of streams wait in the memory of their connections.
  size_t max_waiting_bytes = size_t{64} << 20;
  // BatchLookup streams open at once.
  size_t max_streams = 10'000;
};

// A BatchLookupRequest where it was received, and how many addresses it has.
struct Batch {
  wire::BatchRequest request;
  size_t addresses = 0;
};

// The addresses of `request`, in all its forms.
size_t CountAddresses(const wire::BatchRequest& request);

// `table` has the options of the batch's table.
// Errors, which name the field: INVALID_ARGUMENT (ADDRESSES_LENGTH,
// FLOW_HASHES_LENGTH, PREFIX_LENGTHS_UNDECIDED), RESOURCE_EXHAUSTED
// (BATCH_TOO_LARGE).
absl::Status CheckBatch(const Batch& batch, const LookupLimits& limits,
                        const FibOptions& table = {});

// Errors: UNAVAILABLE (TABLE_NOT_COMPLETE, with RetryInfo) if a lookup that
// requires it is not of a complete generation.
absl::Status CheckComplete(const Snapshot& snapshot, bool required);

// Looks up the next hops of `batch` in `snapshot` and writes them to `answers`,
// which has room for them. Writes prefix lengths, too, if there is room for
// them and the snapshot's FIBs keep them. Returns how many addresses had no
// route. REQUIRES: CheckBatch(batch) is OK.
size_t AnswerBatch(const Snapshot& snapshot, const Kernel& kernel,
                   const Batch& batch, const wire::ResponseBody& answers);

// Writes the prefix lengths of `count` addresses of `batch`, from number `from`
// on, to their places in `lengths`, for FIBs that do not keep them. REQUIRES:
// `batch` has them, CheckBatch(batch) is OK.
void AnswerLengths(const Snapshot& snapshot, const Batch& batch, size_t from,
                   size_t count, char* lengths);

// Reads messages, one after the other. Allocates only for a message in more
// pieces, or with a longer name of a table, than any before. A reader that is
// moved takes its batch along. Not thread-safe.
class BatchReader {
 public:
  // Reads the message; false if it is no BatchLookupRequest. Its addresses stay
  // in `message`, which must outlive the use of batch().
  bool Read(grpc::ByteBuffer& message);

  const Batch& batch() const { return batch_; }

 private:
  std::vector<absl::string_view> pieces_;
  Batch batch_;
};

// A reply with the next hops: one slice, into which the kernel writes. If
// `lengths` is not null, the prefix lengths are to be written to it before the
// reply is sent: the batch wants them, and the FIBs do not keep them.
struct BatchReply {
  grpc::ByteBuffer bytes;
  char* lengths = nullptr;
  size_t misses = 0;  // addresses without a route
};

// The reply to `batch` from `snapshot`. REQUIRES: CheckBatch(batch) is OK.
BatchReply AnswerReply(const Snapshot& snapshot, const Kernel& kernel,
                       const Batch& batch);

// A reply that says why the batch failed. `generation` is the visible one.
grpc::ByteBuffer ErrorReply(const absl::Status& error, uint64_t request_id,
                            uint64_t generation);

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_BATCH_H_
