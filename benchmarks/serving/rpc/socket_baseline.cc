// SPDX-License-Identifier: Apache-2.0

// The speed of a lookup service without gRPC on this machine: a bare socket
// that carries addresses and next hops, with the same lookup behind it.
//
//   socket_baseline --routes=FILE --listen=unix:///tmp/s
//   socket_baseline --routes=FILE --connect=unix:///tmp/s --batch=4096
//
// One server serves many runs, taken in turns with others; compare.py does.

#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

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
#include "benchmarks/engine/machine.h"
#include "benchmarks/serving/rpc/exchange.h"
#include "benchmarks/serving/rpc/workload.h"

ABSL_FLAG(std::string, routes, "", "The table: a file of any format known.");
ABSL_FLAG(uint64_t, generate, 0, "Or so many IPv6 routes made up.");
ABSL_FLAG(std::vector<std::string>, listen, {},
          "Only serve, on these addresses: unix:///path or a.b.c.d:port.");
ABSL_FLAG(std::string, connect, "", "Only ask, at this address.");
ABSL_FLAG(uint32_t, batch, 4096, "Addresses a batch.");
ABSL_FLAG(std::string, form, "full", "full (16 bytes) or upper (8 bytes).");
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
// Of as many batches every answer is checked before anything is timed.
constexpr size_t kCheckedBatches = 1000;

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
  const Answerer answerer = [&fib](AddressForm form, const char* addresses,
                                   size_t count, char* next_hops) {
    Answer(*fib, form, addresses, count, next_hops);
  };
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
          ServeExchange(*socket, answerer, WaitingFromFlags());
      if (!served.ok()) {
        absl::FPrintF(stderr, "socket_baseline: %s\n",
                      std::string(served.message()));
      }
    }
  }
}

void Report(const ExchangeResult& result, double client_cpu,
            double server_cpu) {
  const auto us = [&](double quantile) {
    return absl::ToDoubleMicroseconds(result.latency.Quantile(quantile));
  };
  const double seconds = absl::ToDoubleSeconds(result.elapsed);
  const double lookups =
      static_cast<double>(result.batches) * absl::GetFlag(FLAGS_batch);
  absl::PrintF(
      "{\"form\":\"%s\",\"batch\":%d,\"depth\":%d,\"seconds\":%.6f,\"batches\":"
      "%d,\"lookups\":%.0f,"
      "\"lookups_per_second\":%.0f,\"latency_us_p50\":%.2f,"
      "\"latency_us_p99\":%.2f,\"latency_us_p999\":%.2f,"
      "\"client_cpu_seconds\":%.6f,\"server_cpu_seconds\":%.6f}\n",
      absl::GetFlag(FLAGS_form), absl::GetFlag(FLAGS_batch),
      absl::GetFlag(FLAGS_depth), seconds, result.batches, lookups,
      lookups / seconds, us(0.5), us(0.99), us(0.999), client_cpu, server_cpu);
}

void Ask(const std::string& address, const std::vector<Route>& routes,
         pid_t server) {
  const AddressForm form = OrDie(ParseAddressForm(absl::GetFlag(FLAGS_form)));
  const size_t batch = absl::GetFlag(FLAGS_batch);
  const std::string trace = PackedTrace(routes, form, kTraceAddresses);
  Socket socket = OrDie(ConnectTo(address));
  ExchangeClient client = OrDie(ExchangeClient::Start(
      std::move(socket), form, batch, WaitingFromFlags()));
  const absl::string_view checked =
      absl::string_view(trace).substr(0, kCheckedBatches * batch * Width(form));
  OrDie(client.Check(checked, ExpectedAnswers(routes, form, checked)));
  const size_t depth = absl::GetFlag(FLAGS_depth);
  OrDie(client.Run(trace, depth,
                   absl::Seconds(absl::GetFlag(FLAGS_warm_up_seconds))));
  const double client_before = CpuSecondsOf(getpid());
  const double server_before = CpuSecondsOf(server);
  const ExchangeResult result = OrDie(
      client.Run(trace, depth, absl::Seconds(absl::GetFlag(FLAGS_seconds))));
  Report(result, CpuSecondsOf(getpid()) - client_before,
         CpuSecondsOf(server) - server_before);
}

int Main() {
  const std::vector<Route> routes = OrDie(
      LoadRoutes(absl::GetFlag(FLAGS_routes), absl::GetFlag(FLAGS_generate)));
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
