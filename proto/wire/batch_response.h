// SPDX-License-Identifier: Apache-2.0

// planb.v1.BatchLookupResponse on the wire, by hand: the server's search writes
// next hops straight into the message that is sent, and the client reads them
// where they were received. batch_request.h says what is promised.

#ifndef PLANB_PROTO_WIRE_BATCH_RESPONSE_H_
#define PLANB_PROTO_WIRE_BATCH_RESPONSE_H_

#include <cstddef>
#include <cstdint>

#include "proto/wire/bytes.h"

namespace planb::wire {

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

#endif  // PLANB_PROTO_WIRE_BATCH_RESPONSE_H_
