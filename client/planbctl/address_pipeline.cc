// SPDX-License-Identifier: Apache-2.0

// A reply has the answers to the IPv6 addresses of its batch first, so two
// counters find the index of each address.

#include "client/planbctl/address_pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace planb::client {
namespace {

PipelineOptions Normalized(PipelineOptions options) {
  options.batch = std::max<size_t>(options.batch, 1);
  options.depth = std::max<size_t>(options.depth, 1);
  return options;
}

// The prefix for a reply's length byte; none if the length is impossible.
std::optional<Prefix> MatchedPrefix(const Address& address, uint8_t length) {
  if (length > AddressBits(address.family())) return std::nullopt;
  return Prefix::Truncate(address, length);
}

}  // namespace

AddressPipeline::AddressPipeline(
    OpenChannel open, const PipelineOptions& options,
    std::function<void(const AddressAnswer&)> on_answer)
    : options_(Normalized(options)),
      on_answer_(std::move(on_answer)),
      lookup_(std::move(open), {.max_in_flight = options_.depth,
                                .give_up_after = options_.give_up_after,
                                .stall_timeout = options_.stall_timeout}) {}

absl::Status AddressPipeline::Add(const Address& address) {
  filling_.push_back(address);
  if (filling_.size() < options_.batch) return absl::OkStatus();
  absl::Status status = SendBatch();
  // Makes room for the next batch. With a depth of 1, waits for this one.
  while (status.ok() && sent_.size() >= options_.depth) {
    status = ReceiveBatch();
  }
  return status;
}

absl::Status AddressPipeline::Finish() {
  if (!filling_.empty()) {
    absl::Status status = SendBatch();
    if (!status.ok()) return status;
  }
  while (!sent_.empty()) {
    absl::Status status = ReceiveBatch();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status AddressPipeline::SendBatch() {
  bytes_v6_.clear();
  bytes_v4_.clear();
  for (const Address& address : filling_) {
    (address.family() == Family::kIpv6 ? bytes_v6_ : bytes_v4_) +=
        address.ToPacked();
  }
  if (options_.flow_hash.has_value()) {
    flow_hashes_.assign(filling_.size(), *options_.flow_hash);
  }
  const auto sent =
      lookup_.Send({.addresses_v6 = bytes_v6_,
                    .addresses_v4 = bytes_v4_,
                    .flow_hashes = flow_hashes_,
                    .table = options_.table,
                    .want_prefix_lengths = options_.want_prefixes,
                    .require_complete = options_.require_complete});
  if (!sent.ok()) {
    // Answers that came before the end of the handle are valid.
    while (!sent_.empty()) {
      absl::Status status = ReceiveBatch();
      if (!status.ok()) return status;
    }
    return sent.status();
  }
  sent_.push_back(std::exchange(filling_, {}));
  return absl::OkStatus();
}

absl::Status AddressPipeline::ReceiveBatch() {
  const auto received = lookup_.Receive(result_);
  if (!received.ok()) return received.status();
  if (!result_.status.ok()) return result_.status;
  const std::vector<Address> addresses = std::move(sent_.front());
  sent_.pop_front();
  size_t next_v6 = 0;
  auto next_v4 = static_cast<size_t>(
      absl::c_count_if(addresses, [](const Address& address) {
        return address.family() == Family::kIpv6;
      }));
  AddressAnswer answer;
  answer.generation = result_.generation;
  for (const Address& address : addresses) {
    const size_t at = address.family() == Family::kIpv6 ? next_v6++ : next_v4++;
    answer.address = address;
    answer.next_hop = result_.next_hops[at];
    answer.prefix.reset();
    if (options_.want_prefixes && answer.next_hop != kNoRoute) {
      answer.prefix = MatchedPrefix(address, result_.prefix_lengths[at]);
      if (!answer.prefix.has_value()) {
        return absl::InternalError(absl::StrCat(
            "the server broke its contract: a prefix of length ",
            result_.prefix_lengths[at], " for ", address.ToString()));
      }
    }
    on_answer_(answer);
  }
  return absl::OkStatus();
}

}  // namespace planb::client
