// SPDX-License-Identifier: Apache-2.0

// The text of a scrape of one collectable, and lines and values in it.

#ifndef PLANB_SERVER_TESTING_SCRAPE_TEXT_H_
#define PLANB_SERVER_TESTING_SCRAPE_TEXT_H_

#include <gtest/gtest.h>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <string>

namespace planb::server {

inline std::string ScrapeText(const prometheus::Collectable& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.Collect());
}

inline testing::AssertionResult HasLine(const std::string& text,
                                        const std::string& line) {
  if (("\n" + text).find("\n" + line + "\n") != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no line \"" << line << "\" in\n"
                                     << text;
}

// The value of the family `name`, which has one series.
inline double ValueOf(const prometheus::Collectable& metrics,
                      const std::string& name) {
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    if (family.name != name) continue;
    EXPECT_EQ(family.metric.size(), 1U) << name;
    const prometheus::ClientMetric& metric = family.metric.at(0);
    return family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                          : metric.gauge.value;
  }
  ADD_FAILURE() << "no " << name;
  return -1;
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_SCRAPE_TEXT_H_
