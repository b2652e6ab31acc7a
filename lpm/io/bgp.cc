// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/bgp.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/byte_source.h"

namespace planb {

Prefix PrefixOfBytes(absl::string_view bytes, Family family, int length) {
  char packed[16] = {};
  std::copy(bytes.begin(), bytes.end(), packed);
  return Prefix::Truncate(
      *Address::FromPacked(
          absl::string_view(packed, static_cast<size_t>(AddressBytes(family)))),
      length);
}

absl::StatusOr<std::vector<NlriPrefix>> ParseNlri(absl::string_view bytes,
                                                  Family family,
                                                  bool additional_paths) {
  ByteCursor cursor(bytes);
  std::vector<NlriPrefix> prefixes;
  while (!cursor.empty()) {
    NlriPrefix& next = prefixes.emplace_back();
    uint8_t length = 0;
    absl::string_view address;
    const bool whole = (!additional_paths || cursor.Read(&next.path_id)) &&
                       cursor.Read(&length);
    if (whole && length > AddressBits(family)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an ", FamilyName(family), " prefix of length ", length));
    }
    if (!whole || !cursor.Read((length + size_t{7}) / 8, &address)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a list of ", FamilyName(family),
          " prefixes ends inside the one of ordinal ", prefixes.size() - 1));
    }
    next.prefix = PrefixOfBytes(address, family, length);
  }
  return prefixes;
}

namespace {

// Types of attributes (RFC 4271, 1997, 4760, 4360, 6793, 8092).
constexpr uint8_t kBgpOrigin = 1;
constexpr uint8_t kBgpAsPath = 2;
constexpr uint8_t kBgpNextHop = 3;
constexpr uint8_t kBgpMed = 4;
constexpr uint8_t kBgpLocalPref = 5;
constexpr uint8_t kBgpAggregator = 7;
constexpr uint8_t kBgpCommunities = 8;
constexpr uint8_t kBgpMpReachNlri = 14;
constexpr uint8_t kBgpMpUnreachNlri = 15;
constexpr uint8_t kBgpExtendedCommunities = 16;
constexpr uint8_t kBgpAs4Path = 17;
constexpr uint8_t kBgpAs4Aggregator = 18;
constexpr uint8_t kBgpLargeCommunities = 32;

// Subsequent address family (RFC 4760).
constexpr uint8_t kBgpUnicast = 1;

// The address family number (RFC 4760).
constexpr uint16_t BgpFamilyNumber(Family family) {
  return family == Family::kIpv4 ? 1 : 2;
}

constexpr uint8_t kExtendedLength = 0x10;  // a flag of an attribute

struct BgpAttribute {
  uint8_t type = 0;
  absl::string_view value;
};

// Iterates over path attributes (RFC 4271 section 4.3). Thread-compatible.
class BgpAttributeList {
 public:
  explicit BgpAttributeList(absl::string_view attributes)
      : cursor_(attributes) {}

  bool empty() const { return cursor_.empty(); }

  // Returns the next one. Errors: INVALID_ARGUMENT if the list ends inside it.
  // REQUIRES: !empty().
  absl::StatusOr<BgpAttribute> Next();

 private:
  ByteCursor cursor_;
};

absl::StatusOr<BgpAttribute> BgpAttributeList::Next() {
  BgpAttribute next;
  uint8_t flags = 0;
  uint16_t length = 0;
  uint8_t short_length = 0;
  bool whole = cursor_.Read(&flags) && cursor_.Read(&next.type);
  if (whole && (flags & kExtendedLength) != 0) {
    whole = cursor_.Read(&length);
  } else if (whole) {
    whole = cursor_.Read(&short_length);
    length = short_length;
  }
  if (!whole || !cursor_.Read(length, &next.value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute list ends inside attribute ", next.type));
  }
  return next;
}

// A next hop of an attribute that is there: none if it is unspecified.
using MaybeGateway = std::optional<Address>;

// REQUIRES: 4 or 16 bytes.
MaybeGateway GatewayOf(absl::string_view bytes) {
  const Address address = *Address::FromPacked(bytes);
  if (address.bits() == 0) return std::nullopt;
  return address;
}

// Parses NEXT_HOP.
// Errors: INVALID_ARGUMENT, naming the attribute.
absl::StatusOr<MaybeGateway> ParseBgpNextHop(absl::string_view bytes) {
  if (bytes.size() != 4) {
    return absl::InvalidArgumentError("NEXT_HOP is not 4 bytes");
  }
  return GatewayOf(bytes);
}

// Parses the next hop of MP_REACH_NLRI. Returns the global one of a global and
// a link-local one (RFC 2545 section 3) unless it is unspecified. Its family
// may differ from that of the prefixes (RFC 8950).
// Errors: INVALID_ARGUMENT, naming the attribute.
absl::StatusOr<MaybeGateway> ParseMpNextHop(absl::string_view bytes) {
  if (bytes.size() == 4 || bytes.size() == 16) return GatewayOf(bytes);
  if (bytes.size() == 32) {
    const MaybeGateway global = GatewayOf(bytes.substr(0, 16));
    return global ? global : GatewayOf(bytes.substr(16));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("MP_REACH_NLRI has a next hop of ", bytes.size(),
                   " bytes, not 4, 16 or 32"));
}

// Segment types of AS_PATH (RFC 4271, RFC 5065).
constexpr uint8_t kAsSet = 1;
constexpr uint8_t kAsSequence = 2;
constexpr uint8_t kConfedSequence = 3;
constexpr uint8_t kConfedSet = 4;

absl::Status Malformed(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", why));
}

absl::StatusOr<BgpOrigin> ParseOrigin(absl::string_view value) {
  if (value.size() != 1) return Malformed("ORIGIN", "is not one byte");
  if (static_cast<unsigned char>(value[0]) > 2) {
    return Malformed("ORIGIN", "is not 0, 1 or 2");
  }
  return static_cast<BgpOrigin>(value[0]);
}

absl::StatusOr<uint32_t> ParseNumber(absl::string_view name,
                                     absl::string_view value) {
  ByteCursor cursor(value);
  uint32_t number = 0;
  if (!cursor.Read(&number) || !cursor.empty()) {
    return Malformed(name, "is not 4 bytes");
  }
  return number;
}

// The next AS number; 0 if none is left.
uint32_t NextAs(ByteCursor& numbers, AsSize as_size) {
  uint32_t four = 0;
  uint16_t two = 0;
  if (as_size == AsSize::kFourBytes) return numbers.Read(&four) ? four : 0;
  return numbers.Read(&two) ? two : 0;
}

// Calls `segment(is_set, count, numbers)` for each segment of AS_PATH that is
// of no confederation.
template <typename OnSegment>
absl::Status ForEachSegment(absl::string_view value, AsSize as_size,
                            const OnSegment& segment) {
  ByteCursor cursor(value);
  while (!cursor.empty()) {
    uint8_t type = 0;
    uint8_t count = 0;
    absl::string_view numbers;
    if (!cursor.Read(&type) || !cursor.Read(&count) ||
        !cursor.Read(size_t{count} * static_cast<size_t>(as_size), &numbers)) {
      return Malformed("AS_PATH", "ends inside a segment");
    }
    switch (type) {
      case kAsSequence:
      case kAsSet:
        segment(type == kAsSet, count, ByteCursor(numbers));
        break;
      case kConfedSequence:
      case kConfedSet:
        break;
      default:
        return Malformed("AS_PATH",
                         absl::StrCat("has a segment of unknown type ", type));
    }
  }
  return absl::OkStatus();
}

// Finds out from AGGREGATOR and AS4_AGGREGATOR whether AS4_PATH counts, in a
// message with AS numbers of two bytes (RFC 6793 section 4.2.3).
class Aggregators {
 public:
  void Add(uint8_t type, absl::string_view value) {
    uint16_t as_number = 0;
    if (type == kBgpAs4Aggregator) {
      has_as4_ = true;
    } else if (type == kBgpAggregator && !as_number_.has_value() &&
               value.size() == 6 && ByteCursor(value).Read(&as_number)) {
      as_number_ = as_number;
    }
  }
  bool as4_path_counts() const {
    constexpr uint16_t kAsTrans = 23456;
    return !has_as4_ || as_number_.value_or(kAsTrans) == kAsTrans;
  }

 private:
  std::optional<uint16_t> as_number_;
  bool has_as4_ = false;
};

// What AS_PATH decides: see BgpPath.
struct AsPathRank {
  uint32_t length = 0;
  uint32_t neighbor_as = 0;
};

absl::StatusOr<AsPathRank> RankAsPath(absl::string_view value, AsSize as_size) {
  AsPathRank rank;
  absl::Status status = ForEachSegment(
      value, as_size, [&](bool is_set, uint8_t count, ByteCursor numbers) {
        if (!is_set && rank.length == 0) {
          rank.neighbor_as = NextAs(numbers, as_size);
        }
        rank.length += is_set ? 1 : count;
      });
  if (!status.ok()) return status;
  return rank;
}

absl::StatusOr<MaybeGateway> ParseMpReachNextHop(absl::string_view value,
                                                 Family family) {
  constexpr absl::string_view kName = "MP_REACH_NLRI";
  ByteCursor cursor(value);
  uint8_t length = 0;
  // The full form starts with an address family number below 256, so its first
  // byte is 0. The abbreviated form starts with the length of a next hop, never
  // 0.
  const bool full = !value.empty() && value[0] == 0;
  if (full) {
    uint16_t family_number = 0;
    uint8_t subsequent_family = 0;
    if (!cursor.Read(&family_number) || !cursor.Read(&subsequent_family)) {
      return Malformed(kName, "is too short");
    }
    if (family_number != BgpFamilyNumber(family) ||
        subsequent_family != kBgpUnicast) {
      return Malformed(
          kName, absl::StrCat("is of address family ", family_number, "/",
                              subsequent_family, ", not ", FamilyName(family),
                              " unicast"));
    }
  }
  absl::string_view bytes;
  if (!cursor.Read(&length) || !cursor.Read(length, &bytes)) {
    return Malformed(kName, "ends inside the next hop");
  }
  if (!full && !cursor.empty()) {
    return Malformed(kName, "goes on after the next hop");
  }
  return ParseMpNextHop(bytes);
}

// Stores the value of `parsed`, if any, in `*to`.
template <typename T, typename To>
absl::Status Store(const absl::StatusOr<T>& parsed, To* to) {
  if (parsed.ok()) *to = *parsed;
  return parsed.status();
}

}  // namespace

std::optional<Family> UnicastFamily(uint16_t family, uint8_t subsequent) {
  if (subsequent != kBgpUnicast) return std::nullopt;
  for (const Family known : {Family::kIpv4, Family::kIpv6}) {
    if (family == BgpFamilyNumber(known)) return known;
  }
  return std::nullopt;
}

absl::StatusOr<BgpPath> ParseBgpPath(absl::string_view attributes,
                                     Family family, AsSize as_size) {
  BgpAttributeList list(attributes);
  std::optional<BgpOrigin> origin;
  std::optional<AsPathRank> as_path;
  std::optional<AsPathRank> as4_path;
  std::optional<uint32_t> med;
  std::optional<uint32_t> local_pref;
  std::optional<MaybeGateway> next_hop;
  std::optional<MaybeGateway> mp_next_hop;
  Aggregators aggregators;
  while (!list.empty()) {
    const absl::StatusOr<BgpAttribute> attribute = list.Next();
    if (!attribute.ok()) return attribute.status();
    const auto [type, value] = *attribute;
    aggregators.Add(type, value);
    absl::Status status;
    if (type == kBgpOrigin && !origin) {
      status = Store(ParseOrigin(value), &origin);
    } else if (type == kBgpAsPath && !as_path) {
      status = Store(RankAsPath(value, as_size), &as_path);
    } else if (type == kBgpAs4Path && !as4_path) {
      // A malformed one does not count (RFC 6793 section 6).
      (void)Store(RankAsPath(value, AsSize::kFourBytes), &as4_path);
    } else if (type == kBgpNextHop && !next_hop && family == Family::kIpv4) {
      status = Store(ParseBgpNextHop(value), &next_hop);
    } else if (type == kBgpMed && !med) {
      status = Store(ParseNumber("MULTI_EXIT_DISC", value), &med);
    } else if (type == kBgpLocalPref && !local_pref) {
      status = Store(ParseNumber("LOCAL_PREF", value), &local_pref);
    } else if (type == kBgpMpReachNlri && !mp_next_hop) {
      status = Store(ParseMpReachNextHop(value, family), &mp_next_hop);
    }
    if (!status.ok()) return status;
  }
  BgpPath path;
  path.next_hop = next_hop.value_or(std::nullopt);
  if (!path.next_hop) path.next_hop = mp_next_hop.value_or(std::nullopt);
  path.local_pref = local_pref.value_or(path.local_pref);
  path.origin = origin.value_or(path.origin);
  path.med = med.value_or(path.med);
  if (as_path) {
    path.as_path_length = as_path->length;
    path.neighbor_as = as_path->neighbor_as;
    // AS4_PATH replaces as many of the last numbers as it has: the length stays
    // the same, and the first number is replaced only with all others.
    if (as_size == AsSize::kTwoBytes && as4_path &&
        as4_path->length == as_path->length && aggregators.as4_path_counts()) {
      path.neighbor_as = as4_path->neighbor_as;
    }
  }
  return path;
}

namespace {

using Segment = BgpAttributes::Segment;
using Segments = std::vector<Segment>;

template <typename T>
void SortOnce(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

void Append(Segment segment, Segments& to) {
  if (segment.numbers.empty()) return;
  if (segment.set) SortOnce(segment.numbers);
  if (segment.set || to.empty() || to.back().set) {
    to.push_back(std::move(segment));
    return;
  }
  to.back().numbers.insert(to.back().numbers.end(), segment.numbers.begin(),
                           segment.numbers.end());
}

absl::StatusOr<Segments> ParseAsPath(absl::string_view value, AsSize as_size) {
  Segments path;
  absl::Status status = ForEachSegment(
      value, as_size, [&](bool is_set, uint8_t count, ByteCursor numbers) {
        Segment segment{is_set, std::vector<uint32_t>(count)};
        for (uint32_t& number : segment.numbers) {
          number = NextAs(numbers, as_size);
        }
        Append(std::move(segment), path);
      });
  if (!status.ok()) return status;
  return path;
}

// As RankAsPath counts, but that empty segments are gone.
size_t LengthOf(const Segment& segment) {
  return segment.set ? 1 : segment.numbers.size();
}
size_t LengthOf(const Segments& path) {
  size_t length = 0;
  for (const Segment& segment : path) length += LengthOf(segment);
  return length;
}

// AS4_PATH in the place of the last numbers of AS_PATH (RFC 6793 section
// 4.2.3). A longer one does not count.
Segments WithAs4Path(Segments path, const Segments& as4_path) {
  const size_t last = LengthOf(as4_path);
  size_t keep = LengthOf(path);
  if (last == 0 || last > keep) return path;
  keep -= last;
  Segments merged;
  for (Segment& segment : path) {
    const size_t kept = std::min(keep, LengthOf(segment));
    keep -= kept;
    if (!segment.set || kept == 0) segment.numbers.resize(kept);
    Append(std::move(segment), merged);
  }
  for (const Segment& segment : as4_path) Append(segment, merged);
  return merged;
}

bool ReadCommunity(ByteCursor& cursor, std::array<uint32_t, 3>* community) {
  return cursor.Read(&(*community)[0]) && cursor.Read(&(*community)[1]) &&
         cursor.Read(&(*community)[2]);
}
template <typename Number>
bool ReadCommunity(ByteCursor& cursor, Number* community) {
  return cursor.Read(community);
}

template <typename Community>
absl::Status ParseCommunities(absl::string_view name, absl::string_view value,
                              std::vector<Community>& to) {
  ByteCursor cursor(value);
  to.reserve(value.size() / sizeof(Community));
  while (!cursor.empty()) {
    if (!ReadCommunity(cursor, &to.emplace_back())) {
      return Malformed(
          name, absl::StrCat("has ", value.size(), " bytes, not a multiple of ",
                             sizeof(Community)));
    }
  }
  SortOnce(to);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BgpAttributes> ParseBgpAttributes(absl::string_view attributes,
                                                 AsSize as_size) {
  BgpAttributeList list(attributes);
  BgpAttributes path;
  Segments as4_path;
  std::array<bool, 256> seen = {};
  Aggregators aggregators;
  while (!list.empty()) {
    const absl::StatusOr<BgpAttribute> attribute = list.Next();
    if (!attribute.ok()) return attribute.status();
    const auto [type, value] = *attribute;
    aggregators.Add(type, value);
    if (std::exchange(seen[type], true)) continue;
    absl::Status status;
    switch (type) {
      case kBgpAsPath:
        status = Store(ParseAsPath(value, as_size), &path.as_path);
        break;
      case kBgpAs4Path:
        // A malformed one does not count (RFC 6793 section 6).
        (void)Store(ParseAsPath(value, AsSize::kFourBytes), &as4_path);
        break;
      case kBgpMed:
        status = Store(ParseNumber("MULTI_EXIT_DISC", value), &path.med);
        break;
      case kBgpLocalPref:
        status = Store(ParseNumber("LOCAL_PREF", value), &path.local_pref);
        break;
      case kBgpCommunities:
        status = ParseCommunities("COMMUNITIES", value, path.communities);
        break;
      case kBgpExtendedCommunities:
        status = ParseCommunities("EXTENDED_COMMUNITIES", value,
                                  path.extended_communities);
        break;
      case kBgpLargeCommunities:
        status =
            ParseCommunities("LARGE_COMMUNITY", value, path.large_communities);
        break;
      default:
        break;
    }
    if (!status.ok()) return status;
  }
  if (as_size == AsSize::kTwoBytes && aggregators.as4_path_counts()) {
    path.as_path = WithAs4Path(std::move(path.as_path), as4_path);
  }
  return path;
}

namespace {

constexpr size_t kMarker = 16;  // bytes of 255
constexpr uint8_t kUpdate = 2;
constexpr uint8_t kLastType = 5;  // ROUTE-REFRESH (RFC 2918)

absl::Status Within(absl::string_view what, const absl::Status& status) {
  return Malformed(what, absl::StrCat("has ", status.message()));
}

// The head of MP_REACH_NLRI and MP_UNREACH_NLRI.
struct MpFamily {
  uint16_t number = 0;
  uint8_t subsequent = 0;

  std::optional<Family> unicast() const {
    return UnicastFamily(number, subsequent);
  }
};

bool ReadMpFamily(ByteCursor& cursor, MpFamily* family) {
  return cursor.Read(&family->number) && cursor.Read(&family->subsequent);
}

// Parses the body of one UPDATE. Thread-compatible.
class UpdateParser {
 public:
  explicit UpdateParser(bool additional_paths)
      : additional_paths_(additional_paths) {}

  absl::StatusOr<BgpUpdate> Parse(absl::string_view body) {
    ByteCursor cursor(body);
    uint16_t size = 0;
    absl::string_view withdrawn;
    absl::string_view attributes;
    if (!cursor.Read(&size) || !cursor.Read(size, &withdrawn)) {
      return Malformed("UPDATE", "ends inside its withdrawn routes");
    }
    if (!cursor.Read(&size) || !cursor.Read(size, &attributes)) {
      return Malformed("UPDATE", "ends inside its path attributes");
    }
    absl::Status status =
        Withdraw("the list of withdrawn routes", withdrawn, Family::kIpv4);
    if (status.ok()) status = OnAttributes(attributes);
    if (status.ok() && !cursor.empty()) {
      if (!next_hop_) return Malformed("UPDATE", "has routes, but no NEXT_HOP");
      status = Announce("the list of routes", cursor.left(), Family::kIpv4,
                        *next_hop_);
    }
    if (!status.ok()) return status;
    return update_;
  }

 private:
  absl::Status OnAttributes(absl::string_view attributes) {
    BgpAttributeList list(attributes);
    while (!list.empty()) {
      const absl::StatusOr<BgpAttribute> attribute = list.Next();
      if (!attribute.ok()) return attribute.status();
      const auto [type, value] = *attribute;
      absl::Status status;
      if (type == kBgpNextHop && !next_hop_) {
        status = Store(ParseBgpNextHop(value), &next_hop_);
      } else if (type == kBgpMpReachNlri) {
        status = Once(&reached_, "MP_REACH_NLRI");
        if (status.ok()) status = OnReach(value);
      } else if (type == kBgpMpUnreachNlri) {
        status = Once(&unreached_, "MP_UNREACH_NLRI");
        if (status.ok()) status = OnUnreach(value);
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // RFC 7606 section 3 (g): only these two must not be repeated.
  static absl::Status Once(bool* seen, absl::string_view name) {
    if (*seen) return Malformed(name, "is there twice");
    *seen = true;
    return absl::OkStatus();
  }

  absl::Status OnReach(absl::string_view value) {
    constexpr absl::string_view kName = "MP_REACH_NLRI";
    ByteCursor cursor(value);
    MpFamily mp_family;
    uint8_t size = 0;
    uint8_t reserved = 0;
    absl::string_view bytes;
    if (!ReadMpFamily(cursor, &mp_family)) {
      return Malformed(kName, "is too short");
    }
    const std::optional<Family> family = mp_family.unicast();
    if (!family) return absl::OkStatus();
    if (!cursor.Read(&size) || !cursor.Read(size, &bytes) ||
        !cursor.Read(&reserved)) {
      return Malformed(kName, "ends inside the next hop");
    }
    const absl::StatusOr<MaybeGateway> next_hop = ParseMpNextHop(bytes);
    if (!next_hop.ok()) return next_hop.status();
    return Announce(kName, cursor.left(), *family, *next_hop);
  }

  absl::Status OnUnreach(absl::string_view value) {
    constexpr absl::string_view kName = "MP_UNREACH_NLRI";
    ByteCursor cursor(value);
    MpFamily mp_family;
    if (!ReadMpFamily(cursor, &mp_family)) {
      return Malformed(kName, "is too short");
    }
    const std::optional<Family> family = mp_family.unicast();
    if (!family) return absl::OkStatus();
    return Withdraw(kName, cursor.left(), *family);
  }

  absl::Status Withdraw(absl::string_view where, absl::string_view bytes,
                        Family family) {
    const auto parsed = ParseNlri(bytes, family, additional_paths_);
    if (!parsed.ok()) return Within(where, parsed.status());
    update_.withdraws.insert(update_.withdraws.end(), parsed->begin(),
                             parsed->end());
    return absl::OkStatus();
  }

  absl::Status Announce(absl::string_view where, absl::string_view bytes,
                        Family family, const MaybeGateway& gateway) {
    const auto parsed = ParseNlri(bytes, family, additional_paths_);
    if (!parsed.ok()) return Within(where, parsed.status());
    for (const NlriPrefix& nlri : *parsed) {
      update_.announces.push_back({nlri, gateway});
    }
    return absl::OkStatus();
  }

  const bool additional_paths_;
  BgpUpdate update_;
  std::optional<MaybeGateway> next_hop_;
  bool reached_ = false;
  bool unreached_ = false;
};

// True if a list has the same default route twice, or a prefix that is shorter
// than any other in use: four bytes of a path identifier read so.
bool LooksLikePathIdentifiers(const BgpUpdate& update) {
  bool short_prefix = false;
  const auto add = [&](const Prefix& prefix, std::array<int, 2>& defaults) {
    const bool ipv6 = prefix.family() == Family::kIpv6;
    short_prefix |= prefix.length() == 0 ? ++defaults[ipv6 ? 1 : 0] > 1
                                         : prefix.length() < 8;
  };
  std::array<int, 2> withdrawn = {};
  for (const NlriPrefix& nlri : update.withdraws) add(nlri.prefix, withdrawn);
  std::array<int, 2> announced = {};
  for (const BgpAnnounce& a : update.announces) add(a.nlri.prefix, announced);
  return short_prefix;
}

}  // namespace

absl::StatusOr<BgpUpdate> ParseBgpMessage(absl::string_view message,
                                          bool additional_paths) {
  ByteCursor cursor(message);
  absl::string_view marker;
  uint16_t length = 0;
  uint8_t type = 0;
  if (!cursor.Read(kMarker, &marker) || !cursor.Read(&length) ||
      !cursor.Read(&type)) {
    return Malformed("the BGP message", "ends inside its header");
  }
  if (marker.find_first_not_of('\xff') != absl::string_view::npos) {
    return Malformed("the BGP message", "does not start with its marker");
  }
  if (length != message.size()) {
    return Malformed("the BGP message",
                     absl::StrCat("says it has ", length, " bytes, but has ",
                                  message.size()));
  }
  if (type == 0 || type > kLastType) {
    return Malformed("the BGP message",
                     absl::StrCat("is of unknown type ", type));
  }
  if (type != kUpdate) return BgpUpdate{};
  absl::StatusOr<BgpUpdate> update =
      UpdateParser(additional_paths).Parse(cursor.left());
  if (update.ok() && !additional_paths && LooksLikePathIdentifiers(*update) &&
      UpdateParser(/*additional_paths=*/true).Parse(cursor.left()).ok()) {
    return Malformed(
        "UPDATE",
        "may have path identifiers (RFC 7911) that its record does "
        "not tell of");
  }
  return update;
}

}  // namespace planb
