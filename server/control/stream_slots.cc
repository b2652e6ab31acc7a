// SPDX-License-Identifier: Apache-2.0

#include "server/control/stream_slots.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "lpm/address.h"
#include "server/base/error.h"

namespace planb::server {

std::string ClientOf(absl::string_view peer) {
  constexpr size_t kPrefixBytes = 8;  // of an IPv6 /64
  if (!absl::ConsumePrefix(&peer, "ipv4:") &&
      !absl::ConsumePrefix(&peer, "ipv6:")) {
    return "unix";
  }
  peer = peer.substr(0, peer.rfind(':'));
  // The brackets are percent-encoded.
  absl::ConsumePrefix(&peer, "%5B");
  absl::ConsumeSuffix(&peer, "%5D");
  const auto address = Address::Parse(peer);
  return address.ok() ? address->ToPacked().substr(0, kPrefixBytes)
                      : std::string(peer);
}

absl::StatusOr<StreamSlots::Slot> StreamSlots::Enter(std::string client) {
  // At least one, and all of a few.
  const size_t limit_of_client = limit_ - limit_ / 4;
  const auto refuse = [this](size_t limit, absl::string_view whose) {
    return QuotaError(reason_, what_,
                      absl::StrCat("the limit is ", limit, whose),
                      absl::Seconds(1));
  };
  const MutexLock lock(mutex_);
  const auto known = of_client_.find(client);
  if (known != of_client_.end() && known->second >= limit_of_client) {
    return refuse(limit_of_client, " for one client");
  }
  if (!open_.TryBegin(limit_)) return refuse(limit_, "");
  ++of_client_[client];
  gauge_.Increment();
  return Slot(this, std::move(client));
}

void StreamSlots::Leave(const std::string& client) {
  const MutexLock lock(mutex_);
  const auto known = of_client_.find(client);
  if (--known->second == 0) of_client_.erase(known);
  gauge_.Decrement();
  open_.End();
}

}  // namespace planb::server
