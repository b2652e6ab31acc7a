// SPDX-License-Identifier: Apache-2.0

#include "follow/path_attributes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "follow/attribute_limits.h"
#include "planb/v1/types.pb.h"

namespace planb {
namespace {

struct Word {
  PathParts parts;
  absl::string_view text;
};
constexpr Word kWords[] = {{PathParts::kGateway, "gateway"},
                           {PathParts::kOrigin, "origin"},
                           {PathParts::kFull, "full"}};

// Returns true if something was cut.
bool AddPath(const std::vector<BgpAttributes::Segment>& path,
             v1::Attributes& to) {
  int left = kMaxPath;
  for (const BgpAttributes::Segment& segment : path) {
    const int size = static_cast<int>(segment.numbers.size());
    const int count =
        to.as_path_size() == kMaxSegments ? 0 : std::min(size, left);
    if (count > 0) {
      v1::Attributes::Segment& added = *to.add_as_path();
      added.set_set(segment.set);
      added.mutable_numbers()->Add(segment.numbers.begin(),
                                   segment.numbers.begin() + count);
    }
    left -= count;
    if (count < size) return true;
  }
  return false;
}

// Calls `add` with each one. Returns true if something was cut.
template <typename Community, typename Add>
bool AddCommunities(const std::vector<Community>& communities, const Add& add) {
  const size_t count =
      std::min(communities.size(), static_cast<size_t>(kMaxCommunities));
  std::for_each_n(communities.begin(), count, add);
  return count < communities.size();
}

// Returns true if something was cut.
bool AddAll(const BgpAttributes& path, v1::Attributes& to) {
  bool cut = AddPath(path.as_path, to);
  cut |= AddCommunities(path.communities,
                        [&](uint32_t c) { to.add_communities(c); });
  cut |= AddCommunities(path.extended_communities,
                        [&](uint64_t c) { to.add_extended_communities(c); });
  cut |= AddCommunities(
      path.large_communities, [&](const std::array<uint32_t, 3>& c) {
        v1::Attributes::LargeCommunity& large = *to.add_large_communities();
        large.set_global_administrator(c[0]);
        large.set_local_data_1(c[1]);
        large.set_local_data_2(c[2]);
      });
  if (path.local_pref) to.set_local_preference(*path.local_pref);
  if (path.med) to.set_med(*path.med);
  // All but the large communities always fit.
  while (to.ByteSizeLong() > kMaxAttributes) {
    to.mutable_large_communities()->RemoveLast();
    cut = true;
  }
  return cut;
}

template <PathParts parts>
EncodedPath Encode(const BgpAttributes& path) {
  v1::Attributes attributes;
  attributes.set_origin_as(path.origin_as());
  const bool cut = parts == PathParts::kFull && AddAll(path, attributes);
  return {Attributes(attributes.SerializeAsString()), cut};
}

}  // namespace

std::string AbslUnparseFlag(PathParts parts) {
  return std::string(kWords[static_cast<size_t>(parts)].text);
}

bool AbslParseFlag(absl::string_view text, PathParts* parts,
                   std::string* error) {
  for (const Word& word : kWords) {
    *parts = word.parts;
    if (word.text == text) return true;
  }
  *error = "must be one of: gateway, origin, full";
  return false;
}

PathEncoder EncoderOf(PathParts parts) {
  switch (parts) {
    case PathParts::kGateway:
      return nullptr;
    case PathParts::kOrigin:
      return Encode<PathParts::kOrigin>;
    case PathParts::kFull:
      return Encode<PathParts::kFull>;
  }
  return nullptr;
}

}  // namespace planb
