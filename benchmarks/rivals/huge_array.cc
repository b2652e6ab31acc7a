// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/rivals/huge_array.h"

#include <sys/mman.h>

#include <cstdint>

#include "absl/base/internal/raw_logging.h"

namespace planb {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

constexpr uintptr_t RoundUp(uintptr_t value) {
  return (value + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

HugeBuffer::HugeBuffer(size_t bytes) {
  if (bytes == 0) return;
  // One page more than needed, so that an aligned stretch is inside.
  mapped_ = RoundUp(bytes) + kHugePage;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ABSL_RAW_CHECK(mapping_ != MAP_FAILED, "no memory for a huge array");
  data_ =
      reinterpret_cast<void*>(RoundUp(reinterpret_cast<uintptr_t>(mapping_)));
  // A kernel without huge pages refuses; small ones do as well.
  madvise(data_, RoundUp(bytes), MADV_HUGEPAGE);
}

HugeBuffer::~HugeBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

}  // namespace planb
