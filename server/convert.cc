#include "server/convert.h"

#include <xxhash.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/error.h"

namespace planb::server {
namespace {

using absl::InvalidArgumentError;

constexpr size_t kMaxInterface = 64;
constexpr size_t kMaxLabel = 256;
constexpr size_t kMaxRequestId = 128;

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

// Decodes updates[index] into `batch` or says what is wrong with it.
void DecodeChange(const v1::RouteUpdate& update, int index, UpdateBatch& batch,
                  Violations& violations) {
  const auto wrong = [&](absl::string_view field, absl::string_view why) {
    violations.Add(absl::StatusCode::kInvalidArgument, "UPDATE_INVALID",
                   absl::StrCat("updates[", index, "].", field), why);
  };
  const auto op = DecodeOp(update.op());
  if (!op.ok()) return wrong("op", op.status().message());
  const auto prefix = DecodePrefix(update.prefix());
  if (!prefix.ok()) return wrong("prefix", prefix.status().message());
  const bool is_delete =
      *op == RouteChange::Op::kDelete || *op == RouteChange::Op::kDeleteStrict;
  if (is_delete && update.next_hop_id() != kNoRoute) {
    return wrong("next_hop_id", "must be 0 when deleting");
  }
  if (!is_delete && !IsNextHop(update.next_hop_id())) {
    return wrong("next_hop_id", absl::StrCat("must be 1..4294967294, not ",
                                             update.next_hop_id()));
  }
  batch.changes.push_back({*op, *prefix, update.next_hop_id()});
}

// Names what a request asks for, apart from how it wants to be answered.
uint64_t Fingerprint(v1::UpdateRoutesRequest request) {
  request.clear_ack();
  request.clear_request_id();
  const std::string bytes = request.SerializeAsString();
  return XXH3_64bits(bytes.data(), bytes.size());
}

absl::Status CheckSizes(const v1::UpdateRoutesRequest& request,
                        size_t max_updates) {
  const auto check = [&](absl::string_view field, int size) {
    return static_cast<size_t>(size) <= max_updates
               ? absl::OkStatus()
               : QuotaError("BATCH_TOO_LARGE", field,
                            absl::StrCat(size, " entries; the limit is ",
                                         max_updates));
  };
  absl::Status status = check("updates", request.updates_size());
  status.Update(check("next_hops", request.next_hops_size()));
  return status;
}

}  // namespace

absl::StatusOr<Address> DecodeAddress(const v1::Address& address) {
  switch (address.form_case()) {
    case v1::Address::kPacked:
      return Address::FromPacked(address.packed());
    case v1::Address::kText:
      return Address::Parse(address.text());
    default:
      return InvalidArgumentError("needs `packed` or `text`");
  }
}

absl::StatusOr<Prefix> DecodePrefix(const v1::Prefix& prefix) {
  if (!prefix.text().empty()) {
    if (!prefix.address().empty() || prefix.length() != 0) {
      return InvalidArgumentError(
          "has both `text` and `address` or `length`; give one form");
    }
    return Prefix::Parse(prefix.text());
  }
  const auto address = Address::FromPacked(prefix.address());
  if (!address.ok()) return address.status();
  if (prefix.length() > 128) {
    return InvalidArgumentError(absl::StrCat("length ", prefix.length(),
                                             " is not in 0..",
                                             AddressBits(address->family())));
  }
  return Prefix::Create(*address, static_cast<int>(prefix.length()));
}

absl::StatusOr<NextHop> DecodeNextHop(const v1::NextHop& next_hop) {
  NextHop decoded = {.id = next_hop.id(),
                     .gateway = std::nullopt,
                     .interface = next_hop.interface(),
                     .weight = next_hop.weight() == 0 ? 1 : next_hop.weight(),
                     .label = next_hop.label()};
  if (!IsNextHop(decoded.id)) {
    return InvalidArgumentError(
        absl::StrCat("id must be 1..4294967294, not ", decoded.id));
  }
  if (!next_hop.gateway().empty()) {
    const auto gateway = Address::FromPacked(next_hop.gateway());
    if (!gateway.ok()) return gateway.status();
    decoded.gateway = *gateway;
  }
  if (decoded.interface.size() > kMaxInterface) {
    return InvalidArgumentError(
        absl::StrCat("interface has more than ", kMaxInterface, " octets"));
  }
  if (decoded.label.size() > kMaxLabel) {
    return InvalidArgumentError(
        absl::StrCat("label has more than ", kMaxLabel, " octets"));
  }
  return decoded;
}

absl::StatusOr<UpdateBatch> DecodeUpdate(const v1::UpdateRoutesRequest& request,
                                         size_t max_updates) {
  const absl::Status sizes = CheckSizes(request, max_updates);
  if (!sizes.ok()) return sizes;
  UpdateBatch batch;
  Violations violations;
  if (request.request_id().size() > kMaxRequestId) {
    violations.Add(absl::StatusCode::kInvalidArgument, "REQUEST_ID_INVALID",
                   "request_id",
                   absl::StrCat("has more than ", kMaxRequestId, " octets"));
  }
  for (int i = 0; i < request.next_hops_size(); ++i) {
    auto next_hop = DecodeNextHop(request.next_hops(i));
    if (next_hop.ok()) {
      batch.next_hops.push_back(*std::move(next_hop));
    } else {
      violations.Add(absl::StatusCode::kInvalidArgument, "NEXT_HOP_INVALID",
                     absl::StrCat("next_hops[", i, "]"),
                     next_hop.status().message());
    }
  }
  batch.changes.reserve(static_cast<size_t>(request.updates_size()));
  for (int i = 0; i < request.updates_size(); ++i) {
    DecodeChange(request.updates(i), i, batch, violations);
  }
  if (!violations.empty()) return violations.ToStatus();
  if (request.has_expected_generation()) {
    batch.expected_generation = request.expected_generation();
  }
  batch.validate_only = request.validate_only();
  batch.require_next_hops = request.require_next_hops();
  batch.request_id = request.request_id();
  if (!batch.request_id.empty()) batch.fingerprint = Fingerprint(request);
  return batch;
}

void Encode(const Prefix& prefix, v1::Prefix& out) {
  out.set_address(prefix.address().ToPacked());
  out.set_length(static_cast<uint32_t>(prefix.length()));
}

void Encode(const NextHop& next_hop, v1::NextHop& out) {
  out.set_id(next_hop.id);
  if (next_hop.gateway.has_value()) {
    out.set_gateway(next_hop.gateway->ToPacked());
  }
  out.set_interface(next_hop.interface);
  out.set_weight(next_hop.weight);
  out.set_label(next_hop.label);
}

void Encode(const Route& route, v1::Route& out) {
  Encode(route.prefix, *out.mutable_prefix());
  out.set_next_hop_id(route.next_hop);
}

void Encode(const TableState& state, v1::Table& out) {
  out.set_accepted_generation(state.accepted);
  out.set_visible_generation(state.visible);
  out.set_routes_v6(state.routes_v6);
  out.set_routes_v4(state.routes_v4);
  out.set_next_hops(state.next_hops);
  out.set_digest(state.digest);
  out.set_fib_bytes(state.fib_bytes);
  out.set_retired_fib_bytes(state.retired_fib_bytes);
  out.set_rib_bytes(state.rib_bytes);
  out.set_store("none");
  out.set_intervals_v6(state.intervals_v6);
  out.set_intervals_v4(state.intervals_v4);
  out.set_max_routes(state.max_routes);
  out.set_last_build_nanos(
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(state.last_build)));
  if (state.last_build_at != absl::InfinitePast()) {
    out.set_last_build_unix_nanos(
        static_cast<uint64_t>(absl::ToUnixNanos(state.last_build_at)));
  }
  for (bool v6 : {false, true}) {
    const auto& lengths = v6 ? state.lengths_v6 : state.lengths_v4;
    for (size_t length = 0; length < lengths.size(); ++length) {
      if (lengths[length] == 0) continue;
      v1::LengthCount& count = *out.add_length_counts();
      count.set_v6(v6);
      count.set_length(static_cast<uint32_t>(length));
      count.set_routes(lengths[length]);
    }
  }
}

}  // namespace planb::server
