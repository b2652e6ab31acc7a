// SPDX-License-Identifier: Apache-2.0

#include "server/control/decode_update.h"

#include <xxhash.h>

#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "follow/convert.h"
#include "lpm/routes/table_digest.h"
#include "proto/wire/fields.h"
#include "proto/wire/packed_changes.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

using absl::InvalidArgumentError;

constexpr size_t kMaxRequestId = 128;

constexpr UpdateFields kNextHopFields = {.next_hops = "upserts",
                                         .groups = "group_upserts"};

absl::StatusOr<RouteChange::Op> DecodeOp(v1::RouteUpdate::Op op) {
  using Op = RouteChange::Op;
  switch (op) {
    case v1::RouteUpdate::OP_UPSERT:
      return Op::kUpsert;
    case v1::RouteUpdate::OP_INSERT:
      return Op::kInsert;
    case v1::RouteUpdate::OP_REPLACE:
      return Op::kReplace;
    case v1::RouteUpdate::OP_DELETE:
      return Op::kDelete;
    case v1::RouteUpdate::OP_DELETE_STRICT:
      return Op::kDeleteStrict;
    default:
      return InvalidArgumentError(
          absl::StrCat("must name an operation; ", op, " is none"));
  }
}

// Appends a change to `batch`, or adds a violation of `entry`, such as
// "updates[17]".
template <typename EntryName>
void AddChange(v1::RouteUpdate::Op code, const absl::StatusOr<Prefix>& prefix,
               NextHopId next_hop, EntryName entry, UpdateBatch& batch,
               Violations& violations) {
  const auto wrong = [&](absl::string_view field, absl::string_view why) {
    violations.Add(absl::StatusCode::kInvalidArgument, "UPDATE_INVALID",
                   absl::StrCat(entry(), ".", field), why);
  };
  const auto op = DecodeOp(code);
  if (!op.ok()) return wrong("op", op.status().message());
  if (!prefix.ok()) return wrong("prefix", prefix.status().message());
  const bool is_delete =
      *op == RouteChange::Op::kDelete || *op == RouteChange::Op::kDeleteStrict;
  if (is_delete && next_hop != kNoRoute) {
    return wrong("next_hop_id", "must be 0 when deleting");
  }
  if (!is_delete && !IsNextHop(next_hop)) {
    return wrong("next_hop_id", NotANextHop(next_hop));
  }
  batch.changes.push_back({*op, *prefix, next_hop});
}

void AddPacked(const wire::PackedChanges& packed, UpdateBatch& batch,
               Violations& violations) {
  if (packed.bytes() % packed.entry_bytes() != 0) {
    violations.Add(
        absl::StatusCode::kInvalidArgument, "UPDATE_INVALID", packed.field(),
        absl::StrCat("has ", packed.bytes(), " bytes, not a multiple of ",
                     packed.entry_bytes()));
    return;
  }
  for (size_t i = 0; i < packed.size(); ++i) {
    const wire::PackedChange change = packed[i];
    AddChange(
        static_cast<v1::RouteUpdate::Op>(change.op),
        Prefix::Create(*Address::FromPacked(change.address), change.length),
        change.next_hop,
        [&] { return absl::StrCat(packed.field(), "[", i, "]"); }, batch,
        violations);
  }
}

// Appends the entries of a list, decoded by `decode`, to `out`.
template <typename List, typename Decode, typename Entry>
void DecodeList(const List& list, absl::string_view name,
                absl::string_view reason, Decode decode,
                std::vector<Entry>& out, Violations& violations) {
  if (out.empty()) out.reserve(static_cast<size_t>(list.size()));
  for (int i = 0; i < list.size(); ++i) {
    absl::StatusOr<Entry> entry = decode(list[i]);
    if (entry.ok()) {
      out.push_back(*std::move(entry));
    } else {
      std::string field = absl::StrCat(name, "[", i, "]");
      absl::string_view why = entry.status().message();
      if (absl::StartsWith(why, "attributes")) {
        const size_t colon = why.find(": ");
        absl::StrAppend(&field, ".", why.substr(0, colon));
        why.remove_prefix(colon + 2);
      }
      violations.Add(absl::StatusCode::kInvalidArgument, reason, field, why);
    }
  }
}

// Refuses text that a terminal would obey. Only here: objects of stores,
// snapshots and other servers may have it from earlier versions.
absl::Status CheckPrintable(absl::string_view name, absl::string_view text) {
  const size_t at = FirstUnprintable(text);
  if (at == absl::string_view::npos) return absl::OkStatus();
  return InvalidArgumentError(
      absl::StrCat(name, " has a control character at byte ", at, ": \"",
                   Printable(text.substr(0, 64)), "\""));
}

// Refuses a gateway 0.0.0.0 or ::, and leaves out attributes of later versions,
// also only here.
absl::StatusOr<NextHop> DecodeNewNextHop(const v1::NextHop& message) {
  absl::StatusOr<NextHop> next_hop = FromProto(message);
  if (next_hop.ok() && message.has_attributes()) {
    v1::Attributes known = message.attributes();  // within its bounds
    known.DiscardUnknownFields();
    next_hop->attributes = Attributes(known.SerializeAsString());
  }
  if (!next_hop.ok()) return next_hop;
  absl::Status texts;
  NextHop::ForEachField(*next_hop, [&](const char* name, const auto& field) {
    if constexpr (std::is_same_v<decltype(field), const std::string&>) {
      texts.Update(CheckPrintable(name, field));
    }
  });
  if (!texts.ok()) return texts;
  if (next_hop->gateway.has_value() && next_hop->gateway->bits() == 0) {
    return InvalidArgumentError(
        absl::StrCat(next_hop->gateway->ToString(), " is no gateway"));
  }
  return next_hop;
}

absl::StatusOr<NextHopGroup> DecodeNewGroup(const v1::NextHopGroup& message) {
  const absl::Status text = CheckPrintable("label", message.label());
  if (!text.ok()) return text;
  absl::StatusOr<NextHopGroup> group = FromProto(message);
  // 0 is for the table, which knows the next hops.
  for (size_t i = 0; group.ok() && i < group->members.size(); ++i) {
    group->members[i].weight = message.members(static_cast<int>(i)).weight();
  }
  return group;
}

template <typename NextHops, typename Groups>
void DecodeObjects(const NextHops& next_hops, const Groups& groups,
                   UpdateBatch& batch, Violations& violations) {
  DecodeList(next_hops, batch.fields->next_hops, "NEXT_HOP_INVALID",
             DecodeNewNextHop, batch.next_hops, violations);
  DecodeList(groups, batch.fields->groups, "GROUP_INVALID", DecodeNewGroup,
             batch.groups, violations);
}

absl::Status CheckSize(absl::string_view field, size_t size, size_t limit) {
  if (size <= limit) return absl::OkStatus();
  return QuotaError("BATCH_TOO_LARGE", field,
                    absl::StrCat(size, " entries; the limit is ", limit));
}

template <typename List>
absl::Status CheckList(absl::string_view field, const List& list,
                       size_t limit) {
  return CheckSize(field, static_cast<size_t>(list.size()), limit);
}

// Decodes the fields that all requests have.
template <typename Request>
void DecodeTerms(const Request& request, UpdateBatch& batch,
                 Violations& violations) {
  if (request.request_id().size() > kMaxRequestId) {
    violations.Add(absl::StatusCode::kInvalidArgument, "REQUEST_ID_INVALID",
                   "request_id",
                   absl::StrCat("has more than ", kMaxRequestId, " bytes"));
  }
  if (request.has_expected_generation()) {
    batch.expected_generation = request.expected_generation();
  }
  batch.request_id = request.request_id();
}

// A hash of the changes that a request asks for. It leaves out the writer epoch
// and the ack: a controller that takes over may repeat a request of its
// predecessor. `others` are left out as well. Copies only encoded bytes: a copy
// of the request may be many times larger.
template <typename Request>
uint64_t Fingerprint(const Request& request,
                     const std::set<uint32_t>& others = {}) {
  std::set<uint32_t> left_out = others;
  left_out.insert({Request::kAckFieldNumber, Request::kWriterEpochFieldNumber,
                   Request::kRequestIdFieldNumber});
  const std::string bytes = request.SerializeAsString();
  const absl::string_view piece = bytes;
  wire::MessageReader reader(wire::Pieces(&piece, 1));
  std::string kept;
  kept.reserve(bytes.size());
  uint32_t tag = 0;
  for (size_t at = 0; reader.ReadTag(tag) && reader.SkipField(tag);) {
    const size_t next = bytes.size() - reader.left();
    if (!left_out.contains(tag >> 3)) kept.append(bytes, at, next - at);
    at = next;
  }
  return XXH3_64bits(kept.data(), kept.size());
}

template <typename Request>
absl::Status DecodeFirst(const Request& first, UpdateBatch& batch) {
  Violations violations;
  DecodeTerms(first, batch, violations);
  batch.validate_only = first.validate_only();
  batch.writer_epoch = first.writer_epoch();
  return violations.ToStatus();
}

template <typename Request>
OperationCounts CountRefused(const Request& request) {
  OperationCounts refused;
  const auto count = [&refused](v1::RouteUpdate::Op code) {
    const auto op = DecodeOp(code);
    if (!op.ok()) return;  // no operation: nothing to count
    ++refused.counts[CountedOp(*op)][OperationCounts::kRefused];
  };
  for (const v1::RouteUpdate& update : request.updates()) count(update.op());
  for (const wire::PackedChanges& packed : wire::PackedChangesOf(request)) {
    for (size_t i = 0; i < packed.size(); ++i) {
      count(static_cast<v1::RouteUpdate::Op>(packed[i].op));
    }
  }
  return refused;
}

template <typename Request>
absl::StatusOr<UpdateBatch> DecodeChanges(const Request& request,
                                          size_t max_entries) {
  absl::Status sizes = CheckList("updates", request.updates(), max_entries);
  sizes.Update(CheckList("next_hops", request.next_hops(), max_entries));
  sizes.Update(CheckList("groups", request.groups(), max_entries));
  for (const wire::PackedChanges& packed : wire::PackedChangesOf(request)) {
    sizes.Update(CheckSize(packed.field(), packed.size(), max_entries));
  }
  if (!sizes.ok()) return sizes;
  UpdateBatch batch;
  Violations violations;
  DecodeTerms(request, batch, violations);
  DecodeObjects(request.next_hops(), request.groups(), batch, violations);
  const auto [v6, v4] = wire::PackedChangesOf(request);
  batch.packed_v6 = v6.size();
  batch.packed_v4 = v4.size();
  batch.changes.reserve(static_cast<size_t>(request.updates_size()) +
                        v6.size() + v4.size());
  for (int i = 0; i < request.updates_size(); ++i) {
    const v1::RouteUpdate& update = request.updates(i);
    AddChange(
        update.op(), FromProto(update.prefix()), update.next_hop_id(),
        [i] { return absl::StrCat("updates[", i, "]"); }, batch, violations);
  }
  AddPacked(v6, batch, violations);
  AddPacked(v4, batch, violations);
  if (!violations.empty()) return violations.ToStatus();
  batch.require_next_hops = request.require_next_hops();
  return batch;
}

}  // namespace

absl::StatusOr<UpdateBatch> DecodeUpdate(const v1::UpdateRoutesRequest& request,
                                         size_t max_entries) {
  absl::StatusOr<UpdateBatch> batch = DecodeChanges(request, max_entries);
  if (!batch.ok()) return batch;
  batch->validate_only = request.validate_only();
  batch->writer_epoch = request.writer_epoch();
  if (request.has_complete()) batch->complete = request.complete();
  if (!batch->request_id.empty()) batch->fingerprint = Fingerprint(request);
  return batch;
}

absl::StatusOr<UpdateBatch> DecodeUpdate(
    const v1::StreamUpdatesRequest& request, size_t max_entries) {
  absl::StatusOr<UpdateBatch> batch = DecodeChanges(request, max_entries);
  if (!batch.ok() || batch->request_id.empty()) return batch;
  // These belong to the stream, not to the request.
  batch->fingerprint =
      Fingerprint(request, {v1::StreamUpdatesRequest::kBatchIdFieldNumber,
                            v1::StreamUpdatesRequest::kTableFieldNumber});
  return batch;
}

absl::StatusOr<UpdateBatch> DecodeUpdate(
    const v1::UpdateNextHopsRequest& request, size_t max_entries) {
  absl::Status sizes = CheckList("upserts", request.upserts(), max_entries);
  sizes.Update(CheckList("delete_ids", request.delete_ids(), max_entries));
  sizes.Update(
      CheckList("group_upserts", request.group_upserts(), max_entries));
  sizes.Update(CheckSize("delete_group_ids", request.delete_group_ids_size(),
                         max_entries));
  if (!sizes.ok()) return sizes;
  UpdateBatch batch;
  batch.fields = &kNextHopFields;
  Violations violations;
  DecodeTerms(request, batch, violations);
  DecodeObjects(request.upserts(), request.group_upserts(), batch, violations);
  const auto decode_id = [](NextHopId id) -> absl::StatusOr<NextHopId> {
    if (!IsNextHop(id)) return InvalidArgumentError(NotANextHop(id));
    return id;
  };
  DecodeList(request.delete_ids(), "delete_ids", "NEXT_HOP_INVALID", decode_id,
             batch.deleted_next_hops, violations);
  DecodeList(request.delete_group_ids(), "delete_group_ids", "GROUP_INVALID",
             decode_id, batch.deleted_groups, violations);
  if (!violations.empty()) return violations.ToStatus();
  batch.validate_only = request.validate_only();
  batch.writer_epoch = request.writer_epoch();
  if (!batch.request_id.empty()) batch.fingerprint = Fingerprint(request);
  return batch;
}

OperationCounts RefusedOperations(const v1::UpdateRoutesRequest& request) {
  return request.validate_only() ? OperationCounts() : CountRefused(request);
}

OperationCounts RefusedOperations(const v1::UpdateNextHopsRequest&) {
  return {};  // it has no operations on routes
}

OperationCounts RefusedOperations(const v1::StreamUpdatesRequest& request) {
  return CountRefused(request);
}

absl::Status DecodeConditions(const v1::ReplaceRoutesRequest& first,
                              UpdateBatch& batch) {
  return DecodeFirst(first, batch);
}

absl::Status DecodeConditions(const v1::ImportSnapshotRequest& first,
                              UpdateBatch& batch) {
  return DecodeFirst(first, batch);
}

// Never change it: a store has fingerprints, and a request may be repeated to a
// newer server.
uint64_t ReplacementFingerprint(const UpdateBatch& batch) {
  TableDigest contents;
  for (const Route& route : *batch.replacement) contents.Add(route);
  for (const NextHop& next_hop : batch.next_hops) contents.Add(next_hop);
  for (const NextHopGroup& group : batch.groups) contents.Add(group);
  const std::string text = absl::StrCat(
      contents.ToString(), batch.replace_next_hops ? "all" : "routes",
      batch.validate_only ? " validate " : " apply ",
      batch.expected_generation.has_value()
          ? absl::StrCat(*batch.expected_generation)
          : "");
  return XXH3_64bits(text.data(), text.size());
}

absl::Status AppendReplacement(const v1::ReplaceRoutesRequest& request,
                               UpdateBatch& batch) {
  Violations violations;
  DecodeObjects(request.next_hops(), request.groups(), batch, violations);
  const auto decode = [](const v1::Route& route) { return FromProto(route); };
  DecodeList(request.routes(), "routes", "ROUTE_INVALID", decode,
             *batch.replacement, violations);
  return violations.ToStatus();
}

}  // namespace planb::server
