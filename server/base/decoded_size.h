// SPDX-License-Identifier: Apache-2.0

// Requests as bytes: how much memory one takes when it is parsed, told before
// it is.
//
// Two bytes of a request may become an object of a hundred bytes, so a limit on
// the size of messages does not bound the memory that they take.

#ifndef PLANB_SERVER_BASE_DECODED_SIZE_H_
#define PLANB_SERVER_BASE_DECODED_SIZE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/wire/fields.h"

namespace grpc {
class ByteBuffer;
}  // namespace grpc

namespace planb::server {

struct DecodedLimits {
  // Entries in each list of the message itself.
  size_t entries = std::numeric_limits<size_t>::max();
  // Bytes of memory of the whole message.
  size_t bytes = 0;
  // Bytes of memory that each byte of a `bytes` field will take elsewhere, for
  // a caller that unpacks them.
  size_t unpacked = 0;
};

// Measures messages of one type. Thread-safe.
class DecodedSizer {
 public:
  // REQUIRES: `type` is that of a generated class and has no maps, groups or
  // extensions.
  explicit DecodedSizer(const google::protobuf::Descriptor& type);

  // An upper bound on the bytes that `message` takes parsed onto an arena. Ends
  // at the first limit that is exceeded. O(bytes of `message`). Errors:
  // INVALID_ARGUMENT (MESSAGE_MALFORMED), RESOURCE_EXHAUSTED (BATCH_TOO_LARGE,
  // REQUEST_TOO_LARGE).
  absl::StatusOr<size_t> Measure(grpc::ByteBuffer& message,
                                 const DecodedLimits& limits) const;

 private:
  struct Field {
    enum Kind : uint8_t { kUnknown, kNumber, kString, kBytes, kMessage };
    Kind kind = kUnknown;
    bool repeated = false;
    wire::WireType wire = wire::WireType::kVarint;  // of one entry
    size_t place_bytes = 0;  // of an entry, in the array of a list
    size_t type = 0;         // of a message, in types_
  };
  struct Type {
    const google::protobuf::Descriptor* descriptor;
    size_t bytes = 0;
    std::vector<Field> fields;  // by number
  };
  class Walk;

  size_t Add(const google::protobuf::Descriptor& type);

  std::vector<Type> types_;  // the first is that of the message itself
};

// Measures a message of a generated class.
template <typename Message>
absl::StatusOr<size_t> DecodedSize(grpc::ByteBuffer& message,
                                   const DecodedLimits& limits) {
  static const auto& sizer = *new DecodedSizer(*Message::descriptor());
  return sizer.Measure(message, limits);
}

// Parses `bytes`, and frees them. Errors: INVALID_ARGUMENT (MESSAGE_MALFORMED).
absl::Status ParseAndFree(grpc::ByteBuffer& bytes,
                          google::protobuf::MessageLite& to);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_DECODED_SIZE_H_
