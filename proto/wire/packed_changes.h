// SPDX-License-Identifier: Apache-2.0

// Changes of routes in packed form, both ways: the fields changes_v6 and
// changes_v4 of a batch, an UpdateRoutesRequest or StreamUpdatesRequest.
// route_table.proto describes them at RouteUpdate.

#ifndef PLANB_PROTO_WIRE_PACKED_CHANGES_H_
#define PLANB_PROTO_WIRE_PACKED_CHANGES_H_

#include <endian.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace planb::wire {

struct PackedChange {
  absl::string_view address;  // 16 or 4 bytes
  uint8_t length = 0;         // of the prefix
  uint8_t op = 0;             // RouteUpdate.Op
  uint32_t next_hop = 0;
};

// The changes of one family, as long as their bytes are there.
class PackedChanges {
 public:
  static constexpr size_t kV6Bytes = 16, kV4Bytes = 4;  // of an address
  static constexpr size_t EntryBytes(size_t address_bytes) {
    return address_bytes + 1 + 1 + sizeof(uint32_t);
  }

  PackedChanges(size_t address_bytes, absl::string_view bytes)
      : address_bytes_(address_bytes), bytes_(bytes) {}

  bool is_v6() const { return address_bytes_ == kV6Bytes; }
  const char* field() const { return is_v6() ? "changes_v6" : "changes_v4"; }
  size_t entry_bytes() const { return EntryBytes(address_bytes_); }
  size_t bytes() const { return bytes_.size(); }
  // Bytes after the last whole entry do not count.
  size_t size() const { return bytes() / entry_bytes(); }

  // REQUIRES: i < size().
  PackedChange operator[](size_t i) const {
    const char* const entry = bytes_.data() + i * entry_bytes();
    const char* const after = entry + address_bytes_;
    uint32_t next_hop = 0;
    std::memcpy(&next_hop, after + 2, sizeof(next_hop));
    return {.address = {entry, address_bytes_},
            .length = static_cast<uint8_t>(after[0]),
            .op = static_cast<uint8_t>(after[1]),
            .next_hop = le32toh(next_hop)};
  }

 private:
  size_t address_bytes_;
  absl::string_view bytes_;
};

template <typename Batch>
std::array<PackedChanges, 2> PackedChangesOf(const Batch& batch) {
  return {{{PackedChanges::kV6Bytes, batch.changes_v6()},
           {PackedChanges::kV4Bytes, batch.changes_v4()}}};
}

template <typename Batch>
void AddPackedChange(const PackedChange& change, Batch& batch) {
  std::string& list = change.address.size() == PackedChanges::kV6Bytes
                          ? *batch.mutable_changes_v6()
                          : *batch.mutable_changes_v4();
  const uint32_t next_hop = htole32(change.next_hop);
  list.append(change.address.data(), change.address.size());
  list.push_back(static_cast<char>(change.length));
  list.push_back(static_cast<char>(change.op));
  list.append(reinterpret_cast<const char*>(&next_hop), sizeof(next_hop));
}

// The entries of all lists of a batch.
template <typename Batch>
size_t CountEntries(const Batch& batch) {
  const auto [v6, v4] = PackedChangesOf(batch);
  return static_cast<size_t>(batch.updates_size()) +
         static_cast<size_t>(batch.next_hops_size()) +
         static_cast<size_t>(batch.groups_size()) + v6.size() + v4.size();
}

}  // namespace planb::wire

#endif  // PLANB_PROTO_WIRE_PACKED_CHANGES_H_
