// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_call.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/published.h"
#include "follow/convert.h"
#include "server/base/decoded_size.h"
#include "server/base/error.h"
#include "server/base/grpc_time.h"

namespace planb::server {
namespace {

// What a request may take when it is parsed: for each address, and besides. An
// address takes about 200 bytes.
constexpr size_t kAddressBytes = 512;
constexpr size_t kRequestBytes = size_t{64} << 10;

// What a result may take while the others are being found, and beside it the
// next hop without its attributes.
constexpr size_t kResultBytes = 256;
constexpr size_t kNextHopBytes = 512;

// The most encoded bytes of attributes in one reply, and what these may take as
// messages.
constexpr size_t kMostAttributes = size_t{1} << 20;
constexpr size_t kAttributesBytes = 4 * kMostAttributes;

grpc::ByteBuffer ToBytes(const v1::LookupResponse& response) {
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Most clients have ended the call by then.
absl::Status TooLate() {
  return Error(absl::StatusCode::kDeadlineExceeded, "GENERATION_NOT_VISIBLE",
               "the deadline ended before the generation was visible");
}

// The prefix that `address` matches. REQUIRES: it has a route.
Prefix MatchedPrefix(const Snapshot& snapshot, const Kernel& kernel,
                     const Address& address) {
  if (!snapshot.fib_options().prefix_lengths) {
    return snapshot.Match(address)->prefix;
  }
  NextHopId next_hop = kNoRoute;
  uint8_t length = kNoPrefixLength;
  snapshot.fib(address.family())
      .LookupWithLengths(address.ToPacked().data(), 1, &next_hop, &length,
                         kernel);
  return Prefix::Truncate(address, length);
}

}  // namespace

absl::Status ParseLookup(grpc::ByteBuffer& bytes, size_t limit,
                         v1::LookupRequest& request) {
  const auto size = DecodedSize<v1::LookupRequest>(
      bytes,
      {.entries = limit, .bytes = kRequestBytes + kAddressBytes * limit});
  if (!size.ok()) return size.status();
  const absl::Status parsed = ParseAndFree(bytes, request);
  request.DiscardUnknownFields();  // the call may wait long
  return parsed;
}

namespace {

absl::StatusOr<Address> DecodeAddress(const v1::Address& address) {
  switch (address.form_case()) {
    case v1::Address::kPacked:
      return Address::FromPacked(address.packed());
    case v1::Address::kText:
      return Address::Parse(address.text());
    default:
      return absl::InvalidArgumentError("needs `packed` or `text`");
  }
}

}  // namespace

absl::StatusOr<std::vector<Address>> TakeAddresses(v1::LookupRequest& request) {
  google::protobuf::RepeatedPtrField<v1::Address> from;
  from.Swap(request.mutable_addresses());
  std::vector<Address> addresses;
  addresses.reserve(static_cast<size_t>(from.size()));
  Violations violations;
  for (int i = 0; i < from.size(); ++i) {
    const absl::StatusOr<Address> address = DecodeAddress(from[i]);
    if (address.ok()) {
      addresses.push_back(*address);
    } else {
      violations.Add(absl::StatusCode::kInvalidArgument, "ADDRESS_INVALID",
                     absl::StrCat("addresses[", i, "]"),
                     address.status().message());
    }
  }
  if (!violations.empty()) return violations.ToStatus();
  if (request.flow_hashes_size() != 0 &&
      request.flow_hashes_size() != from.size()) {
    return FieldError(
        absl::StatusCode::kInvalidArgument, "FLOW_HASHES_LENGTH", "flow_hashes",
        absl::StrCat(request.flow_hashes_size(), " entries, not one for each ",
                     "of ", from.size(), " addresses"));
  }
  return addresses;
}

absl::StatusOr<size_t> AnswerLookup(const Snapshot& snapshot,
                                    const Kernel& kernel,
                                    const std::vector<Address>& addresses,
                                    const v1::LookupRequest& request,
                                    v1::LookupResponse& response, size_t count,
                                    size_t& attributes) {
  const absl::Status complete =
      CheckComplete(snapshot, request.require_complete());
  if (!complete.ok()) return complete;
  size_t misses = 0;
  response.set_generation(snapshot.generation());
  const auto done = static_cast<size_t>(response.results_size());
  for (const Address& address :
       absl::MakeConstSpan(addresses).subspan(done, count)) {
    const int i = response.results_size();
    v1::LookupResult& result = *response.add_results();
    const NextHopId id = snapshot.fib(address.family()).Lookup(address, kernel);
    misses += id == kNoRoute ? 1 : 0;
    result.set_next_hop_id(id);
    if (request.want_prefix() && id != kNoRoute) {
      ToProto(MatchedPrefix(snapshot, kernel, address),
              *result.mutable_prefix());
    }
    NextHopId taken = id;
    if (request.flow_hashes_size() > 0) {
      taken = snapshot.groups().Choose(id, request.flow_hashes(i));
      if (taken != id) result.set_member_id(taken);
    }
    if (request.want_next_hop()) {
      const NextHop* const next_hop = snapshot.FindNextHop(taken);
      if (next_hop == nullptr) continue;
      attributes += next_hop->attributes.encoded().size();
      if (attributes > kMostAttributes) {
        return QuotaError("BATCH_TOO_LARGE", "addresses",
                          absl::StrCat("the attributes of their next hops take "
                                       "more than the limit of ",
                                       kMostAttributes, " bytes"));
      }
      *result.mutable_next_hop() = ToProto(*next_hop);
    }
  }
  return misses;
}

void LookupCall::Accept(LookupWorker& worker) {
  auto* const call = new LookupCall(worker);
  grpc::ServerCompletionQueue* const queue = worker.queue().get();
  worker.service().RequestLookup(&call->call_, &call->bytes_, &call->io_, queue,
                                 queue,
                                 static_cast<QueueEvent*>(&call->accepted_));
}

void LookupCall::OnAccepted(bool ok) {
  if (!ok) {
    delete this;
    return;
  }
  // A queue ends after the server has cancelled all calls.
  if (worker_.queue().ended()) return OnFinished(false);
  Accept(worker_);
  received_ = SteadyNow();
  worker_.counters().Add(LookupCount::kReceived, bytes_.Length());
  LookupContext& context = worker_.context();
  const absl::Status parsed =
      ParseLookup(bytes_, context.limits.max_lookup_addresses, request_);
  if (!parsed.ok()) return Fail(parsed);
  const absl::StatusOr<TableRef> table = context.tables.Find(request_.table());
  if (!table.ok()) return Fail(table.status());
  auto addresses = TakeAddresses(request_);
  if (!addresses.ok()) return Fail(addresses.status());
  addresses_ = *std::move(addresses);
  if (IsVisible(**table, request_.min_generation())) return Answer(*table);
  if (!TakeMemory(0)) return;
  WhenVisible(context, **table, request_.min_generation(), TimeLeft(),
              [this, table = *table](const absl::Status& status) {
                // After the queue nothing else knows of this call.
                if (!worker_.queue().Post(
                        [this, table, status] { Resume(table, status); })) {
                  delete this;
                }
              });
}

void LookupCall::OnFinished(bool) { delete this; }

bool LookupCall::TakeMemory(size_t more) {
  LookupContext& context = worker_.context();
  memory_.emplace(context.waiting.Take(sizeof(*this) +
                                       addresses_.capacity() * sizeof(Address) +
                                       request_.SpaceUsedLong() + more));
  if (memory_->granted()) return true;
  memory_.reset();
  Fail(QuotaError(
      "TOO_MANY_WAITERS", "waiters",
      absl::StrCat("the Lookup calls that wait have the ",
                   context.limits.max_waiting_bytes, " bytes that they may"),
      absl::Milliseconds(100)));
  return false;
}

void LookupCall::Resume(const TableRef& table, const absl::Status& status) {
  if (worker_.queue().ended()) return OnFinished(false);
  memory_.reset();
  if (status.ok()) return Answer(table);
  Fail(absl::IsFailedPrecondition(status) && TimeLeft() <= absl::ZeroDuration()
           ? TooLate()
           : status);
}

void LookupCall::Answer(const TableRef& table) {
  const Kernel& kernel = worker_.context().kernel;
  if (!request_.want_prefix() || table->fib_options().prefix_lengths ||
      addresses_.size() <= kPrefixStep) {
    v1::LookupResponse response;
    size_t attributes = 0;
    const auto misses =
        AnswerLookup(*table->Read(), kernel, addresses_, request_, response,
                     addresses_.size(), attributes);
    return misses.ok() ? Answered(response, *misses) : Fail(misses.status());
  }
  size_t bytes = addresses_.size() * kResultBytes;
  if (request_.want_next_hop()) {
    bytes += addresses_.size() * kNextHopBytes;
    if (table->Read()->next_hops().has_attributes()) {
      bytes += kAttributesBytes;
    }
  }
  if (!TakeMemory(bytes)) return;
  struct Answers {
    TableRef table;
    std::optional<Published<Snapshot>::Reader> snapshot = {};
    v1::LookupResponse response = {};
    size_t misses = 0;
    size_t attributes = 0;
  };
  auto answers = std::make_shared<Answers>(Answers{table});
  worker_.queue().RunInSlices([this, &kernel, answers = std::move(answers)] {
    if (worker_.queue().ended()) {
      OnFinished(false);
      return false;
    }
    Answers& a = *answers;
    if (!a.snapshot.has_value()) a.snapshot.emplace(a.table->Read());
    const auto misses = AnswerLookup(**a.snapshot, kernel, addresses_, request_,
                                     a.response, kPrefixStep, a.attributes);
    if (!misses.ok()) {
      memory_.reset();
      Fail(misses.status());
      return false;
    }
    a.misses += *misses;
    if (static_cast<size_t>(a.response.results_size()) < addresses_.size()) {
      return true;
    }
    Answered(a.response, a.misses);
    return false;
  });
}

void LookupCall::Answered(const v1::LookupResponse& response, size_t misses) {
  memory_.reset();
  worker_.Answered(call_, request_.table(), /*request_id=*/0, received_,
                   addresses_.size(), misses);
  const grpc::ByteBuffer reply = ToBytes(response);
  worker_.counters().Add(LookupCount::kSent, reply.Length());
  io_.Finish(reply, grpc::Status::OK, static_cast<QueueEvent*>(&finished_));
}

void LookupCall::Fail(const absl::Status& status) {
  worker_.Refused(status);
  io_.FinishWithError(ToGrpc(status), static_cast<QueueEvent*>(&finished_));
}

absl::Duration LookupCall::TimeLeft() const {
  // Not call_.deadline(): that is by the wall clock, which may be set back.
  return TimeUntil(call_.raw_deadline());
}

}  // namespace planb::server
