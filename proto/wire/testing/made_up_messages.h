// Messages that no encoder of ours would send, but another may, and messages
// that none should.

#ifndef PLANB_PROTO_WIRE_TESTING_MADE_UP_MESSAGES_H_
#define PLANB_PROTO_WIRE_TESTING_MADE_UP_MESSAGES_H_

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/string_view.h"

namespace planb::wire {

// Whose numbers are the same on every machine.
using Random = std::mt19937_64;

// 0..n-1, near enough uniform. REQUIRES: n > 0.
inline uint64_t Below(Random& random, uint64_t n) { return random() % n; }
// True once in `n` times.
inline bool OneIn(Random& random, uint64_t n) { return Below(random, n) == 0; }

// Fields, to be put together to messages by `+`. A varint gets `overlong`
// octets more than it needs.
std::string Varint(uint64_t value, int overlong = 0);
// The key of a field.
std::string Key(uint32_t number, uint32_t wire_type, int overlong = 0);
std::string VarintField(uint32_t number, uint64_t value);
std::string OctetsField(uint32_t number, absl::string_view octets);
// Groups of that number in each other, the innermost around `fields`.
std::string Groups(uint32_t number, int depth, absl::string_view fields);

// Fields known and unknown, of right and wrong types, in any order and number,
// with groups and submessages to a depth of four. More often than not a request
// and a response.
std::string RandomMessage(Random& random);

// `message` with a few octets changed, moved, added or removed.
std::string Mutation(std::string message, Random& random);

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_TESTING_MADE_UP_MESSAGES_H_
