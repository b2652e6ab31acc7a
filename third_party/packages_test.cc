// SPDX-License-Identifier: Apache-2.0

// Every packaged library links, and is the version this tree was written for.

#include <benchmark/benchmark.h>
#include <bzlib.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <openssl/crypto.h>
#include <prometheus/registry.h>
#include <simdjson.h>
#include <sqlite3.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include "absl/strings/match.h"

namespace {

TEST(Packages, AreTheVersionsThisTreeWasWrittenFor) {
  EXPECT_TRUE(absl::StartsWith(grpc::Version(), "1.51.")) << grpc::Version();
  EXPECT_EQ(GOOGLE_PROTOBUF_VERSION / 1000, 3021);
  EXPECT_TRUE(absl::StartsWith(sqlite3_libversion(), "3."));
  EXPECT_EQ(int{simdjson::SIMDJSON_VERSION_MAJOR}, 3);
  EXPECT_TRUE(absl::StartsWith(zlibVersion(), "1."));
  EXPECT_TRUE(absl::StartsWith(BZ2_bzlibVersion(), "1."));
  EXPECT_TRUE(absl::StartsWith(lzma_version_string(), "5."));
  EXPECT_TRUE(absl::StartsWith(ZSTD_versionString(), "1."));
  EXPECT_EQ(OPENSSL_version_major(), 3U);
  EXPECT_GE(XXH_versionNumber(), 800U);
}

TEST(Packages, PrometheusRegistryCollects) {
  prometheus::Registry registry;
  EXPECT_TRUE(registry.Collect().empty());
}

}  // namespace
