// SPDX-License-Identifier: Apache-2.0

#include "server/testing/stored_server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "follow/convert.h"
#include "lpm/routes/table_digest.h"
#include "server/testing/http_get.h"

namespace planb::server {
namespace {

std::string NextSocket() {
  static int count = 0;
  return TempPath(absl::StrCat("stored", ++count, ".sock"));
}

std::vector<std::string> Flags(const std::string& socket,
                               const std::string& store,
                               std::vector<std::string> more) {
  std::vector<std::string> flags = {
      absl::StrCat("--listen=unix://", socket),
      "--metrics_address=", absl::StrCat("--store=", store)};
  // A later flag overrides an earlier one.
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

void SetDeadline(grpc::ClientContext& call) {
  call.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
}

}  // namespace

StoredServer::StoredServer(const std::string& store,
                           std::vector<std::string> more,
                           std::vector<std::string> environment)
    : socket_(NextSocket()),
      process_(Flags(socket_, store, std::move(more)), std::move(environment)),
      channel_(grpc::CreateChannel(absl::StrCat("unix://", socket_),
                                   grpc::InsecureChannelCredentials())),
      table_(v1::RouteTable::NewStub(channel_)),
      lookup_(v1::RouteLookup::NewStub(channel_)) {}

StoredServer::~StoredServer() { unlink(socket_.c_str()); }

bool StoredServer::Begins() const {
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    // WNOWAIT leaves the exit status to process_.
    siginfo_t ended = {};
    const int looked = waitid(P_PID, static_cast<id_t>(process_.pid()), &ended,
                              WEXITED | WNOHANG | WNOWAIT);
    if (absl::StrContains(process_.Log(), " serving\n")) return true;
    if (looked != 0 || ended.si_pid != 0) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

grpc::Status StoredServer::Update(const v1::UpdateRoutesRequest& request,
                                  v1::UpdateRoutesResponse* response) const {
  grpc::ClientContext call;
  SetDeadline(call);
  v1::UpdateRoutesResponse unused;
  return table_->UpdateRoutes(&call, request,
                              response == nullptr ? &unused : response);
}

v1::Table StoredServer::State() const {
  grpc::ClientContext call;
  SetDeadline(call);
  v1::Table state;
  const grpc::Status status = table_->GetTable(&call, {}, &state);
  EXPECT_TRUE(status.ok()) << status.error_message() << process_.Log();
  return state;
}

Listed StoredServer::List() const {
  grpc::ClientContext call;
  SetDeadline(call);
  const auto reader = table_->ListRoutes(&call, {});
  Listed listed;
  TableDigest digest;
  v1::ListRoutesResponse chunk;
  while (reader->Read(&chunk)) {
    listed.generation = chunk.generation();
    for (const v1::Route& route : chunk.routes()) {
      const absl::StatusOr<Prefix> prefix = FromProto(route.prefix());
      EXPECT_TRUE(prefix.ok()) << prefix.status();
      if (!prefix.ok()) continue;
      digest.Add(Route{*prefix, route.next_hop_id()});
      EXPECT_TRUE(listed.routes.emplace(*prefix, route.next_hop_id()).second)
          << prefix->ToString() << " twice";
    }
  }
  grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::ClientContext second;
  SetDeadline(second);
  const auto objects = table_->ListNextHops(&second, {});
  v1::ListNextHopsResponse some;
  while (objects->Read(&some)) {
    EXPECT_EQ(some.generation(), listed.generation);
    for (const v1::NextHop& next_hop : some.next_hops()) {
      digest.Add(FromProto(next_hop).value());
    }
    for (const v1::NextHopGroup& group : some.groups()) {
      digest.Add(FromProto(group).value());
    }
  }
  status = objects->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  listed.digest = digest.ToString();
  return listed;
}

NextHopId StoredServer::Lookup(absl::string_view address,
                               uint64_t generation) const {
  grpc::ClientContext call;
  SetDeadline(call);
  v1::LookupRequest request;
  request.set_min_generation(generation);
  request.add_addresses()->set_text(std::string(address));
  v1::LookupResponse response;
  const grpc::Status status = lookup_->Lookup(&call, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.results_size() == 1 ? response.results(0).next_hop_id() : 0;
}

double StoredServer::Metric(absl::string_view name) const {
  const std::string page = HttpGet(process_.AwaitPortOf("metrics"), "/metrics");
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, name) && absl::ConsumePrefix(&line, " ") &&
        absl::SimpleAtod(absl::StripAsciiWhitespace(line), &value)) {
      return value;
    }
  }
  return -1;
}

void AddChange(absl::string_view prefix, NextHopId next_hop,
               v1::UpdateRoutesRequest& request) {
  v1::RouteUpdate& update = *request.add_updates();
  update.set_op(next_hop == kNoRoute ? v1::RouteUpdate::OP_DELETE
                                     : v1::RouteUpdate::OP_UPSERT);
  update.mutable_prefix()->set_text(std::string(prefix));
  update.set_next_hop_id(next_hop);
}

v1::UpdateRoutesRequest Announcement(uint32_t first, uint32_t count,
                                     NextHopId next_hop) {
  v1::UpdateRoutesRequest request;
  request.set_ack(v1::ACK_VISIBLE);
  for (uint32_t i = first; i < first + count; ++i) {
    AddChange(absl::StrFormat("2001:db8:%x::/48", i), next_hop, request);
  }
  return request;
}

std::string OneLine(const ServerProcess& process) {
  std::vector<std::string> refusals;
  const std::string log = process.Log();
  for (absl::string_view line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    // Log lines begin with the date.
    if (!absl::ascii_isdigit(static_cast<unsigned char>(line[0]))) {
      refusals.emplace_back(line);
    }
  }
  EXPECT_EQ(refusals.size(), 1U) << log;
  EXPECT_TRUE(absl::EndsWith(
      log, absl::StrCat(refusals.empty() ? "" : refusals[0], "\n")))
      << log;
  return refusals.size() == 1 ? refusals[0] : "";
}

}  // namespace planb::server
