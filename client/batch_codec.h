// SPDX-License-Identifier: Apache-2.0

// BatchLookup messages, as bytes: requests out of the caller's buffers,
// results out of replies.

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

// What to look up. Refers to the caller's buffers. The fields are those of
// planb.v1.BatchLookupRequest, which says more.
struct Batch {
  // 16 bytes an address and 4 bytes an address, network byte order.
  absl::string_view addresses_v6 = {};
  absl::string_view addresses_v4 = {};
  // 8 bytes an address, for routes on /64 and shorter: the upper halves of
  // IPv6 addresses. Where longer prefixes decide, the answer is kUndecided: ask
  // again in addresses_v6.
  absl::string_view upper_halves_v6 = {};
  // One hash of the flow for each address, in the order of the results: where
  // the answer is a next-hop group, the member that this flow takes comes in
  // its place. Empty: groups are answers like any other.
  absl::Span<const uint32_t> flow_hashes = {};
  // Empty means "default".
  absl::string_view table = {};
  // Answer from this generation or a later one; 0 means the visible one.
  uint64_t min_generation = 0;
  // How long the server may wait for it; rounded up to milliseconds.
  absl::Duration max_wait = absl::ZeroDuration();
  // Also return the length of each matched prefix; slow.
  bool want_prefix_lengths = false;
  // Where the next hops go when they are received. Empty:
  // BatchResult::next_hops holds them. Else: one for each address, and not
  // touched by the caller until the result was handed out.
  absl::Span<NextHopId> next_hops = {};
  // If set, addresses are sent from where they lie (all of them, if only one of
  // the three fields is set; else the last one; flow hashes are copied) and
  // must not change while gRPC holds on to them: it lets go of its copy of this
  // pointer when it is done, after the reply or before, from any thread. Saves
  // a copy, some 0.3 ns an address. The deleter must not call gRPC.
  std::shared_ptr<const void> keep_alive = nullptr;
};

// Addresses in a batch whose bytes are whole addresses.
size_t AddressCount(const Batch& batch);

// Stands in BatchResult::prefix_lengths for: no route.
inline constexpr uint8_t kNoPrefixLength = 255;

// The answer to one batch.
struct BatchResult {
  // As returned by Send.
  uint64_t request_id = 0;
  // Not OK if this batch failed; then the vectors are empty.
  absl::Status status;
  // The generation that answered every address of the batch.
  uint64_t generation = 0;
  // One for each address: those of addresses_v6, of addresses_v4 and of
  // upper_halves_v6. kNoRoute is no route, kUndecided see Batch. Empty if the
  // batch brought its own place for them.
  std::vector<NextHopId> next_hops;
  // In the same order, if they were asked for; kNoPrefixLength is no route.
  std::vector<uint8_t> prefix_lengths;
};

// What a reply has to look like, and where its next hops go.
struct ExpectedReply {
  uint64_t request_id = 0;
  size_t addresses = 0;
  bool prefix_lengths = false;
  absl::Span<NextHopId> next_hops = {};
};
ExpectedReply Expect(uint64_t request_id, const Batch& batch);

// The request, with one copy of the addresses, or none: see `keep_alive`.
// Errors: INVALID_ARGUMENT if it would be longer than kMaxMessageBytes, if
// `next_hops` or `flow_hashes` is not empty and not as long as there are
// addresses, or if `table` is not UTF-8. The length of the addresses is the
// server's to judge.
absl::StatusOr<grpc::ByteBuffer> EncodeBatch(uint64_t request_id,
                                             const Batch& batch);

// Reads `reply`, where it lies, into `result`, whose vectors keep their
// capacity: next hops are copied once. Allocates only for errors.
// Errors: INTERNAL if the reply is not one to `expected`. (A batch that the
// server failed is no such error: it is in result.status.)
absl::Status DecodeReply(grpc::ByteBuffer& reply, const ExpectedReply& expected,
                         BatchResult& result);

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_CODEC_H_
