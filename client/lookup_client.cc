// SPDX-License-Identifier: Apache-2.0

// Converts between values of lpm/ and messages.

#include "client/lookup_client.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/call.h"

namespace planb::client {
namespace {

absl::StatusOr<LookupAnswer> ReadResult(const v1::LookupResult& result) {
  LookupAnswer answer;
  answer.next_hop = result.next_hop_id();
  answer.member = result.member_id();
  if (result.has_prefix()) {
    const auto prefix = FromProto(result.prefix());
    if (!prefix.ok()) return BrokenContract(prefix.status().message());
    answer.prefix = *prefix;
  }
  if (result.has_next_hop()) {
    auto next_hop = FromProto(result.next_hop());
    if (!next_hop.ok()) return BrokenContract(next_hop.status().message());
    answer.next_hop_object = *std::move(next_hop);
  }
  return answer;
}

}  // namespace

LookupClient::LookupClient(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::RouteLookup::NewStub(channel)) {}

absl::StatusOr<LookupAnswers> LookupClient::Lookup(
    absl::Span<const Address> addresses, const LookupOptions& options) const {
  v1::LookupRequest request;
  request.set_table(options.table);
  request.set_min_generation(options.min_generation);
  request.set_want_prefix(options.want_prefix);
  request.set_want_next_hop(options.want_next_hop);
  request.set_require_complete(options.require_complete);
  request.mutable_flow_hashes()->Add(options.flow_hashes.begin(),
                                     options.flow_hashes.end());
  for (const Address& address : addresses) {
    request.add_addresses()->set_packed(address.ToPacked());
  }
  const auto response = CallUnary(*stub_, &v1::RouteLookup::Stub::Lookup,
                                  request, options.deadline);
  if (!response.ok()) return response.status();
  if (static_cast<size_t>(response->results_size()) != addresses.size()) {
    return BrokenContract(absl::StrCat(response->results_size(),
                                       " results for ", addresses.size(),
                                       " addresses"));
  }
  LookupAnswers answers;
  answers.generation = response->generation();
  answers.answers.reserve(addresses.size());
  for (const v1::LookupResult& result : response->results()) {
    auto answer = ReadResult(result);
    if (!answer.ok()) return answer.status();
    answers.answers.push_back(*std::move(answer));
  }
  return answers;
}

}  // namespace planb::client
