// Every string of a length there is, for what can be tested by trying all.

#ifndef PLANB_PROTO_WIRE_TESTING_ALL_STRINGS_H_
#define PLANB_PROTO_WIRE_TESTING_ALL_STRINGS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace planb::wire {

inline std::string AllOctets() {
  std::string octets;
  for (int i = 0; i < 256; ++i) octets += static_cast<char>(i);
  return octets;
}

// Calls `visit(const std::string&)` for each string of `length` octets from
// `alphabet`. REQUIRES: `alphabet` is not empty.
template <typename Visit>
void ForAllStrings(const std::string& alphabet, size_t length, Visit visit) {
  std::vector<size_t> digits(length, 0);
  std::string text(length, alphabet[0]);
  while (true) {
    visit(text);
    size_t i = 0;
    for (; i < length && ++digits[i] == alphabet.size(); ++i) {
      digits[i] = 0;
      text[i] = alphabet[0];
    }
    if (i == length) return;
    text[i] = alphabet[digits[i]];
  }
}

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_TESTING_ALL_STRINGS_H_
