// SPDX-License-Identifier: Apache-2.0

// Encodes BatchLookup requests from the caller's buffers and decodes results
// from the bytes of replies, without protobuf.

#ifndef PLANB_CLIENT_BATCH_CODEC_H_
#define PLANB_CLIENT_BATCH_CODEC_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb::client {

// A batch to look up. Refers to the caller's buffers. The fields are those of
// planb.v1.BatchLookupRequest, which documents them.
struct Batch {
  // 16 bytes an address and 4 bytes an address, network byte order.
  absl::string_view addresses_v6 = {};
  absl::string_view addresses_v4 = {};
  // 8 bytes an address, for routes on /64 and shorter: the upper halves of
  // IPv6 addresses. The answer is kUndecided where longer prefixes divide the
  // /64: look up the whole address in addresses_v6.
  absl::string_view upper_halves_v6 = {};
  // One hash of the flow for each address, in the order of the results. If the
  // answer is a next-hop group, the member that this flow takes replaces it.
  // Empty: the answer is the id of the group.
  absl::Span<const uint32_t> flow_hashes = {};
  // Empty means "default".
  absl::string_view table = {};
  // Answer from this generation or a later one; 0 means the visible one.
  uint64_t min_generation = 0;
  // How long the server may wait for it; rounded up to milliseconds.
  absl::Duration max_wait = absl::ZeroDuration();
  // Also return the length of each matched prefix; slow.
  bool want_prefix_lengths = false;
  // Answer once the table is complete (v1.UpdateRoutesRequest.complete); until
  // then the batch is sent again, as while the server is away.
  bool require_complete = false;
  // Memory for the received next hops. Empty: BatchResult::next_hops holds
  // them. Else it has one element for each address, and the caller must not use
  // it until the result was handed out.
  absl::Span<NextHopId> next_hops = {};
  // If set, the addresses are sent without a copy, which saves about 0.3 ns an
  // address. If several of the three fields are set, only the last one is sent
  // so; flow hashes are always copied. The bytes must not change while gRPC
  // holds its copy of this pointer. gRPC releases it before or after the reply,
  // on any thread. The deleter must not call gRPC.
  std::shared_ptr<const void> keep_alive = nullptr;
};

// Number of addresses in `batch`. REQUIRES: each field holds whole addresses.
size_t AddressCount(const Batch& batch);

// The value of BatchResult::prefix_lengths for an address without a route.
inline constexpr uint8_t kNoPrefixLength = 255;

// The answer to one batch.
struct BatchResult {
  // As returned by Send.
  uint64_t request_id = 0;
  // Not OK if this batch failed. Then the vectors are empty.
  absl::Status status;
  // The generation that answered every address of the batch.
  uint64_t generation = 0;
  // One for each address: first those of addresses_v6, then addresses_v4, then
  // upper_halves_v6. kNoRoute: no route; kUndecided: see Batch. Empty if
  // Batch::next_hops was set.
  std::vector<NextHopId> next_hops;
  // In the same order, if Batch::want_prefix_lengths; kNoPrefixLength: no
  // route.
  std::vector<uint8_t> prefix_lengths;
};

// What a reply must look like, and the memory for its next hops.
struct ExpectedReply {
  uint64_t request_id = 0;
  size_t addresses = 0;
  bool prefix_lengths = false;
  absl::Span<NextHopId> next_hops = {};
};
ExpectedReply Expect(uint64_t request_id, const Batch& batch);

// The request, with one copy of the addresses, or none with `keep_alive`.
// Errors: INVALID_ARGUMENT if it would be longer than kMaxMessageBytes, if
// `next_hops` or `flow_hashes` is neither empty nor has one element for each
// address, or if `table` is not UTF-8. The server checks the addresses' length.
absl::StatusOr<grpc::ByteBuffer> EncodeBatch(uint64_t request_id,
                                             const Batch& batch);

// Decodes `reply` in place into `result`. The vectors of `result` keep their
// capacity, and next hops are copied once. Allocates only for errors.
// Errors: INTERNAL if the reply does not match `expected`. The error of a batch
// that the server refused is in result.status.
absl::Status DecodeReply(grpc::ByteBuffer& reply, const ExpectedReply& expected,
                         BatchResult& result);

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_CODEC_H_
