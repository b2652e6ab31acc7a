// SPDX-License-Identifier: Apache-2.0

// planb.v1.BatchLookupRequest and BatchLookupResponse on the wire, read and
// written without protobuf and without copies: addresses are read where they
// were received, the server's search writes next hops into the message that is
// sent, and the client reads them where they were received.
//
// The bytes are those of the messages. Any valid encoding is read as the
// generated code reads it: fields in any order and number, the last of a field
// counts, unknown fields are skipped. What the generated code refuses is
// refused.

#ifndef PLANB_PROTO_WIRE_BATCH_MESSAGES_H_
#define PLANB_PROTO_WIRE_BATCH_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/wire/bytes.h"

namespace planb::wire {

// The fields of the message; route_lookup.proto says what they mean. Thread-
// compatible.
struct BatchRequest {
  uint64_t request_id = 0;
  Bytes addresses_v6;     // within the pieces that were parsed
  Bytes addresses_v4;     // likewise
  Bytes upper_halves_v6;  // likewise
  Bytes flow_hashes;      // likewise
  // A copy, whose capacity stays from batch to batch. As long as its sender
  // liked, so up to a whole message.
  std::string table;
  uint64_t min_generation = 0;
  uint32_t max_wait_ms = 0;
  bool want_prefix_lengths = false;
};

// Reads `message` into `request`, whose former contents do not matter. False
// if the generated parser would refuse it; then `request` is as it was but for
// `request_id`: what was read of it before the fault (or 0), so that a refusal
// can name it. The fields that refer to the pieces are valid as
// long as these (and the span) are. Allocates only for a table name longer than
// any before. O(pieces + fields).
bool ParseBatchRequest(Pieces message, BatchRequest& request);

// A request to be written; refers to the caller's buffers.
struct OutgoingRequest {
  uint64_t request_id = 0;
  absl::string_view addresses_v6 = {};
  absl::string_view addresses_v4 = {};
  absl::string_view upper_halves_v6 = {};
  absl::string_view table = {};  // REQUIRES: valid UTF-8
  uint64_t min_generation = 0;
  uint32_t max_wait_ms = 0;
  bool want_prefix_lengths = false;
  absl::string_view flow_hashes = {};
};

// Bytes of the message on the wire.
size_t EncodedSize(const OutgoingRequest& request);

// Writes the message to `to`, which has room for EncodedSize(request) bytes.
// Returns the end. Addresses and hashes are copied once, with memcpy.
char* Encode(const OutgoingRequest& request, char* to);

// Without the copy: a message is its head and then its tail. The tail is the
// last address field that is set, in the order of the struct, and so all the
// addresses of a request that has one form of them. It lies in the caller's
// buffer and can be sent from there as a slice of its own.
absl::string_view Tail(const OutgoingRequest& request);

// EncodedSize(request) - Tail(request).size(): at most 60 bytes more than the
// table's name, the flow hashes, and the address fields before the tail.
size_t EncodedHeadSize(const OutgoingRequest& request);

// Writes the head to `to`, which has room for EncodedHeadSize(request) bytes.
// Returns the end.
char* EncodeHead(const OutgoingRequest& request, char* to);

// The fields of the message; route_lookup.proto says what they mean.
struct BatchResponse {
  uint64_t request_id = 0;
  uint64_t generation = 0;
  Bytes next_hops;       // within the pieces that were parsed
  Bytes prefix_lengths;  // likewise
  // There is an `error`; read the message with the generated code.
  bool has_error = false;
};

// Reads `message` into `response`, whose former contents do not matter. False,
// with `response` unspecified, if the generated parser would refuse it.
// O(pieces
// + fields), no allocation.
bool ParseBatchResponse(Pieces message, BatchResponse& response);

// The shape of a successful response.
struct ResponseShape {
  uint64_t request_id = 0;
  uint64_t generation = 0;
  size_t addresses = 0;
  bool prefix_lengths = false;
};

// Where the answers go in an encoded response.
struct ResponseBody {
  char* next_hops;       // 4 bytes an address
  char* prefix_lengths;  // one byte an address; null if there are none
};

// Bytes of such a message on the wire.
size_t EncodedSize(const ResponseShape& shape);

// Writes all of the message but its answers to `to`, which has room for
// EncodedSize(shape) bytes, and says where those belong.
ResponseBody EncodeAround(const ResponseShape& shape, char* to);

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_BATCH_MESSAGES_H_
