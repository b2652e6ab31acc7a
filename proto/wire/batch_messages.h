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

// The fields of BatchLookupRequest that are numbers; route_lookup.proto says
// what they mean. What reads, writes and tests them goes through ForEach.
struct RequestNumbers {
  uint64_t request_id = 0;
  uint64_t min_generation = 0;
  uint32_t max_wait_ms = 0;
  bool want_prefix_lengths = false;
  bool require_complete = false;

  // Calls visit(the field's number, the field) for each of `numbers`.
  template <typename Numbers, typename Visit>
  static void ForEach(Numbers& numbers, const Visit& visit) {
    visit(1, numbers.request_id);
    visit(5, numbers.min_generation);
    visit(6, numbers.max_wait_ms);
    visit(7, numbers.want_prefix_lengths);
    visit(10, numbers.require_complete);
  }
};

// The fields of the message. Thread-compatible.
struct BatchRequest : RequestNumbers {
  Bytes addresses_v6;     // within the pieces that were parsed
  Bytes addresses_v4;     // likewise
  Bytes upper_halves_v6;  // likewise
  Bytes flow_hashes;      // likewise
  // A copy. Its capacity is kept from batch to batch. The length is not bounded
  // here: it may be that of a whole message.
  std::string table;
};

// Reads `message` into `request` and replaces all its fields. The fields within
// the pieces are valid as long as the pieces and their span are. Returns false
// if the generated parser would refuse the message. `request` is then unchanged
// but for `request_id`, which is the one read before the defect, or 0, for the
// error. Allocates only for a table name longer than any before. O(pieces +
// fields).
bool ParseBatchRequest(Pieces message, BatchRequest& request);

// A request to write. Refers to the caller's buffers.
struct OutgoingRequest : RequestNumbers {
  absl::string_view addresses_v6 = {};
  absl::string_view addresses_v4 = {};
  absl::string_view upper_halves_v6 = {};
  absl::string_view table = {};  // REQUIRES: valid UTF-8
  absl::string_view flow_hashes = {};
};

// The size of the message in bytes.
size_t EncodedSize(const OutgoingRequest& request);

// Writes the message to `to` and returns its end. Copies addresses and hashes
// once. REQUIRES: `to` has room for EncodedSize(request) bytes.
char* Encode(const OutgoingRequest& request, char* to);

// A message is also its head followed by its tail. The tail is the last address
// field that is set, in the order of the struct: all addresses, if the request
// has one form of them. It is in the caller's buffer and can be sent from
// there, without a copy, as a slice of its own.
absl::string_view Tail(const OutgoingRequest& request);

// EncodedSize(request) - Tail(request).size(): at most 62 bytes more than the
// table's name, the flow hashes, and the address fields before the tail.
size_t EncodedHeadSize(const OutgoingRequest& request);

// Writes the head to `to` and returns its end.
// REQUIRES: `to` has room for EncodedHeadSize(request) bytes.
char* EncodeHead(const OutgoingRequest& request, char* to);

// The fields of the message; route_lookup.proto says what they mean.
struct BatchResponse {
  uint64_t request_id = 0;
  uint64_t generation = 0;
  Bytes next_hops;       // within the pieces that were parsed
  Bytes prefix_lengths;  // likewise
  // The message has an `error`. Use the generated code to read it.
  bool has_error = false;
};

// Reads `message` into `response` and replaces all its fields. Returns false if
// the generated parser would refuse the message; `response` is then
// unspecified. Does not allocate. O(pieces + fields).
bool ParseBatchResponse(Pieces message, BatchResponse& response);

// The shape of a successful response.
struct ResponseShape {
  uint64_t request_id = 0;
  uint64_t generation = 0;
  size_t addresses = 0;
  bool prefix_lengths = false;
};

// The places of the answers in an encoded response.
struct ResponseBody {
  char* next_hops;       // 4 bytes for each address
  char* prefix_lengths;  // 1 byte for each address; null without lengths
};

// The size of the message in bytes.
size_t EncodedSize(const ResponseShape& shape);

// Writes everything but the answers to `to` and returns the places of the
// answers. REQUIRES: `to` has room for EncodedSize(shape) bytes.
ResponseBody EncodeAround(const ResponseShape& shape, char* to);

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_BATCH_MESSAGES_H_
