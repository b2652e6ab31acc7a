#include "benchmarks/rivals/huge_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace planb {
namespace {

TEST(HugeArray, IsZeroedAndAligned) {
  for (size_t size : {size_t{1}, size_t{1000}, size_t{3} << 20}) {
    HugeArray<uint64_t> array(size);
    EXPECT_EQ(array.size(), size);
    EXPECT_EQ(array.bytes(), 8 * size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % (2 << 20), 0U);
    EXPECT_TRUE(std::all_of(array.begin(), array.end(),
                            [](uint64_t value) { return value == 0; }));
    array[size - 1] = 1;  // the last octet is there
    EXPECT_EQ(*(array.end() - 1), 1U);
  }
}

TEST(HugeArray, MovesAndEmpties) {
  HugeArray<uint32_t> from(5);
  from[4] = 7;
  const uint32_t* const data = from.data();
  HugeArray<uint32_t> to;
  EXPECT_EQ(to.data(), nullptr);
  to = std::move(from);
  EXPECT_EQ(to.data(), data);
  const HugeArray<uint32_t> last(std::move(to));
  EXPECT_EQ(last[4], 7U);
  EXPECT_EQ(HugeArray<char>(0).size(), 0U);
}

}  // namespace
}  // namespace planb
