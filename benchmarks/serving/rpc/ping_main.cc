// SPDX-License-Identifier: Apache-2.0

// One address, one call in flight, against any server of the contract.
//
//   ping_server --server=unix:///tmp/bare.sock --method=stream --wait=spin
//
// Prints one line of JSON.

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/process_setup.h"
#include "benchmarks/serving/rpc/ping.h"
#include "client/channel.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "planb/v1/route_lookup.pb.h"

ABSL_FLAG(std::string, server, "unix:///tmp/planb.sock", "The server.");
ABSL_FLAG(std::string, method, "unary",
          "unary (Lookup) or stream (BatchLookup).");
ABSL_FLAG(std::string, wait, "block", "block or spin: what the client does.");
ABSL_FLAG(bool, echo, false, "The reply has to be the request.");
ABSL_FLAG(double, seconds, 1, "How long to ask.");
ABSL_FLAG(double, warm_up_seconds, 0.2, "How long to ask before, unmeasured.");
ABSL_FLAG(int32_t, server_pid, 0,
          "The server's process, to tell its CPU time.");

namespace planb::rpc {
namespace {

int Refuse(const absl::Status& status) {
  absl::FPrintF(stderr, "ping_server: %s\n", std::string(status.message()));
  return 1;
}

// One answer, to a BatchLookup or to a Lookup.
absl::Status CheckReply(absl::string_view reply, bool stream) {
  const int size = static_cast<int>(reply.size());
  v1::BatchLookupResponse batch;
  v1::LookupResponse lookup;
  const bool right = stream ? batch.ParseFromArray(reply.data(), size) &&
                                  batch.next_hops().size() == sizeof(NextHopId)
                            : lookup.ParseFromArray(reply.data(), size) &&
                                  lookup.results_size() == 1;
  return right ? absl::OkStatus()
               : absl::DataLossError("the reply does not hold one answer");
}

int Main() {
  SetUpProcess();
  const std::string address = Address::Parse("2001:db8::1")->ToPacked();
  const std::string method = absl::GetFlag(FLAGS_method);
  const std::string wait = absl::GetFlag(FLAGS_wait);
  if ((method != "unary" && method != "stream") ||
      (wait != "block" && wait != "spin")) {
    return Refuse(absl::InvalidArgumentError(
        "--method is unary or stream, --wait is block or spin"));
  }
  PingOptions options = {
      .stream = method == "stream",
      .spin = wait == "spin",
      .warm_up = absl::Seconds(absl::GetFlag(FLAGS_warm_up_seconds)),
      .duration = absl::Seconds(absl::GetFlag(FLAGS_seconds))};
  if (options.stream) {
    v1::BatchLookupRequest request;
    request.set_request_id(1);
    request.set_addresses_v6(address);
    options.request = request.SerializeAsString();
  } else {
    v1::LookupRequest request;
    request.add_addresses()->set_packed(address);
    options.request = request.SerializeAsString();
  }
  options.check = [&options](absl::string_view reply) {
    if (!absl::GetFlag(FLAGS_echo)) return CheckReply(reply, options.stream);
    return reply == options.request
               ? absl::OkStatus()
               : absl::DataLossError("the reply is not the request");
  };
  const auto channel = client::MakeChannel(absl::GetFlag(FLAGS_server));
  if (!channel.ok()) return Refuse(channel.status());
  const auto result = Ping(*channel, options, absl::GetFlag(FLAGS_server_pid));
  if (!result.ok()) return Refuse(result.status());
  const auto us = [&](double quantile) {
    return absl::ToDoubleMicroseconds(result->latency.Quantile(quantile));
  };
  absl::PrintF(
      "{\"method\":\"%s\",\"wait\":\"%s\",\"seconds\":%.6f,\"calls\":%d,"
      "\"latency_us_p50\":%.2f,\"latency_us_p90\":%.2f,"
      "\"latency_us_p99\":%.2f,\"latency_us_p999\":%.2f,"
      "\"client_cpu_seconds\":%.6f,\"server_cpu_seconds\":%.6f}\n",
      method, wait, absl::ToDoubleSeconds(result->elapsed),
      result->latency.count(), us(0.5), us(0.9), us(0.99), us(0.999),
      result->client_cpu_seconds, result->server_cpu_seconds);
  return 0;
}

}  // namespace
}  // namespace planb::rpc

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("The latency of one address, one in flight.");
  absl::ParseCommandLine(argc, argv);
  return planb::rpc::Main();
}
