// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_entry.h"

#include <endian.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/table_file.h"
#include "lpm/prefix.h"

namespace planb::server {
namespace {

constexpr uint8_t kHasDelta = 1;
constexpr uint8_t kHasRequest = 2;
// Next hops of the delta may have attributes.
constexpr uint8_t kHasAttributes = 4;
// The table is complete after the delta.
constexpr uint8_t kIsComplete = 8;
constexpr size_t kDigestBytes = 16;
constexpr uint64_t kNoGeneration = ~uint64_t{0};

// A route is its next hop, one byte for family and length, and the bytes of the
// address that the length covers.
constexpr size_t kMaxRouteBytes = 4 + 1 + 16;
constexpr int kIpv6Code = 33;  // of ::/0; the code of 0.0.0.0/0 is 0

constexpr size_t PrefixBytes(int length) {
  return (static_cast<size_t>(length) + 7) / 8;
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

absl::Status Cut() { return Malformed("ends too early"); }

void AppendText(absl::string_view text, std::string& out) {
  AppendLittle(static_cast<uint32_t>(text.size()), out);
  out.append(text.data(), text.size());
}

bool ReadText(ByteCursor& cursor, std::string& text) {
  uint32_t size = 0;
  absl::string_view bytes;
  if (!cursor.ReadLittle(&size) || !cursor.Read(size, &bytes)) return false;
  text.assign(bytes.data(), bytes.size());
  return true;
}

void AppendRoutes(absl::Span<const Route> routes, std::string& out) {
  AppendLittle(static_cast<uint32_t>(routes.size()), out);
  const size_t begin = out.size();
  out.resize(begin + routes.size() * kMaxRouteBytes);
  char* at = out.data() + begin;
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(route.next_hop != kUndecided, "a next hop may be stored");
    const uint32_t next_hop = htole32(route.next_hop);
    std::memcpy(at, &next_hop, sizeof(next_hop));
    const int length = route.prefix.length();
    const int base = route.prefix.family() == Family::kIpv6 ? kIpv6Code : 0;
    at[4] = static_cast<char>(base + length);
    const absl::uint128 bits = route.prefix.first();
    const std::array<uint64_t, 2> words = {htobe64(absl::Uint128High64(bits)),
                                           htobe64(absl::Uint128Low64(bits))};
    // There is room for all 16 bytes.
    std::memcpy(at + 5, words.data(), sizeof(words));
    at += 5 + PrefixBytes(length);
  }
  out.resize(static_cast<size_t>(at - out.data()));
}

absl::Status ReadRoutes(ByteCursor& cursor, std::vector<Route>& routes) {
  uint32_t count = 0;
  if (!cursor.ReadLittle(&count)) return Cut();
  // A damaged count must not reserve more than the bytes can hold.
  if (cursor.left().size() / 5 < count) return Cut();
  routes.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    Route route;
    uint8_t code = 0;
    if (!cursor.ReadLittle(&route.next_hop) || !cursor.ReadLittle(&code)) {
      return Cut();
    }
    const Family family = code < kIpv6Code ? Family::kIpv4 : Family::kIpv6;
    const int length = code < kIpv6Code ? code : code - kIpv6Code;
    absl::string_view bytes;
    if (length > AddressBits(family)) {
      return Malformed(absl::StrCat("has a route of length ", length));
    }
    if (!cursor.Read(PrefixBytes(length), &bytes)) return Cut();
    std::array<uint64_t, 2> words = {};
    // Not memcpy of 0 bytes: the data pointer may be null then.
    if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
    const Address address = Address::FromBits(
        family, absl::MakeUint128(be64toh(words[0]), be64toh(words[1])));
    route.prefix = Prefix::Truncate(address, length);
    if (route.prefix.address() != address || route.next_hop == kUndecided) {
      return Malformed(absl::StrCat("has the route ", address.ToString(), "/",
                                    length, " with next hop ", route.next_hop));
    }
    routes.push_back(route);
  }
  return absl::OkStatus();
}

bool HasAttributes(const Delta& delta) {
  return std::any_of(
      delta.next_hops.begin(), delta.next_hops.end(),
      [](const NextHop& hop) { return !hop.attributes.empty(); });
}

template <typename Item>
void AppendItems(absl::Span<const Item> items, bool attributes,
                 std::string& out) {
  AppendLittle(static_cast<uint32_t>(items.size()), out);
  for (const Item& item : items) {
    if constexpr (std::is_same_v<Item, NextHopId>) {
      AppendLittle(item, out);
    } else if constexpr (std::is_same_v<Item, NextHop>) {
      AppendItem(item, attributes, out);
    } else {
      AppendItem(item, out);
    }
  }
}

template <typename Item, typename... Form>
absl::Status ReadItems(ByteCursor& cursor, std::vector<Item>& items,
                       Form... form) {
  uint32_t count = 0;
  if (!cursor.ReadLittle(&count)) return Cut();
  for (uint32_t i = 0; i < count; ++i) {
    Item& item = items.emplace_back();
    if constexpr (std::is_same_v<Item, NextHopId>) {
      if (!cursor.ReadLittle(&item)) return Cut();
    } else {
      absl::Status status = ReadItem(cursor, form..., item);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

void AppendDelta(const Delta& delta, bool attributes, std::string& out) {
  ABSL_RAW_CHECK(delta.digest.size() == kDigestBytes, "a delta has a digest");
  AppendLittle(delta.previous, out);
  AppendLittle(delta.generation, out);
  out += delta.digest;
  AppendRoutes(delta.routes, out);
  AppendItems<NextHop>(delta.next_hops, attributes, out);
  AppendItems<NextHopGroup>(delta.groups, attributes, out);
  AppendItems<NextHopId>(delta.deleted_next_hops, attributes, out);
  AppendItems<NextHopId>(delta.deleted_groups, attributes, out);
}

absl::Status ReadDelta(ByteCursor& cursor, bool attributes, Delta& delta) {
  absl::string_view digest;
  if (!cursor.ReadLittle(&delta.previous) ||
      !cursor.ReadLittle(&delta.generation) ||
      !cursor.Read(kDigestBytes, &digest)) {
    return Cut();
  }
  delta.digest.assign(digest.data(), digest.size());
  absl::Status status = ReadRoutes(cursor, delta.routes);
  if (status.ok()) status = ReadItems(cursor, delta.next_hops, attributes);
  if (status.ok()) status = ReadItems(cursor, delta.groups);
  if (status.ok()) status = ReadItems(cursor, delta.deleted_next_hops);
  if (status.ok()) status = ReadItems(cursor, delta.deleted_groups);
  return status;
}

void AppendRequest(const AnsweredRequest& request, std::string& out) {
  const UpdateOutcome& outcome = request.outcome;
  const ChangeCounts& counts = outcome.counts;
  AppendText(request.request_id, out);
  AppendText(outcome.digest, out);
  for (const uint64_t number :
       {request.fingerprint, outcome.generation, counts.added, counts.changed,
        counts.removed, counts.unchanged, counts.next_hops_added,
        counts.next_hops_changed, counts.next_hops_removed,
        static_cast<uint64_t>(absl::ToUnixNanos(outcome.accepted))}) {
    AppendLittle(number, out);
  }
}

absl::Status ReadRequest(ByteCursor& cursor, AnsweredRequest& request) {
  UpdateOutcome& outcome = request.outcome;
  ChangeCounts& counts = outcome.counts;
  uint64_t accepted = 0;
  if (!ReadText(cursor, request.request_id) ||
      !ReadText(cursor, outcome.digest)) {
    return Cut();
  }
  for (uint64_t* number :
       {&request.fingerprint, &outcome.generation, &counts.added,
        &counts.changed, &counts.removed, &counts.unchanged,
        &counts.next_hops_added, &counts.next_hops_changed,
        &counts.next_hops_removed, &accepted}) {
    if (!cursor.ReadLittle(number)) return Cut();
  }
  outcome.accepted = absl::FromUnixNanos(static_cast<int64_t>(accepted));
  return absl::OkStatus();
}

void AppendBatch(const AcceptedBatch& batch, std::string& out) {
  const bool has_delta = batch.delta != nullptr;
  const bool has_request = batch.request.has_value();
  const bool attributes = has_delta && HasAttributes(*batch.delta);
  const bool complete = has_delta && batch.delta->complete_since != 0;
  AppendLittle(static_cast<uint8_t>((has_delta ? kHasDelta : 0) |
                                    (has_request ? kHasRequest : 0) |
                                    (attributes ? kHasAttributes : 0) |
                                    (complete ? kIsComplete : 0)),
               out);
  AppendLittle(batch.writer_epoch, out);
  if (has_delta) AppendDelta(*batch.delta, attributes, out);
  if (complete) AppendLittle(batch.delta->complete_since, out);
  if (has_request) AppendRequest(*batch.request, out);
}

absl::Status ReadBatch(ByteCursor& cursor, AcceptedBatch& batch) {
  uint8_t parts = 0;
  if (!cursor.ReadLittle(&parts) || !cursor.ReadLittle(&batch.writer_epoch)) {
    return Cut();
  }
  if ((parts & ~(kHasDelta | kHasRequest | kHasAttributes | kIsComplete)) !=
      0) {
    return Malformed(absl::StrCat("has a batch with parts ", int{parts}));
  }
  absl::Status status;
  if ((parts & kHasDelta) != 0) {
    const auto delta = std::make_shared<Delta>();
    status = ReadDelta(cursor, (parts & kHasAttributes) != 0, *delta);
    if (status.ok() && (parts & kIsComplete) != 0 &&
        !cursor.ReadLittle(&delta->complete_since)) {
      status = Cut();
    }
    batch.delta = delta;
  }
  if (status.ok() && (parts & kHasRequest) != 0) {
    status = ReadRequest(cursor, batch.request.emplace());
  }
  return status;
}

}  // namespace

std::vector<Entry> MakeEntries(absl::Span<const AcceptedBatch> batches,
                               size_t max_bytes) {
  std::vector<Entry> entries;
  for (const AcceptedBatch& batch : batches) {
    if (entries.empty() || entries.back().bytes.size() >= max_bytes) {
      entries.emplace_back();
    }
    Entry& entry = entries.back();
    AppendBatch(batch, entry.bytes);
    if (batch.delta == nullptr) continue;
    if (entry.generation == 0) {
      entry.previous = batch.delta->previous;
    } else if (batch.delta->previous != entry.generation) {
      entry.previous = kNoGeneration;
    }
    entry.generation = batch.delta->generation;
    entry.digest = batch.delta->digest;
  }
  return entries;
}

absl::StatusOr<std::vector<AcceptedBatch>> ReadEntry(absl::string_view bytes) {
  std::vector<AcceptedBatch> batches;
  for (ByteCursor cursor(bytes); !cursor.empty();) {
    const absl::Status status = ReadBatch(cursor, batches.emplace_back());
    if (!status.ok()) return status;
  }
  return batches;
}

absl::Status ForEachPart(
    const TableContents& contents, size_t part_bytes,
    absl::FunctionRef<absl::Status(absl::string_view)> write) {
  const auto delta =
      std::make_shared<Delta>(Delta{.generation = contents.generation,
                                    .digest = contents.digest,
                                    .complete_since = contents.complete_since});
  std::string part;
  size_t bytes = 0;  // of the delta, about
  absl::Status status;
  const auto flush = [&] {
    AppendBatch({.delta = delta, .writer_epoch = contents.writer_epoch}, part);
    if (status.ok()) status = write(part);
    part.clear();
    delta->routes.clear();
    delta->next_hops.clear();
    delta->groups.clear();
    bytes = 0;
  };
  const auto add = [&](auto& list, const auto& item, size_t size) {
    list.push_back(item);
    bytes += size;
    if (part.size() + bytes >= part_bytes) flush();
  };
  for (const AnsweredRequest& request : contents.requests) {
    AppendBatch({.writer_epoch = contents.writer_epoch, .request = request},
                part);
    if (part.size() >= part_bytes) flush();
  }
  for (const NextHop& hop : contents.next_hops.next_hops()) {
    add(delta->next_hops, hop, 32 + hop.text_bytes());
  }
  for (const NextHopGroup& group : contents.next_hops.groups()) {
    add(delta->groups, group,
        16 + group.label.size() + 8 * group.members.size());
  }
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const Route& route : contents.routes.of(family)) {
      if (!status.ok()) return status;
      add(delta->routes, route, 5 + PrefixBytes(route.prefix.length()));
    }
  }
  // The last one is there for an empty table, too.
  flush();
  return status;
}

}  // namespace planb::server
