// SPDX-License-Identifier: Apache-2.0

// Messages for tests: valid ones that the project's own encoders would not
// send, invalid ones, and any of them in pieces.

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

// The 256 bytes, in order.
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

// Its numbers are the same on every machine.
using Random = std::mt19937_64;

// 0..n-1, near enough uniform. REQUIRES: n > 0.
inline uint64_t Below(Random& random, uint64_t n) { return random() % n; }
// True once in `n` times.
inline bool OneIn(Random& random, uint64_t n) { return Below(random, n) == 0; }

// Fields, to be put together to messages by `+`. A varint gets `overlong`
// bytes more than it needs.
std::string Varint(uint64_t value, int overlong = 0);
// The key of a field.
std::string Key(uint32_t number, uint32_t wire_type, int overlong = 0);
std::string VarintField(uint32_t number, uint64_t value);
std::string BytesField(uint32_t number, absl::string_view bytes);
// Groups of that number in each other, the innermost around `fields`.
std::string Groups(uint32_t number, int depth, absl::string_view fields);

// Fields known and unknown, of right and wrong types, in any order and number,
// with groups and submessages to a depth of four. More often than not a request
// and a response.
std::string RandomMessage(Random& random);

// `message` with a few bytes changed, moved, added or removed.
std::string Mutation(std::string message, Random& random);

// A message in pieces, as it might be received. Owns the pieces: each is a
// block of its own, so that AddressSanitizer sees a reader that goes beyond
// one. An empty piece has no address. Thread-compatible.
class CutMessage {
 public:
  // Cut at these places; two at the same make an empty piece.
  // REQUIRES: none is beyond the end.
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
