// SPDX-License-Identifier: Apache-2.0

#include "lpm/routes/table_digest.h"

#include <endian.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"

namespace planb {
namespace {

absl::uint128 HashBytes(const void* bytes, size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, size);
  return absl::MakeUint128(hash.high64, hash.low64);
}

void Append(uint32_t field, std::string& out) {
  absl::StrAppend(&out, field, " ");
}

// Writes the length first, so that two different lists of fields never give the
// same text.
void Append(absl::string_view field, std::string& out) {
  absl::StrAppend(&out, field.size(), ":", field);
}

void Append(const std::optional<Address>& field, std::string& out) {
  Append(field.has_value() ? field->ToPacked() : "", out);
}

}  // namespace

absl::uint128 TableDigest::Hash(const Route& route) {
  struct {
    uint64_t high, low;
    uint32_t next_hop;
    uint8_t length, family;
    uint16_t zero;
  } key = {htole64(absl::Uint128High64(route.prefix.first())),
           htole64(absl::Uint128Low64(route.prefix.first())),
           htole32(route.next_hop),
           static_cast<uint8_t>(route.prefix.length()),
           static_cast<uint8_t>(route.prefix.family()),
           0};
  static_assert(sizeof(key) == 24);
  return HashBytes(&key, sizeof(key));
}

absl::uint128 TableDigest::Hash(const NextHop& next_hop) {
  std::string text = "next hop ";
  NextHop::ForEachField(next_hop,
                        [&](auto, const auto& field) { Append(field, text); });
  // Without attributes the digest is that of servers that know none.
  if (!next_hop.attributes.empty()) {
    Append(next_hop.attributes.encoded(), text);
  }
  return HashBytes(text.data(), text.size());
}

absl::uint128 TableDigest::Hash(const NextHopGroup& group) {
  std::string text = absl::StrCat("group ", group.id, " ");
  for (const NextHopGroup::Member& member : group.members) {
    absl::StrAppend(&text, member.next_hop, "*", member.weight, " ");
  }
  Append(group.label, text);
  return HashBytes(text.data(), text.size());
}

std::string TableDigest::ToString() const {
  const std::array<uint64_t, 2> words = {htobe64(absl::Uint128High64(sum_)),
                                         htobe64(absl::Uint128Low64(sum_))};
  std::string bytes(sizeof(words), '\0');
  std::memcpy(bytes.data(), words.data(), sizeof(words));
  return bytes;
}

bool IsStoredDigest(absl::string_view stored, const TableDigest& routes,
                    const TableDigest& objects) {
  TableDigest all = routes;
  all.Add(objects);
  return stored == all.ToString() || stored == routes.ToString();
}

}  // namespace planb
