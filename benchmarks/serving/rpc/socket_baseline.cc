// SPDX-License-Identifier: Apache-2.0

// The speed of a lookup service without gRPC on this machine: a bare socket
// that carries addresses and next hops, with the same lookup behind it.
//
//   socket_baseline --table=real --listen=unix:///tmp/s
//   socket_baseline --table=real --connect=unix:///tmp/s --batch=4096
//
// One server serves many runs, taken in turns with others; compare.py does.

#include <poll.h>
#include <sys/types.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/serving/rpc/exchange.h"
#include "client/load/bench.h"
#include "client/load/trace.h"
#include "lpm/fib/fib.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/traffic.h"

ABSL_FLAG(std::string, table, "real", "as benchmarks/engine/inputs.h has them");
ABSL_FLAG(std::vector<std::string>, listen, {},
          "Only serve, on these addresses: unix:///path or a.b.c.d:port.");
ABSL_FLAG(std::string, connect, "", "Only ask, at this address.");
ABSL_FLAG(uint32_t, batch, 4096, "Addresses a batch.");
ABSL_FLAG(bool, upper, false, "The upper halves of addresses, 8 bytes each.");
ABSL_FLAG(bool, check, false, "First check the answer to every address.");
ABSL_FLAG(uint32_t, depth, 1, "Batches on the way; 1 is ping-pong.");
ABSL_FLAG(bool, spin, false,
          "Both ends ask again and again for bytes instead of sleeping.");
ABSL_FLAG(double, seconds, 1, "How long to ask.");
ABSL_FLAG(double, warm_up_seconds, 0.2, "How long to ask before, unmeasured.");
ABSL_FLAG(int32_t, server_pid, 0,
          "With --connect: the server's process, to tell its CPU time.");

namespace planb::rpc {
namespace {

constexpr size_t kTraceAddresses = 1 << 20;

[[noreturn]] void Die(const absl::Status& status) {
  absl::FPrintF(stderr, "socket_baseline: %s\n", std::string(status.message()));
  std::exit(1);
}

void OrDie(const absl::Status& status) {
  if (!status.ok()) Die(status);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status());
  return *std::move(value);
}

Waiting WaitingFromFlags() {
  return absl::GetFlag(FLAGS_spin) ? Waiting::kSpin : Waiting::kBlock;
}

// One connection after the other, whichever listener it comes from.
[[noreturn]] void Serve(const std::vector<Socket>& listeners,
                        const std::vector<Route>& routes) {
  const std::unique_ptr<const Fib> fib =
      Fib::Build(Family::kIpv6, routes).value();
  std::vector<pollfd> polled;
  for (const Socket& listener : listeners) {
    polled.push_back({.fd = listener.fd(), .events = POLLIN, .revents = 0});
  }
  for (;;) {
    poll(polled.data(), polled.size(), -1);
    for (size_t i = 0; i < polled.size(); ++i) {
      if ((polled[i].revents & POLLIN) == 0) continue;
      const auto socket = Accept(listeners[i]);
      if (!socket.ok()) continue;  // gone again
      const absl::Status served =
          ServeExchange(*socket, AnswersOf(*fib), WaitingFromFlags());
      if (!served.ok()) {
        absl::FPrintF(stderr, "socket_baseline: %s\n",
                      std::string(served.message()));
      }
    }
  }
}

void Report(const ExchangeResult& result, absl::Duration client_cpu,
            absl::Duration server_cpu) {
  const auto us = [&](double quantile) {
    return absl::ToDoubleMicroseconds(result.latency.Quantile(quantile));
  };
  const double seconds = absl::ToDoubleSeconds(result.elapsed);
  absl::PrintF(
      "{%s\"seconds\":%.6f,\"lookups\":%d,"
      "\"latency_us_p50\":%.2f,\"latency_us_p99\":%.2f,"
      "\"client_cpu_seconds\":%.6f,\"server_cpu_seconds\":%.6f}\n",
      absl::GetFlag(FLAGS_check) ? "\"mismatches\":0," : "", seconds,
      result.batches * absl::GetFlag(FLAGS_batch), us(0.5), us(0.99),
      absl::ToDoubleSeconds(client_cpu), absl::ToDoubleSeconds(server_cpu));
}

void Ask(const std::string& address, const std::vector<Route>& routes,
         pid_t server) {
  const client::Trace trace = OrDie(client::MakeTrace(
      TraceKind::kMatch, Family::kIpv6, routes, kTraceAddresses, /*seed=*/1,
      absl::GetFlag(FLAGS_batch),
      absl::GetFlag(FLAGS_upper) ? client::AddressForm::kUpper
                                 : client::AddressForm::kFull));
  ExchangeClient client = OrDie(ExchangeClient::Start(
      OrDie(ConnectTo(address)), trace, WaitingFromFlags()));
  if (absl::GetFlag(FLAGS_check)) {
    OrDie(client.Check(trace.Expect(ReferenceTable(routes))));
  }
  const size_t depth = absl::GetFlag(FLAGS_depth);
  OrDie(client.Run(depth, absl::Seconds(absl::GetFlag(FLAGS_warm_up_seconds))));
  const absl::Duration client_before = OrDie(client::CpuTimeOf(0));
  const absl::Duration server_before = OrDie(client::CpuTimeOf(server));
  const ExchangeResult result =
      OrDie(client.Run(depth, absl::Seconds(absl::GetFlag(FLAGS_seconds))));
  Report(result, OrDie(client::CpuTimeOf(0)) - client_before,
         OrDie(client::CpuTimeOf(server)) - server_before);
}

int Main() {
  const std::vector<Route> routes =
      OrDie(MakeIpv6Routes(absl::GetFlag(FLAGS_table)));
  if (absl::GetFlag(FLAGS_batch) == 0 || absl::GetFlag(FLAGS_depth) == 0 ||
      absl::GetFlag(FLAGS_batch) > kTraceAddresses) {
    Die(absl::InvalidArgumentError(
        "--batch is 1..1048576 and --depth at least 1"));
  }
  const std::vector<std::string> addresses = absl::GetFlag(FLAGS_listen);
  const std::string target = absl::GetFlag(FLAGS_connect);
  if (addresses.empty() == target.empty()) {
    Die(absl::InvalidArgumentError("give either --listen or --connect"));
  }
  if (!target.empty()) {
    Ask(target, routes, absl::GetFlag(FLAGS_server_pid));
    return 0;
  }
  std::vector<Socket> listeners;
  for (const std::string& address : addresses) {
    listeners.push_back(OrDie(ListenOn(address)));
  }
  Serve(listeners, routes);
}

}  // namespace
}  // namespace planb::rpc

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "The rate of lookups through a bare socket. Prints one line of JSON.");
  absl::ParseCommandLine(argc, argv);
  return planb::rpc::Main();
}
