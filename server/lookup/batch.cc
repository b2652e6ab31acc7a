// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/batch.h"

#include <grpc/slice.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "lpm/kernels/kernel.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

constexpr size_t kHalfBytes = 8;

absl::Status CheckLength(absl::string_view field, size_t width, size_t size) {
  if (size % width == 0) return absl::OkStatus();
  return FieldError(
      absl::StatusCode::kInvalidArgument, "ADDRESSES_LENGTH", field,
      absl::StrCat("has ", size, " bytes, which is no multiple of ", width));
}

absl::Status CheckHashes(size_t bytes, size_t addresses) {
  if (bytes == 0 || bytes == addresses * sizeof(uint32_t)) {
    return absl::OkStatus();
  }
  return FieldError(absl::StatusCode::kInvalidArgument, "FLOW_HASHES_LENGTH",
                    "flow_hashes",
                    absl::StrCat("has ", bytes, " bytes, not 4 for each of ",
                                 addresses, " addresses"));
}

absl::Status CheckCount(size_t count, absl::string_view where, size_t limit) {
  if (count <= limit) return absl::OkStatus();
  return QuotaError("BATCH_TOO_LARGE", "addresses",
                    absl::StrCat("the batch has ", count, "; ", where,
                                 "the limit is ", limit));
}

// Looks up the addresses of one family and moves `answers` past the answers.
// With prefix lengths if there is a place for them.
template <Family family>
void AnswerFamily(const Snapshot& snapshot, const Kernel& kernel,
                  const wire::Bytes& addresses, wire::ResponseBody& answers) {
  const Fib& fib = snapshot.fib(family);
  addresses.ForEachRun<AddressBytes(family)>(
      [&](const char* run, size_t count) {
        if (answers.prefix_lengths == nullptr) {
          fib.Lookup(run, count, answers.next_hops, kernel);
        } else {
          fib.LookupWithLengths(run, count, answers.next_hops,
                                answers.prefix_lengths, kernel);
          answers.prefix_lengths += count;
        }
        answers.next_hops += count * sizeof(NextHopId);
      });
}

// The lengths of `addresses` [from, to), as far as there are these.
template <Family family>
void AnswerFamilyLengths(const Snapshot& snapshot, const wire::Bytes& addresses,
                         size_t from, size_t to, char* lengths) {
  constexpr size_t kWidth = AddressBytes(family);
  to = std::min(to, addresses.size() / kWidth);
  if (from >= to) return;
  addresses.Part(from * kWidth, (to - from) * kWidth)
      .ForEachRun<kWidth>([&](const char* run, size_t count) {
        for (size_t i = 0; i < count; ++i, ++from) {
          const auto route = snapshot.Match(*Address::FromPacked(
              absl::string_view(run + i * kWidth, kWidth)));
          lengths[from] = static_cast<char>(
              route.has_value() ? route->prefix.length() : kNoPrefixLength);
        }
      });
}

// Kernels write next hops in the byte order of the machine; that of the wire is
// little-endian.
static_assert(std::endian::native == std::endian::little);

}  // namespace

size_t CountAddresses(const wire::BatchRequest& request) {
  return request.addresses_v6.size() / AddressBytes(Family::kIpv6) +
         request.addresses_v4.size() / AddressBytes(Family::kIpv4) +
         request.upper_halves_v6.size() / kHalfBytes;
}

absl::Status CheckBatch(const Batch& batch, const LookupLimits& limits,
                        const FibOptions& table) {
  const wire::BatchRequest& request = batch.request;
  absl::Status status = CheckLength("addresses_v6", AddressBytes(Family::kIpv6),
                                    request.addresses_v6.size());
  status.Update(CheckLength("addresses_v4", AddressBytes(Family::kIpv4),
                            request.addresses_v4.size()));
  status.Update(CheckLength("upper_halves_v6", kHalfBytes,
                            request.upper_halves_v6.size()));
  status.Update(CheckHashes(request.flow_hashes.size(), batch.addresses));
  status.Update(CheckCount(batch.addresses, "", limits.max_batch_addresses));
  if (!request.want_prefix_lengths) return status;
  if (!request.upper_halves_v6.empty()) {
    status.Update(FieldError(absl::StatusCode::kInvalidArgument,
                             "PREFIX_LENGTHS_UNDECIDED", "want_prefix_lengths",
                             "half an address may match several prefixes"));
  }
  if (!table.prefix_lengths) {
    status.Update(CheckCount(batch.addresses, "with want_prefix_lengths ",
                             limits.max_lookup_addresses));
  }
  return status;
}

absl::Status CheckComplete(const Snapshot& snapshot, bool required) {
  if (!required || snapshot.complete_since() != 0) return absl::OkStatus();
  return UnavailableError("TABLE_NOT_COMPLETE",
                          "no writer has said that the table is complete",
                          absl::Seconds(1));
}

size_t AnswerBatch(const Snapshot& snapshot, const Kernel& kernel,
                   const Batch& batch, const wire::ResponseBody& answers) {
  const wire::BatchRequest& request = batch.request;
  wire::ResponseBody rest = answers;
  if (!request.want_prefix_lengths || !snapshot.fib_options().prefix_lengths) {
    rest.prefix_lengths = nullptr;
  }
  AnswerFamily<Family::kIpv6>(snapshot, kernel, request.addresses_v6, rest);
  AnswerFamily<Family::kIpv4>(snapshot, kernel, request.addresses_v4, rest);
  request.upper_halves_v6.ForEachRun<kHalfBytes>([&](const char* run,
                                                     size_t count) {
    snapshot.fib(Family::kIpv6).LookupUpper(run, count, rest.next_hops, kernel);
    rest.next_hops += count * sizeof(NextHopId);
  });
  if (!request.flow_hashes.empty()) {
    char* next_hops = answers.next_hops;
    request.flow_hashes.ForEachRun<sizeof(uint32_t)>(
        [&](const char* run, size_t count) {
          snapshot.groups().ChooseEach(run, count, next_hops);
          next_hops += count * sizeof(NextHopId);
        });
  }
  return CountNoRoute(answers.next_hops, batch.addresses);
}

void AnswerLengths(const Snapshot& snapshot, const Batch& batch, size_t from,
                   size_t count, char* lengths) {
  const wire::BatchRequest& request = batch.request;
  const size_t v6 = request.addresses_v6.size() / AddressBytes(Family::kIpv6);
  const size_t to = from + count;
  AnswerFamilyLengths<Family::kIpv6>(snapshot, request.addresses_v6, from, to,
                                     lengths);
  if (to <= v6) return;
  AnswerFamilyLengths<Family::kIpv4>(snapshot, request.addresses_v4,
                                     from - std::min(from, v6), to - v6,
                                     lengths + v6);
}

bool BatchReader::Read(grpc::ByteBuffer& message) {
  pieces_.clear();
  wire::BatchRequest& request = batch_.request;
  request = wire::BatchRequest{.table = std::move(request.table)};
  request.table.clear();
  // The pointers are into the buffer's own slices: nothing is copied.
  grpc::ProtoBufferReader reader(&message);
  const void* data = nullptr;
  int size = 0;
  while (reader.Next(&data, &size)) {
    pieces_.emplace_back(static_cast<const char*>(data),
                         static_cast<size_t>(size));
  }
  if (!reader.status().ok() || !wire::ParseBatchRequest(pieces_, request)) {
    return false;
  }
  batch_.addresses = CountAddresses(request);
  return true;
}

BatchReply AnswerReply(const Snapshot& snapshot, const Kernel& kernel,
                       const Batch& batch) {
  const wire::ResponseShape shape = {
      .request_id = batch.request.request_id,
      .generation = snapshot.generation(),
      .addresses = batch.addresses,
      .prefix_lengths = batch.request.want_prefix_lengths};
  // Not grpc_slice_malloc: its small slices are stored inside the handle, so a
  // copy of the handle would not share the bytes that the kernel writes.
  grpc_slice slice = grpc_slice_malloc_large(wire::EncodedSize(shape));
  const wire::ResponseBody answers = wire::EncodeAround(
      shape, reinterpret_cast<char*>(GRPC_SLICE_START_PTR(slice)));
  const size_t misses = AnswerBatch(snapshot, kernel, batch, answers);
  const grpc::Slice owner(slice, grpc::Slice::STEAL_REF);
  char* const missing =
      snapshot.fib_options().prefix_lengths ? nullptr : answers.prefix_lengths;
  return {grpc::ByteBuffer(&owner, 1), missing, misses};
}

grpc::ByteBuffer ErrorReply(const absl::Status& error, uint64_t request_id,
                            uint64_t generation) {
  v1::BatchLookupResponse response;
  response.set_request_id(request_id);
  response.set_generation(generation);
  v1::BatchError& in_band = *response.mutable_error();
  in_band.set_code(static_cast<int>(error.code()));
  in_band.set_reason(ErrorReason(error));
  in_band.set_field(ErrorField(error));
  in_band.set_message(std::string(error.message()));
  const grpc::Slice owner(response.SerializeAsString());
  return grpc::ByteBuffer(&owner, 1);
}

}  // namespace planb::server
