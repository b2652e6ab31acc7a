// SPDX-License-Identifier: Apache-2.0

// The bounds of the contract on what a next hop means (types.proto).

#ifndef PLANB_FOLLOW_ATTRIBUTE_LIMITS_H_
#define PLANB_FOLLOW_ATTRIBUTE_LIMITS_H_

#include <cstddef>

namespace planb {

inline constexpr int kMaxSegments = 16;
inline constexpr int kMaxPath = 255;  // numbers of all segments
inline constexpr int kMaxCommunities = 128;
inline constexpr size_t kMaxAttributes = 4096;  // bytes

}  // namespace planb

#endif  // PLANB_FOLLOW_ATTRIBUTE_LIMITS_H_
