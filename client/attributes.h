// SPDX-License-Identifier: Apache-2.0

// Attributes of next hops as text, as programs of BGP write them.

#ifndef PLANB_CLIENT_ATTRIBUTES_H_
#define PLANB_CLIENT_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planb/v1/types.pb.h"

namespace planb::client {

// "64500 64496 {64510,64511}"; empty without a path.
std::string AsPathText(const v1::Attributes& attributes);
std::string SegmentText(const v1::Attributes::Segment& segment);

// "64500:1", "0x0002fbf400000064" and "64500:1:2".
std::string CommunityText(uint32_t community);
std::string ExtendedCommunityText(uint64_t community);
std::string CommunityText(const v1::Attributes::LargeCommunity& community);

// These append what `text` says, in the forms above, to `to`. Communities are
// separated by blanks or commas. Errors: INVALID_ARGUMENT, naming the word.
absl::Status ParseAsPath(absl::string_view text, v1::Attributes& to);
absl::Status ParseCommunities(absl::string_view text, v1::Attributes& to);
absl::Status ParseExtendedCommunities(absl::string_view text,
                                      v1::Attributes& to);
absl::Status ParseLargeCommunities(absl::string_view text, v1::Attributes& to);

}  // namespace planb::client

#endif  // PLANB_CLIENT_ATTRIBUTES_H_
