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

// The values of all fields, or kRefused.
std::string RequestByHand(Pieces message);
std::string ResponseByHand(Pieces message);

// The readings of the generated parser, from one string and from a stream of
// pieces.
std::string RequestGenerated(absl::string_view message);
std::string ResponseGenerated(absl::string_view message);
std::string RequestStreamed(Pieces message);
std::string ResponseStreamed(Pieces message);

// A kind of message and its readers.
struct Kind {
  const char* name;
  std::string (*by_hand)(Pieces message);
  std::string (*generated)(absl::string_view message);
  std::string (*streamed)(Pieces message);
};
inline constexpr Kind kKinds[] = {
    {"request", RequestByHand, RequestGenerated, RequestStreamed},
    {"response", ResponseByHand, ResponseGenerated, ResponseStreamed}};

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_TESTING_READINGS_H_
