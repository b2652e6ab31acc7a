// SPDX-License-Identifier: Apache-2.0

#include "client/attributes.h"

#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lpm/prefix.h"

namespace planb::client {
namespace {

absl::Status Malformed(absl::string_view word, absl::string_view form) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", absl::CHexEscape(word.substr(0, 64)), "\" is not ", form));
}

// Adds each number of `text` to `to`. False if one is none.
template <typename Numbers>
bool AddNumbers(absl::string_view text, char separator, Numbers& to) {
  for (const absl::string_view word : absl::StrSplit(text, separator)) {
    const std::optional<uint32_t> number = ParseDecimal(word);
    if (!number.has_value()) return false;
    *to.Add() = *number;
  }
  return true;
}

// The words of a list of communities.
std::vector<absl::string_view> Words(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(" ,"), absl::SkipEmpty());
}

using Numbers = google::protobuf::RepeatedField<uint32_t>;

}  // namespace

std::string AsPathText(const v1::Attributes& attributes) {
  return absl::StrJoin(attributes.as_path(), " ",
                       [](std::string* out, const auto& segment) {
                         *out += SegmentText(segment);
                       });
}

std::string SegmentText(const v1::Attributes::Segment& segment) {
  return segment.set()
             ? absl::StrCat("{", absl::StrJoin(segment.numbers(), ","), "}")
             : absl::StrJoin(segment.numbers(), " ");
}

std::string CommunityText(uint32_t community) {
  return absl::StrCat(community >> 16, ":", community & 0xffff);
}

std::string ExtendedCommunityText(uint64_t community) {
  return absl::StrCat("0x", absl::Hex(community, absl::kZeroPad16));
}

std::string CommunityText(const v1::Attributes::LargeCommunity& community) {
  return absl::StrCat(community.global_administrator(), ":",
                      community.local_data_1(), ":", community.local_data_2());
}

absl::Status ParseAsPath(absl::string_view text, v1::Attributes& to) {
  v1::Attributes::Segment* segment = nullptr;
  for (const absl::string_view word :
       absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    absl::string_view numbers = word;
    const bool set = absl::ConsumeSuffix(&numbers, "}");
    const bool well_formed = absl::ConsumePrefix(&numbers, "{") == set;
    if (segment == nullptr || set || segment->set()) {
      segment = to.add_as_path();
      segment->set_set(set);
    }
    if (!well_formed ||
        !AddNumbers(numbers, set ? ',' : ' ', *segment->mutable_numbers())) {
      return Malformed(word, "the number of an AS or a set {AS,AS}");
    }
  }
  return absl::OkStatus();
}

absl::Status ParseCommunities(absl::string_view text, v1::Attributes& to) {
  for (const absl::string_view word : Words(text)) {
    Numbers parts;
    if (!AddNumbers(word, ':', parts) || parts.size() != 2 ||
        parts[0] > 0xffff || parts[1] > 0xffff) {
      return Malformed(word, "a community such as 64500:1");
    }
    to.add_communities(parts[0] << 16 | parts[1]);
  }
  return absl::OkStatus();
}

absl::Status ParseExtendedCommunities(absl::string_view text,
                                      v1::Attributes& to) {
  for (const absl::string_view word : Words(text)) {
    uint64_t community = 0;
    if (word.substr(0, 2) != "0x" || !absl::SimpleHexAtoi(word, &community)) {
      return Malformed(word,
                       "an extended community such as 0x0002fbf400000064");
    }
    to.add_extended_communities(community);
  }
  return absl::OkStatus();
}

absl::Status ParseLargeCommunities(absl::string_view text, v1::Attributes& to) {
  for (const absl::string_view word : Words(text)) {
    Numbers parts;
    if (!AddNumbers(word, ':', parts) || parts.size() != 3) {
      return Malformed(word, "a large community such as 64500:1:2");
    }
    v1::Attributes::LargeCommunity& large = *to.add_large_communities();
    large.set_global_administrator(parts[0]);
    large.set_local_data_1(parts[1]);
    large.set_local_data_2(parts[2]);
  }
  return absl::OkStatus();
}

}  // namespace planb::client
