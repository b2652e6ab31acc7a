// A generation is handed on with its last message; anything out of turn ends
// the watch, since a gap could not be seen later.

#include "client/generation_assembler.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/convert.h"
#include "client/status.h"

namespace planb::client {
namespace {

absl::Status Refuse(absl::string_view how, uint64_t generation) {
  return BrokenContract(absl::StrCat(how, " in generation ", generation));
}

bool HasChanges(const v1::WatchRoutesResponse& message) {
  return message.updates_size() > 0 || message.next_hops_size() > 0 ||
         message.groups_size() > 0 || message.deleted_next_hop_ids_size() > 0 ||
         message.deleted_group_ids_size() > 0;
}

absl::StatusOr<Route> ReadUpdate(const v1::RouteUpdate& update) {
  const auto prefix = FromProto(update.prefix());
  if (!prefix.ok()) return prefix.status();
  const bool withdrawn = update.op() == v1::RouteUpdate::OP_DELETE;
  const bool announced = update.op() == v1::RouteUpdate::OP_UPSERT;
  if ((withdrawn && update.next_hop_id() != kNoRoute) ||
      (announced && !IsNextHop(update.next_hop_id())) ||
      (!withdrawn && !announced)) {
    return absl::InvalidArgumentError("op and next hop do not agree");
  }
  return Route{.prefix = *prefix, .next_hop = update.next_hop_id()};
}

// Appends what `message` says to `to`.
absl::Status Append(const v1::WatchRoutesResponse& message,
                    GenerationChanges& to) {
  for (const v1::RouteUpdate& update : message.updates()) {
    const auto route = ReadUpdate(update);
    if (!route.ok()) {
      return Refuse(
          absl::StrCat("a malformed change (", route.status().message(), ")"),
          message.generation());
    }
    to.routes.push_back(*route);
  }
  for (const v1::NextHop& object : message.next_hops()) {
    const auto next_hop = FromProto(object);
    if (!next_hop.ok()) {
      return Refuse("a malformed next hop", message.generation());
    }
    to.next_hops.push_back(*next_hop);
  }
  for (const v1::NextHopGroup& group : message.groups()) {
    to.groups.push_back(FromProto(group));
  }
  to.deleted_next_hops.insert(to.deleted_next_hops.end(),
                              message.deleted_next_hop_ids().begin(),
                              message.deleted_next_hop_ids().end());
  to.deleted_groups.insert(to.deleted_groups.end(),
                           message.deleted_group_ids().begin(),
                           message.deleted_group_ids().end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<GenerationChanges>> GenerationAssembler::Add(
    const v1::WatchRoutesResponse& message) {
  if (!partial_.has_value() && !HasChanges(message)) return Bookmark(message);
  if (partial_.has_value()) {
    if (message.generation() != partial_->generation) {
      return Refuse("another generation begins before the end",
                    partial_->generation);
    }
  } else if (message.generation() <= last_) {
    return Refuse("a generation comes twice", message.generation());
  } else {
    partial_.emplace();
    partial_->generation = message.generation();
  }
  absl::Status status = Append(message, *partial_);
  if (!status.ok()) return status;
  if (!message.generation_complete()) return std::nullopt;
  partial_->digest = message.digest();
  last_ = partial_->generation;
  return std::exchange(partial_, std::nullopt);
}

absl::StatusOr<std::optional<GenerationChanges>> GenerationAssembler::Bookmark(
    const v1::WatchRoutesResponse& message) {
  if (message.generation() < last_) {
    return Refuse("a bookmark goes back", message.generation());
  }
  last_ = message.generation();
  GenerationChanges bookmark;
  bookmark.generation = message.generation();
  bookmark.bookmark = true;
  bookmark.digest = message.digest();
  return bookmark;
}

}  // namespace planb::client
