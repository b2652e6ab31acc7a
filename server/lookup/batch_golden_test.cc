// SPDX-License-Identifier: Apache-2.0

// The instructions that the server needs for a batch besides the search:
// reading the request, making the reply, counting misses. Their number must
// stay within a tolerance of the recorded one. It grows with the number of
// addresses only by counting misses and by pieces. After an intended change,
// record the numbers in the failure's message.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/instruction_count.h"
#include "server/lookup/batch.h"
#include "server/testing/make_snapshot.h"

namespace planb::server {
namespace {

// The payload of an HTTP/2 frame, at which gRPC cuts messages.
constexpr size_t kPiece = 16384;

struct Golden {
  size_t addresses;
  // Instructions for the whole batch without the search.
  double around;
};
constexpr Golden kGolden[] = {
    {1, 1664},
    {256, 2409},
    {4096, 8553},
    {16384, 27932},
};
constexpr double kTolerance = 0.05;

std::unique_ptr<const Snapshot> SmallTable() {
  return MakeSnapshot(1, SyntheticTable({.ipv6_routes = 1000}));
}

std::string RandomAddresses(size_t count) {
  Random random(1);
  std::string bytes(count * 16, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next());
  return bytes;
}

grpc::ByteBuffer InPieces(const std::string& message) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < message.size(); at += kPiece) {
    slices.emplace_back(message.data() + at,
                        std::min(kPiece, message.size() - at));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

TEST(BatchGolden, InstructionsAroundTheSearch) {
  const auto snapshot = SmallTable();
  // The search is subtracted, so the kernel does not matter.
  const Kernel& kernel = *AvailableKernels().front();
  for (const Golden& golden : kGolden) {
    v1::BatchLookupRequest request;
    request.set_request_id(1);
    request.set_addresses_v6(RandomAddresses(golden.addresses));
    grpc::ByteBuffer message = InPieces(request.SerializeAsString());
    BatchReader reader;
    const auto whole = [&] {
      ASSERT_TRUE(reader.Read(message));
      AnswerReply(*snapshot, kernel, reader.batch());
    };
    std::vector<char> next_hops(golden.addresses * sizeof(NextHopId));
    const auto search = [&] {
      char* to = next_hops.data();
      reader.batch().request.addresses_v6.ForEachRun<16>(
          [&](const char* run, size_t count) {
            snapshot->fib(Family::kIpv6).Lookup(run, count, to, kernel);
            to += count * sizeof(NextHopId);
          });
    };
    // Until the heap has pieces of the sizes that a batch takes: whether it has
    // one at first depends on what the libraries did when they were loaded.
    for (int i = 0; i < 8; ++i) whole();
    search();
    const auto all = CountInstructions(whole);
    if (!all.ok()) GTEST_SKIP() << all.status();
    const auto searching = CountInstructions(search);
    ASSERT_TRUE(searching.ok());
    const double around = static_cast<double>(*all - *searching);
    EXPECT_NEAR(around, golden.around, golden.around * kTolerance)
        << absl::StrCat("    {", golden.addresses, ", ", around, "},");
    RecordProperty(absl::StrCat("around_", golden.addresses),
                   absl::StrCat(around));
  }
}

}  // namespace
}  // namespace planb::server
