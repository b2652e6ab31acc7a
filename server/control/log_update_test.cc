// SPDX-License-Identifier: Apache-2.0

#include "server/control/log_update.h"

#include <gtest/gtest.h>

#include <map>

#include "server/base/error.h"

namespace planb::server {
namespace {

// The span of an update with these texts, which ended with `status`.
Span Traced(absl::string_view table, absl::string_view request_id,
            const absl::Status& status) {
  Tracer tracer(0);
  const UpdateLog log(&tracer);
  const grpc::ServerContext call;
  UpdateName update = log.Begin("UpdateRoutes", call);
  log.Name(table, request_id, update);
  log.Trace(std::move(update), status, nullptr, absl::InfinitePast());
  std::vector<Span> spans = tracer.Take(2);
  EXPECT_EQ(spans.size(), 1U);
  return spans.front();
}

std::map<std::string, std::string> Texts(const Span& span) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : span.attributes) {
    texts[key] = std::get<std::string>(value);
  }
  return texts;
}

TEST(UpdateLog, ASpanNamesTheUpdateAndWhyItWasRefused) {
  const Span span = Traced("red", "id 1",
                           Error(absl::StatusCode::kNotFound, "TABLE_NOT_FOUND",
                                 "there is no table"));
  EXPECT_EQ(span.name, "planb.v1.RouteTable/UpdateRoutes");
  EXPECT_EQ(span.status, absl::NotFoundError("there is no table"));
  EXPECT_EQ(Texts(span), (std::map<std::string, std::string>{
                             {"rpc.system", "grpc"},
                             {"rpc.service", "planb.v1.RouteTable"},
                             {"rpc.method", "UpdateRoutes"},
                             {"planb.table", "red"},
                             {"planb.request_id", "id 1"},
                             {"planb.reason", "TABLE_NOT_FOUND"}}));
  EXPECT_EQ(Texts(Traced("", "", absl::OkStatus()))["planb.table"], "default");
}

// 4,096 spans may wait for a collector.
TEST(UpdateLog, ASpanKeepsLittleOfWhatACallerSent) {
  const std::string huge(1 << 20, 'x');
  const Span span = Traced(huge, huge, absl::InvalidArgumentError(huge));
  EXPECT_EQ(Texts(span)["planb.table"], std::string(128, 'x'));
  EXPECT_EQ(Texts(span)["planb.request_id"], std::string(128, 'x'));
  EXPECT_EQ(span.status, absl::InvalidArgumentError(std::string(512, 'x')));
}

}  // namespace
}  // namespace planb::server
