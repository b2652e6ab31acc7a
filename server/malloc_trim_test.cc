// SPDX-License-Identifier: Apache-2.0

#include "server/base/malloc_trim.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "server/observe/process_metrics.h"
#include "server/testing/scrape_text.h"

namespace planb::server {
namespace {

double Resident() {
  return ValueOf(ProcessMetrics(), "process_resident_memory_bytes");
}

TEST(Heap, WhatAFloodLeftIsGivenBack) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "ASan has a heap of its own";
#endif
  constexpr size_t kBytes = 256 << 20;
  constexpr size_t kPiece = 16 << 10;
  std::vector<std::unique_ptr<char[]>> pieces;
  for (size_t i = 0; i < kBytes / kPiece; ++i) {
    pieces.emplace_back(new char[kPiece]());
  }
  const double full = Resident();
  // One in 64 stays, so that the heap cannot just be cut off at its end.
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % 64 != 0) pieces[i].reset();
  }
  EXPECT_GT(FreeHeap(), kBytes / 2);
  TidyHeap();
  EXPECT_LT(Resident(), full - kBytes / 2.0);
}

}  // namespace
}  // namespace planb::server
