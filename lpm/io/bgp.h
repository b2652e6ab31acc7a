// SPDX-License-Identifier: Apache-2.0

// BGP as MRT files hold it: prefixes, path attributes and UPDATE messages
// (RFC 4271; RFC 4760 for other families than IPv4).

#ifndef PLANB_LPM_IO_BGP_H_
#define PLANB_LPM_IO_BGP_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// A prefix as BGP encodes it: the length in bits, then the bytes that have
// these bits (RFC 4271 section 4.3, RFC 4760 section 5). With additional paths,
// a path identifier comes first (RFC 7911 section 3).
struct NlriPrefix {
  Prefix prefix;
  uint32_t path_id = 0;  // 0 without additional paths

  friend bool operator==(const NlriPrefix&, const NlriPrefix&) = default;
};

// The prefix of `length` bits with these first bytes. Clears the bits past the
// length, which have no meaning.
// REQUIRES: length <= AddressBits(family); bytes.size() is (length + 7) / 8.
Prefix PrefixOfBytes(absl::string_view bytes, Family family, int length);

// Parses a list of prefixes.
// Errors: INVALID_ARGUMENT, naming the defect.
absl::StatusOr<std::vector<NlriPrefix>> ParseNlri(absl::string_view bytes,
                                                  Family family,
                                                  bool additional_paths);

// The origin of a path (RFC 4271 section 4.3). A lower one is preferred.
enum class BgpOrigin : uint8_t { kIgp = 0, kEgp = 1, kIncomplete = 2 };

// The family of these numbers (RFC 4760) if they are IPv4 or IPv6 unicast, else
// nothing.
std::optional<Family> UnicastFamily(uint16_t family, uint8_t subsequent);

// A path to a prefix. An absent attribute has the value that is here.
struct BgpPath {
  // None if it is absent or unspecified (0.0.0.0, ::): no gateway.
  std::optional<Address> next_hop;
  uint32_t local_pref = 100;
  // As RFC 4271 section 9.1.2.2 counts: a set is 1, a confederation 0.
  uint32_t as_path_length = 0;
  BgpOrigin origin = BgpOrigin::kIncomplete;
  uint32_t med = 0;
  // The AS that announced the path: the first of AS_PATH, past confederations.
  // 0 if that is empty or starts with a set: the path starts in the own AS.
  uint32_t neighbor_as = 0;
};

// The size of AS numbers in AS_PATH.
enum class AsSize : uint8_t { kTwoBytes = 2, kFourBytes = 4 };

// Parses the attributes of a path to a prefix of `family`, as in a RIB entry
// (RFC 6396 sections 4.2 and 4.3.4). The next hop is that of NEXT_HOP (IPv4
// only) if it is a gateway, else that of MP_REACH_NLRI, either abbreviated
// (length and address) or in full (RFC 4760), as some writers have it. With AS
// numbers of two bytes AS4_PATH counts (RFC 6793 section 4.2.3). The first
// attribute of a type counts; other types are skipped. Errors:
// INVALID_ARGUMENT, naming the attribute and its defect.
absl::StatusOr<BgpPath> ParseBgpPath(absl::string_view attributes,
                                     Family family,
                                     AsSize as_size = AsSize::kFourBytes);

// What a path means besides its next hop, in one form: communities and the
// numbers of a set are sorted, each once, and no sequence follows another.
struct BgpAttributes {
  struct Segment {
    bool set = false;
    std::vector<uint32_t> numbers;  // of a sequence the nearest first

    friend bool operator==(const Segment&, const Segment&) = default;
  };
  std::vector<Segment> as_path;  // without confederations

  std::vector<uint32_t> communities;
  std::vector<uint64_t> extended_communities;
  // Global administrator, local data 1 and 2.
  std::vector<std::array<uint32_t, 3>> large_communities;
  std::optional<uint32_t> local_pref;
  std::optional<uint32_t> med;

  // The AS that the route comes from; 0: the path is empty, or ends with a set,
  // also with one of a single AS (RFC 6811 section 2).
  uint32_t origin_as() const {
    const bool none = as_path.empty() || as_path.back().set;
    return none ? 0 : as_path.back().numbers.back();
  }
};

// Parses that of the attributes that ParseBgpPath takes, by the same rules.
// Errors: INVALID_ARGUMENT, naming the attribute and its defect.
absl::StatusOr<BgpAttributes> ParseBgpAttributes(
    absl::string_view attributes, AsSize as_size = AsSize::kFourBytes);

// An announced prefix and its next hop, if that is a gateway.
struct BgpAnnounce {
  NlriPrefix nlri;
  std::optional<Address> gateway;

  friend bool operator==(const BgpAnnounce&, const BgpAnnounce&) = default;
};

// The changes of one UPDATE. A prefix in both lists is announced (RFC 4271).
struct BgpUpdate {
  std::vector<NlriPrefix> withdraws;
  std::vector<BgpAnnounce> announces;

  bool empty() const { return withdraws.empty() && announces.empty(); }
};

// Parses one whole message. Skips address families other than unicast, and all
// attributes but the next hop. The update is empty if the message changes no
// unicast route: it is not an UPDATE, marks the end of a RIB, or is of another
// address family. Path identifiers that nothing marks mostly look like prefixes
// shorter than /8: an UPDATE with such a prefix, or a default route twice in
// one list, is malformed without `additional_paths` if all its lists could have
// path identifiers too. Errors: INVALID_ARGUMENT, naming the defect. Unlike RFC
// 7606, any error invalidates the whole message.
absl::StatusOr<BgpUpdate> ParseBgpMessage(absl::string_view message,
                                          bool additional_paths);

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP_H_
