// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/statistics.h"

#include <algorithm>

namespace planb {
Percentiles PercentilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  // Integers: 0.9 * 10 need not be 9.
  const auto rank = [&](size_t thousandths) {
    const size_t at = (values.size() * thousandths + 999) / 1000;
    return values[at - 1];
  };
  return {.count = values.size(),
          .median = rank(500),
          .p90 = rank(900),
          .p99 = rank(990),
          .p999 = rank(999),
          .max = values.back()};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace planb
