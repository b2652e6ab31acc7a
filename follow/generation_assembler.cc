// SPDX-License-Identifier: Apache-2.0

#include "follow/generation_assembler.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "follow/convert.h"

namespace planb {
namespace {

absl::Status Refuse(absl::string_view how, uint64_t generation) {
  return absl::InternalError(absl::StrCat(
      "the server broke its contract: ", how, " in generation ", generation));
}

bool HasChanges(const v1::WatchRoutesResponse& message) {
  return message.updates_size() > 0 || message.next_hops_size() > 0 ||
         message.groups_size() > 0 || message.deleted_next_hop_ids_size() > 0 ||
         message.deleted_group_ids_size() > 0;
}

absl::StatusOr<Route> FromUpdate(const v1::RouteUpdate& update) {
  if (!update.prefix().text().empty()) {
    return absl::InvalidArgumentError("a prefix in text where packed is due");
  }
  const auto prefix = FromProto(update.prefix());
  if (!prefix.ok()) return prefix.status();
  const bool withdrawn = update.op() == v1::RouteUpdate::OP_DELETE;
  const bool announced = update.op() == v1::RouteUpdate::OP_UPSERT;
  if ((withdrawn && update.next_hop_id() != kNoRoute) ||
      (announced && !IsNextHop(update.next_hop_id())) ||
      (!withdrawn && !announced)) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix->ToString(), " has op ", update.op(),
                     " and next hop ", update.next_hop_id()));
  }
  return Route{*prefix, update.next_hop_id()};
}

// Appends each of `messages`, decoded by `decode`, to `out`.
template <typename Messages, typename Decode, typename Value>
absl::Status AppendEach(const Messages& messages, Decode decode,
                        std::vector<Value>& out) {
  for (const auto& message : messages) {
    absl::StatusOr<Value> value = decode(message);
    if (!value.ok()) return value.status();
    out.push_back(*std::move(value));
  }
  return absl::OkStatus();
}

// Appends the changes of `message` to `to`.
absl::Status Append(const v1::WatchRoutesResponse& message,
                    GenerationChanges& to) {
  const auto decode = [](const auto& object) { return FromProto(object); };
  absl::Status status = AppendEach(message.updates(), FromUpdate, to.routes);
  status.Update(AppendEach(message.next_hops(), decode, to.next_hops));
  status.Update(AppendEach(message.groups(), decode, to.groups));
  to.deleted_next_hops.insert(to.deleted_next_hops.end(),
                              message.deleted_next_hop_ids().begin(),
                              message.deleted_next_hop_ids().end());
  to.deleted_groups.insert(to.deleted_groups.end(),
                           message.deleted_group_ids().begin(),
                           message.deleted_group_ids().end());
  return status;
}

}  // namespace

v1::WatchRoutesRequest GenerationAssembler::NextWatch() {
  partial_.reset();
  v1::WatchRoutesRequest request;
  request.set_start_generation(last_);
  request.set_start_digest(digest_);
  return request;
}

void GenerationAssembler::GoBack(TablePosition to) {
  last_ = to.generation;
  digest_ = std::move(to.digest);
}

bool GenerationAssembler::MayReplace(uint64_t generation) const {
  switch (replacement_) {
    case Replacement::kAny:
      return true;
    case Replacement::kNotOlder:
      return generation >= last_;
    case Replacement::kNewer:
      return generation > last_ || digest_ == kWholeTable;
  }
  return false;
}

absl::Status GenerationAssembler::CheckLimits(
    const v1::WatchRoutesResponse& message) {
  const auto count = [](const auto&... list) {
    return (uint64_t{0} + ... + static_cast<uint64_t>(list.size()));
  };
  const GenerationChanges& before = *partial_;
  for (const v1::NextHop& next_hop : message.next_hops()) {
    partial_object_bytes_ += next_hop.ByteSizeLong();
  }
  for (const v1::NextHopGroup& group : message.groups()) {
    partial_object_bytes_ += group.ByteSizeLong();
  }
  const uint64_t routes = count(before.routes, message.updates());
  const uint64_t times = before.reset ? 1 : 2;
  for (const auto& [has, limit, what] :
       {std::tuple(routes, limits_.max_routes, "routes"),
        {count(before.next_hops, before.groups, before.deleted_next_hops,
               before.deleted_groups, message.next_hops(), message.groups(),
               message.deleted_next_hop_ids(), message.deleted_group_ids()),
         limits_.max_next_hops, "next hops and groups"},
        {routes * sizeof(Route) + partial_object_bytes_, limits_.max_bytes,
         "bytes"}}) {
    if (has / times <= limit) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("generation ", message.generation(), " has more ", what,
                     " than the limit here, ", limit));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<GenerationChanges>> GenerationAssembler::Add(
    const v1::WatchRoutesResponse& message) {
  if (message.has_complete_since_unix_nanos()) {
    complete_since_ = message.complete_since_unix_nanos();
  }
  const bool reset = message.reset();
  if (partial_.has_value()) {
    if (message.generation() != partial_->generation ||
        reset != partial_->reset) {
      return Refuse("another generation begins before the end",
                    partial_->generation);
    }
  } else if (!reset && !HasChanges(message)) {
    if (message.generation() < last_) {
      return Refuse("a bookmark goes back", message.generation());
    }
    return Complete({.generation = message.generation(),
                     .bookmark = true,
                     .digest = message.digest()});
  } else if (message.generation() <= last_ && !reset) {
    return Refuse("a generation comes twice", message.generation());
  } else if (reset && !MayReplace(message.generation())) {
    return absl::OutOfRangeError(
        absl::StrCat("the server goes back to generation ",
                     message.generation(), ", from ", last_));
  } else {
    partial_.emplace();
    partial_->generation = message.generation();
    partial_->reset = reset;
    partial_object_bytes_ = 0;
  }
  const absl::Status fits = CheckLimits(message);
  if (!fits.ok()) return fits;
  const absl::Status status = Append(message, *partial_);
  if (!status.ok()) {
    return Refuse(absl::StrCat("a malformed change (", status.message(), ")"),
                  message.generation());
  }
  if (!message.generation_complete()) return std::nullopt;
  partial_->digest = message.digest();
  return Complete(*std::exchange(partial_, std::nullopt));
}

std::optional<GenerationChanges> GenerationAssembler::Complete(
    GenerationChanges changes) {
  if (digest_ == kWholeTable && !changes.reset) return std::nullopt;
  // A bookmark of the same generation may have no digest.
  const bool same = changes.generation == last_ && changes.digest.empty();
  changes.previous = {last_,
                      same ? digest_ : std::exchange(digest_, changes.digest)};
  last_ = changes.generation;
  changes.complete_since = complete_since_;
  return changes;
}

}  // namespace planb
