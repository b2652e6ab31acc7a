// BGP as MRT files hold it: prefixes, path attributes and UPDATE messages
// (RFC 4271; RFC 4760 for other families than IPv4).

#ifndef PLANB_LPM_IO_BGP_H_
#define PLANB_LPM_IO_BGP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

struct NlriPrefix {
  Prefix prefix;
  uint32_t path_id = 0;  // 0 without additional paths

  friend bool operator==(const NlriPrefix&, const NlriPrefix&) = default;
};

// The prefix of `length` bits whose first octets are given; bits past the
// length mean nothing and are cleared.
// REQUIRES: length <= AddressBits(family); octets enough for it and no more.
Prefix PrefixOfOctets(absl::string_view octets, Family family, int length);

// Parses a list of prefixes, to its end.
// Errors: INVALID_ARGUMENT, saying what is wrong with the list.
absl::StatusOr<std::vector<NlriPrefix>> ParseNlri(absl::string_view octets,
                                                  Family family,
                                                  bool additional_paths);

// RFC 4271 section 4.3; a lower one is preferred.
enum class BgpOrigin : uint8_t { kIgp = 0, kEgp = 1, kIncomplete = 2 };

// One way to a prefix.
struct BgpPath {
  // Of a global and a link-local next hop, the global one.
  Address next_hop;
  // As RFC 4271 section 9.1.2.2 counts: a set is one, confederations none.
  uint32_t as_path_length = 0;
  // kIncomplete if the attribute is absent.
  BgpOrigin origin = BgpOrigin::kIncomplete;
};

// Parses the attributes of a path to a prefix of `family`. The next hop is that
// of NEXT_HOP (IPv4 only), else of MP_REACH_NLRI, either abbreviated (length
// and address) or in full (RFC 4760), which some writers emit. AS numbers have
// four octets. The first attribute of a type counts; other types are skipped.
// Errors: INVALID_ARGUMENT, saying what is wrong with which attribute.
absl::StatusOr<BgpPath> ParseBgpPath(absl::string_view attributes,
                                     Family family);

struct BgpAnnounce {
  NlriPrefix nlri;
  Address gateway;

  friend bool operator==(const BgpAnnounce&, const BgpAnnounce&) = default;
};

// A prefix that is withdrawn and announced at once is announced (RFC 4271).
struct BgpUpdate {
  std::vector<NlriPrefix> withdraws;
  std::vector<BgpAnnounce> announces;

  bool empty() const { return withdraws.empty() && announces.empty(); }
};

// Parses one whole message. What is not unicast is passed over; so is every
// attribute but the next hop. Empty if the message changes no unicast route: no
// UPDATE, the end of a RIB, another address family.
// Errors: INVALID_ARGUMENT, saying what is wrong. Nothing of the message is of
// use then, as RFC 7606 would have it only for some errors.
absl::StatusOr<BgpUpdate> ParseBgpMessage(absl::string_view message,
                                          bool additional_paths);

}  // namespace planb

#endif  // PLANB_LPM_IO_BGP_H_
