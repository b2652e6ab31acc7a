// SPDX-License-Identifier: Apache-2.0

// What the parsers of proto/wire ("by hand") and the generated parsers read
// from a message, as text. Two readings agree if the texts are equal.

#ifndef PLANB_PROTO_WIRE_TESTING_READINGS_H_
#define PLANB_PROTO_WIRE_TESTING_READINGS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/wire/bytes.h"

namespace planb::wire {

// The reading of a refused message.
inline constexpr char kRefused[] = "refused";

// A kind of message and its readers, which return the values of all fields, or
// kRefused.
struct Kind {
  const char* name;
  std::string (*by_hand)(Pieces message);
  // The generated parser, from one string and from a stream of pieces.
  std::string (*generated)(absl::string_view message);
  std::string (*streamed)(Pieces message);
};
extern const Kind kKinds[2];
inline const Kind& kRequest = kKinds[0];
inline const Kind& kResponse = kKinds[1];

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_TESTING_READINGS_H_
