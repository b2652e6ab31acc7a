// SPDX-License-Identifier: Apache-2.0

// Is a string field text? A proto3 parser refuses a message with a `string`
// that is not UTF-8, even one that a later occurrence of the field replaces.

#ifndef PLANB_PROTO_WIRE_UTF8_H_
#define PLANB_PROTO_WIRE_UTF8_H_

#include "proto/wire/bytes.h"

namespace planb::wire {

// True if `bytes` are UTF-8 as RFC 3629 has it: no overlong forms, no
// surrogates, nothing beyond U+10FFFF. O(bytes + pieces).
bool IsUtf8(const Bytes& bytes);

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_UTF8_H_
