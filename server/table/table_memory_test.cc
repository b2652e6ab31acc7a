// SPDX-License-Identifier: Apache-2.0

// Replaces operator new: every allocation of an update fails in turn. The table
// must then be as before or have the whole update, and take further updates.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/table/table.h"
#include "server/testing/fake_store.h"

namespace planb::server {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();
// How many allocations of this thread succeed before one fails.
thread_local size_t granted = kAll;

void* Allocate(size_t size, size_t alignment) {
  if (granted == 0) throw std::bad_alloc();
  if (granted != kAll) --granted;
  void* const block =
      std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
  if (block == nullptr) std::abort();
  return block;
}

}  // namespace
}  // namespace planb::server

void* operator new(size_t size) {
  return planb::server::Allocate(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return planb::server::Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept {
  std::free(block);
}
void operator delete(void* block, size_t, std::align_val_t) noexcept {
  std::free(block);
}

namespace planb::server {
namespace {

// An update of everything that an update can have.
UpdateBatch Everything(NextHopId n) {
  UpdateBatch batch;
  for (uint32_t i = 0; i < 300; ++i) {
    batch.changes.push_back({RouteChange::Op::kUpsert,
                             Prefix::Truncate(Address::V4(i << 16), 16), n});
  }
  batch.next_hops = {{.id = n,
                      .interface = "an interface",
                      .label = "a label of some length"}};
  batch.groups = {{.id = 1'000'000 + n, .members = {{n, 1}}, .label = "group"}};
  batch.request_id = absl::StrCat("a request with a long name ", n);
  batch.fingerprint = n;
  batch.writer_epoch = n;
  return batch;
}

// Lets the first, second ... allocation of Submit fail until none does.
void FailEachAllocation(TableOptions options) {
  Table table(std::move(options));
  ASSERT_TRUE(table.Apply(Everything(1)).ok());
  uint64_t accepted = 1;
  size_t failures = 0;
  for (size_t n = 0;; ++n) {
    const auto next = static_cast<NextHopId>(accepted + 1);
    const UpdateBatch batch = Everything(next);
    const std::string digest = table.state().digest;
    bool failed = false;
    try {
      granted = n;
      std::future<Table::Outcome> outcome = table.Submit(batch);
      granted = kAll;
      const Table::Outcome answer = outcome.get();
      if (answer.ok()) {
        ASSERT_EQ(answer->generation, next);
      } else {
        ASSERT_EQ(ErrorReason(answer.status()), "MEMORY_LIMIT");
        failed = true;
        ++failures;
      }
    } catch (const std::bad_alloc&) {
      granted = kAll;
      failed = true;
      ++failures;
    }
    if (failed) {
      ASSERT_EQ(table.state().accepted, accepted) << "allocation " << n;
      ASSERT_EQ(table.state().digest, digest);
    } else {
      accepted = next;
    }
    // The table goes on, also with the batch that failed.
    const Table::Outcome again = table.Apply(batch);
    ASSERT_TRUE(again.ok()) << "allocation " << n << ": " << again.status();
    ASSERT_EQ(again->generation, next);
    accepted = next;
    ASSERT_TRUE(table.AwaitVisible(next).ok());
    if (!failed) break;
  }
  EXPECT_GT(failures, 20U);
}

TEST(TableMemory, AnUpdateThatFindsNoMemoryChangesNothing) {
  FailEachAllocation({});
}

TEST(TableMemory, AnUpdateThatFindsNoMemoryIsNotStored) {
  FakeStore store;
  FailEachAllocation({.store = &store});
  for (size_t i = 0; i < store.commits.size(); ++i) {
    ASSERT_EQ(store.commits[i].size(), 1U);
    ASSERT_EQ(store.commits[i][0].delta->generation, i + 1);
  }
}

}  // namespace
}  // namespace planb::server
