// SPDX-License-Identifier: Apache-2.0

// Prefixes, routes and next hops: what a routing table is made of.

#ifndef PLANB_LPM_PREFIX_H_
#define PLANB_LPM_PREFIX_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"

namespace planb {

// A set of addresses that share their first length() bits. Host bits are zero:
// there is no other way to make one. A plain value, ordered by family (IPv4
// first), address, length: the order in which a FIB is compiled.
class Prefix {
 public:
  // 0.0.0.0/0.
  constexpr Prefix() = default;

  // Errors: INVALID_ARGUMENT if `length` is outside 0..AddressBits(family) or
  // a bit of `address` past `length` is set; the message names the prefix.
  static absl::StatusOr<Prefix> Create(const Address& address, int length);

  // The prefix of `length` bits that holds `address`: host bits are cleared.
  // REQUIRES: 0 <= length <= AddressBits(address.family()).
  static Prefix Truncate(const Address& address, int length);

  // Parses "ADDRESS/LENGTH", strictly: the length is decimal without sign or
  // leading zeros.
  // Errors: INVALID_ARGUMENT, saying what is wrong with which text.
  static absl::StatusOr<Prefix> Parse(absl::string_view text);

  constexpr const Address& address() const { return address_; }
  constexpr Family family() const { return address_.family(); }
  constexpr int length() const { return length_; }

  // The left-aligned bits of the first and the last address.
  constexpr absl::uint128 first() const { return address_.bits(); }
  absl::uint128 last() const;

  bool Contains(const Address& address) const;
  // True if every address of `other` is in this prefix (itself included).
  bool Covers(const Prefix& other) const;

  // Canonical text, "2001:db8::/32".
  std::string ToString() const;

  friend constexpr auto operator<=>(const Prefix&, const Prefix&) = default;

  template <typename H>
  friend H AbslHashValue(H state, const Prefix& prefix) {
    return H::combine(std::move(state), prefix.address_, prefix.length_);
  }

 private:
  friend struct PackedRoute;  // unpacks what was a prefix when it was packed

  constexpr Prefix(const Address& address, int length)
      : address_(address), length_(static_cast<uint8_t>(length)) {}

  Address address_;
  uint8_t length_ = 0;
};

// Names a next hop. 0 is reserved: no route. So is the last id: an answer to
// half an address, where the other half would decide.
using NextHopId = uint32_t;
inline constexpr NextHopId kNoRoute = 0;
inline constexpr NextHopId kUndecided = 0xffffffff;
constexpr bool IsNextHop(NextHopId id) {
  return id != kNoRoute && id != kUndecided;
}

// The number that `text` is: decimal, without a sign, blanks or leading zeros.
// nullopt for any other text.
std::optional<uint32_t> ParseDecimal(absl::string_view text);

// The id of a next hop as ParseDecimal reads it, if it IsNextHop.
std::optional<NextHopId> ParseNextHopId(absl::string_view text);

// One entry of a routing table. Ordered by prefix.
struct Route {
  Prefix prefix;
  NextHopId next_hop = kNoRoute;

  friend constexpr auto operator<=>(const Route&, const Route&) = default;
};

// What a route to a next hop means: AS path, communities, tags. The engine has
// it encoded, as a planb.v1.Attributes (follow/convert.h), and never looks
// inside. An immutable value: copies share its memory.
class Attributes {
 public:
  // None.
  Attributes() = default;
  // Equal attributes have the same encoding. That of none is empty.
  explicit Attributes(absl::string_view encoded)
      : encoded_(encoded.empty() ? nullptr
                                 : std::make_shared<const std::string>(
                                       encoded.data(), encoded.size())) {}

  bool empty() const { return encoded_ == nullptr; }
  absl::string_view encoded() const {
    return empty() ? absl::string_view() : absl::string_view(*encoded_);
  }
  // Bytes held beside the object, approximately.
  size_t bytes() const {
    return empty() ? 0 : kOverhead + sizeof(std::string) + encoded_->size();
  }

  friend bool operator==(const Attributes& a, const Attributes& b) {
    return a.encoded_ == b.encoded_ || a.encoded() == b.encoded();
  }

 private:
  static constexpr size_t kOverhead = 48;  // of two allocations

  std::shared_ptr<const std::string> encoded_;
};

// What a next-hop id means, for people and controllers; lookups return the id.
// A plain value. Only `id` matters to the engine.
struct NextHop {
  // What a table takes of an interface; more than Linux lets it have.
  static constexpr size_t kMaxInterface = 64;

  NextHopId id = kNoRoute;
  std::optional<Address> gateway;
  std::string interface;
  // Of members of groups that are set without a weight.
  uint32_t weight = 1;
  std::string label;
  Attributes attributes = {};

  // Calls `visit` with the name and each field of `next_hop` but the
  // attributes, in the order that table files and digests have them.
  template <typename NextHop, typename Visit>
  static void ForEachField(NextHop& next_hop, Visit visit) {
    visit("id", next_hop.id);
    visit("weight", next_hop.weight);
    visit("gateway", next_hop.gateway);
    visit("interface", next_hop.interface);
    visit("label", next_hop.label);
  }
  // Bytes held beside the object, approximately.
  size_t text_bytes() const {
    return interface.size() + label.size() + attributes.bytes();
  }

  friend bool operator==(const NextHop&, const NextHop&) = default;
};

// True if the gateway and the interface say where packets go. A link-local
// gateway (fe80::/10, 169.254.0.0/16) means nothing without its interface.
bool NamesNeighbor(const NextHop& next_hop);

// Next hops that share traffic. Its id is one that routes name, and no next
// hop's. A plain value.
struct NextHopGroup {
  static constexpr size_t kMaxMembers = 256;

  struct Member {
    NextHopId next_hop = kNoRoute;
    uint32_t weight = 1;

    friend bool operator==(const Member&, const Member&) = default;
  };
  NextHopId id = kNoRoute;
  std::vector<Member> members;
  std::string label;

  friend bool operator==(const NextHopGroup&, const NextHopGroup&) = default;
};

}  // namespace planb

#endif  // PLANB_LPM_PREFIX_H_
