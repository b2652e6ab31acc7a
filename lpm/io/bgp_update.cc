#include "lpm/io/bgp_update.h"

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/bgp_attribute_list.h"
#include "lpm/io/octets.h"

namespace planb {
namespace {

constexpr size_t kMarker = 16;  // octets of 255
constexpr uint8_t kUpdate = 2;
constexpr uint8_t kLastType = 5;  // ROUTE-REFRESH (RFC 2918)

absl::Status Malformed(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", why));
}

absl::Status Within(absl::string_view what, const absl::Status& status) {
  return Malformed(what, absl::StrCat("has ", status.message()));
}

// The head of MP_REACH_NLRI and MP_UNREACH_NLRI.
struct MpFamily {
  uint16_t number = 0;
  uint8_t subsequent = 0;

  // Nothing if it is not unicast of a family of ours.
  std::optional<Family> unicast() const {
    if (subsequent != kBgpUnicast) return std::nullopt;
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      if (number == BgpFamilyNumber(family)) return family;
    }
    return std::nullopt;
  }
};

bool ReadMpFamily(OctetCursor& cursor, MpFamily* family) {
  return cursor.Read(&family->number) && cursor.Read(&family->subsequent);
}

// Collects what an UPDATE says. Thread-compatible.
class UpdateParser {
 public:
  explicit UpdateParser(bool additional_paths)
      : additional_paths_(additional_paths) {}

  absl::StatusOr<BgpUpdate> Parse(absl::string_view body) {
    OctetCursor cursor(body);
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
        const absl::StatusOr<Address> parsed = ParseBgpNextHop(value);
        if (parsed.ok()) next_hop_ = *parsed;
        status = parsed.status();
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

  // RFC 7606 section 3 (g): of other attributes the first counts.
  static absl::Status Once(bool* seen, absl::string_view name) {
    if (*seen) return Malformed(name, "is there twice");
    *seen = true;
    return absl::OkStatus();
  }

  absl::Status OnReach(absl::string_view value) {
    constexpr absl::string_view kName = "MP_REACH_NLRI";
    OctetCursor cursor(value);
    MpFamily mp_family;
    uint8_t size = 0;
    uint8_t reserved = 0;
    absl::string_view octets;
    if (!ReadMpFamily(cursor, &mp_family)) {
      return Malformed(kName, "is too short");
    }
    const std::optional<Family> family = mp_family.unicast();
    if (!family) return absl::OkStatus();
    if (!cursor.Read(&size) || !cursor.Read(size, &octets) ||
        !cursor.Read(&reserved)) {
      return Malformed(kName, "ends inside the next hop");
    }
    const absl::StatusOr<Address> next_hop = ParseMpNextHop(octets);
    if (!next_hop.ok()) return next_hop.status();
    return Announce(kName, cursor.left(), *family, *next_hop);
  }

  absl::Status OnUnreach(absl::string_view value) {
    constexpr absl::string_view kName = "MP_UNREACH_NLRI";
    OctetCursor cursor(value);
    MpFamily mp_family;
    if (!ReadMpFamily(cursor, &mp_family)) {
      return Malformed(kName, "is too short");
    }
    const std::optional<Family> family = mp_family.unicast();
    if (!family) return absl::OkStatus();
    return Withdraw(kName, cursor.left(), *family);
  }

  absl::Status Withdraw(absl::string_view where, absl::string_view octets,
                        Family family) {
    const auto parsed = ParseNlri(octets, family, additional_paths_);
    if (!parsed.ok()) return Within(where, parsed.status());
    update_.withdraws.insert(update_.withdraws.end(), parsed->begin(),
                             parsed->end());
    return absl::OkStatus();
  }

  absl::Status Announce(absl::string_view where, absl::string_view octets,
                        Family family, const Address& gateway) {
    const auto parsed = ParseNlri(octets, family, additional_paths_);
    if (!parsed.ok()) return Within(where, parsed.status());
    for (const NlriPrefix& nlri : *parsed) {
      update_.announces.push_back({nlri, gateway});
    }
    return absl::OkStatus();
  }

  const bool additional_paths_;
  BgpUpdate update_;
  std::optional<Address> next_hop_;
  bool reached_ = false;
  bool unreached_ = false;
};

}  // namespace

absl::StatusOr<BgpUpdate> ParseBgpMessage(absl::string_view message,
                                          bool additional_paths) {
  OctetCursor cursor(message);
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
                     absl::StrCat("says it has ", length, " octets, but has ",
                                  message.size()));
  }
  if (type == 0 || type > kLastType) {
    return Malformed("the BGP message",
                     absl::StrCat("is of unknown type ", type));
  }
  if (type != kUpdate) return BgpUpdate{};
  return UpdateParser(additional_paths).Parse(cursor.left());
}

}  // namespace planb
