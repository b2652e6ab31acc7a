// A message as read by hand and as read by the generated parser, both in the
// same words, so that two strings tell whether they agree.

#ifndef PLANB_PROTO_WIRE_TESTING_READINGS_H_
#define PLANB_PROTO_WIRE_TESTING_READINGS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/wire/octets.h"

namespace planb::wire {

// What a parser that refuses the message makes of it.
inline constexpr char kRefused[] = "refused";

// The values of all fields, or kRefused.
std::string RequestByHand(Pieces message);
std::string RequestGenerated(absl::string_view message);
std::string ResponseByHand(Pieces message);
std::string ResponseGenerated(absl::string_view message);

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_TESTING_READINGS_H_
