// BatchLookup messages, as octets: requests out of the caller's buffers,
// results out of replies.

#ifndef PLANB_CLIENT_BATCH_CODEC_H_
#define PLANB_CLIENT_BATCH_CODEC_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lpm/prefix.h"

namespace planb::client {

// What to look up. Refers to the caller's buffers. The fields are those of
// planb.v1.BatchLookupRequest, which says more.
struct Batch {
  // 16 octets an address and 4 octets an address, network byte order.
  absl::string_view addresses_v6 = {};
  absl::string_view addresses_v4 = {};
  // Empty means "default".
  absl::string_view table = {};
  // Answer from this generation or a later one; 0 means whatever is visible.
  uint64_t min_generation = 0;
  // How long the server may wait for it; rounded up to milliseconds.
  absl::Duration max_wait = absl::ZeroDuration();
  // Also return the length of each matched prefix; slow.
  bool want_prefix_lengths = false;
};

// Stands in BatchResult::prefix_lengths for: no route.
inline constexpr uint8_t kNoPrefixLength = 255;

// The answer to one batch.
struct BatchResult {
  // As returned by BatchStream::Send.
  uint64_t request_id = 0;
  // Not OK if this batch failed; then the vectors are empty.
  absl::Status status;
  // The generation that answered every address of the batch.
  uint64_t generation = 0;
  // One for each address, first those of addresses_v6; kNoRoute is no route.
  std::vector<NextHopId> next_hops;
  // In the same order, if they were asked for; kNoPrefixLength is no route.
  std::vector<uint8_t> prefix_lengths;
};

// What a reply has to look like.
struct ExpectedReply {
  uint64_t request_id = 0;
  size_t addresses = 0;
  bool prefix_lengths = false;
};

// The request, in one slice, with one copy of the addresses.
// Errors: INVALID_ARGUMENT if it would be longer than kMaxMessageBytes. The
// length of the addresses is the server's to judge.
absl::StatusOr<grpc::ByteBuffer> EncodeBatch(uint64_t request_id,
                                             const Batch& batch);

// Reads `reply` into `result`, whose vectors keep their capacity.
// Errors: INTERNAL if the reply is not one to `expected`. (A batch that the
// server failed is no such error: it is in result.status.)
absl::Status DecodeReply(grpc::ByteBuffer& reply, const ExpectedReply& expected,
                         BatchResult& result);

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_CODEC_H_
