// SPDX-License-Identifier: Apache-2.0

// What the server does for a batch beside the search itself, in instructions:
// reading the request where it lies, making the reply, counting misses. It must
// stay what it is here, within a tolerance, and must not grow with the number
// of addresses other than by counting misses and by pieces. After a change that
// is meant, the failure's message has the figures to record.

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

// gRPC cuts messages about here: the payload of an HTTP/2 frame.
constexpr size_t kPiece = 16384;

struct Golden {
  size_t addresses;
  // Instructions for the whole batch, the search itself not counted.
  double around;
};
constexpr Golden kGolden[] = {
    {1, 1682},
    {256, 2432},
    {4096, 8601},
    {16384, 27950},
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
  // Its share is subtracted, so that any kernel gives the same.
  const Kernel& kernel = *AvailableKernels().front();
  for (const Golden& golden : kGolden) {
    v1::BatchLookupRequest request;
    request.set_request_id(1);
    request.set_addresses_v6(RandomAddresses(golden.addresses));
    grpc::ByteBuffer message = InPieces(request.SerializeAsString());
    BatchReader reader;
    const auto whole = [&] {
      size_t misses = 0;
      ASSERT_TRUE(reader.Read(message));
      AnswerReply(*snapshot, kernel, reader.batch(), misses);
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
    whole();
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
