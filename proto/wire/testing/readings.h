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
std::string ResponseByHand(Pieces message);

// The generated parser, given all in one and as a stream of the pieces.
std::string RequestGenerated(absl::string_view message);
std::string ResponseGenerated(absl::string_view message);
std::string RequestStreamed(Pieces message);
std::string ResponseStreamed(Pieces message);

// A message of either kind and its readers.
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
