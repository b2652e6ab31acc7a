// SPDX-License-Identifier: Apache-2.0

// Messages for tests: valid ones that our encoders do not produce, invalid
// ones, and messages cut into pieces.

#ifndef PLANB_PROTO_WIRE_TESTING_MADE_UP_MESSAGES_H_
#define PLANB_PROTO_WIRE_TESTING_MADE_UP_MESSAGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/wire/bytes.h"

namespace planb::wire {

// Returns the 256 bytes, in order.
inline std::string AllBytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  return bytes;
}

// Calls `visit(const std::string&)` for each string of `length` bytes from
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

// Gives the same numbers on every machine.
using Random = std::mt19937_64;

// Returns 0..n-1, almost uniformly. REQUIRES: n > 0.
inline uint64_t Below(Random& random, uint64_t n) { return random() % n; }
// Returns true with probability 1/n.
inline bool OneIn(Random& random, uint64_t n) { return Below(random, n) == 0; }

// Parts of messages, to concatenate. A varint has `overlong` bytes more than it
// needs.
std::string Varint(uint64_t value, int overlong = 0);
// The key of a field.
std::string Key(uint32_t number, uint32_t wire_type, int overlong = 0);
std::string VarintField(uint32_t number, uint64_t value);
std::string BytesField(uint32_t number, absl::string_view bytes);
// `depth` nested groups of that number; the innermost contains `fields`.
std::string Groups(uint32_t number, int depth, absl::string_view fields);

// Known and unknown fields, of right and wrong types, in any order and number,
// with groups and submessages up to four deep. Mostly a valid request and a
// valid response.
std::string RandomMessage(Random& random);

// `message` with a few bytes changed, moved, added or removed.
std::string Mutation(std::string message, Random& random);

// A message in pieces, as if received. Owns the pieces: each is allocated by
// itself, so that AddressSanitizer detects a read beyond one. An empty piece
// has a null address. Thread-compatible.
class CutMessage {
 public:
  // Cuts at these offsets; two equal ones make an empty piece.
  // REQUIRES: no offset is beyond the end.
  CutMessage(absl::string_view message, std::vector<size_t> cuts) {
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(message.size());
    size_t begin = 0;
    for (const size_t end : cuts) {
      Add(message.substr(begin, end - begin));
      begin = end;
    }
  }

  Pieces pieces() const { return pieces_; }

 private:
  void Add(absl::string_view piece) {
    if (piece.empty()) {
      pieces_.emplace_back();
      return;
    }
    blocks_.push_back(std::make_unique<char[]>(piece.size()));
    std::copy(piece.begin(), piece.end(), blocks_.back().get());
    pieces_.emplace_back(blocks_.back().get(), piece.size());
  }

  std::vector<std::unique_ptr<char[]>> blocks_;
  std::vector<absl::string_view> pieces_;
};

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_TESTING_MADE_UP_MESSAGES_H_
