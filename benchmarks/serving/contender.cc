#include "benchmarks/serving/contender.h"

#include <grpcpp/grpcpp.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace planb::metrics {
namespace {

using client::BatchStream;
using std::chrono::steady_clock;

constexpr size_t kAddressOctets = 16;

double CpuNanoseconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e9 +
         static_cast<double>(time.tv_nsec);
}

double OthersCpu() {
  return CpuNanoseconds(CLOCK_PROCESS_CPUTIME_ID) -
         CpuNanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

size_t Depth(size_t batch) { return std::clamp<size_t>(32'768 / batch, 3, 64); }

}  // namespace

void Die(const absl::Status& status) {
  std::fprintf(stderr, "cost: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

Contender::Contender(const char* name, const ServerChoice& choice,
                     bool counting)
    : name_(name),
      path_(absl::StrCat("/tmp/planb_cost_", getpid(), "_", name, ".sock")) {
  server::ServerOptions options;
  options.listen = {absl::StrCat("unix://", path_)};
  options.initial.generate_v6 = choice.routes;
  options.threads.count = 1;
  if (choice.cpu >= 0) options.threads.cpus = {choice.cpu};
  options.count_lookups = counting;
  auto started = server::Server::Start(std::move(options));
  if (!started.ok()) Die(started.status());
  server_ = *std::move(started);
  channel_ = grpc::CreateChannel(absl::StrCat("unix://", path_),
                                 grpc::InsecureChannelCredentials());
}

Contender::~Contender() {
  server_.reset();
  unlink(path_.c_str());
}

Contender::Times Contender::Ask(const std::string& trace, const Turn& turn) {
  BatchStream stream(channel_, {.max_in_flight = Depth(turn.batch)});
  if (turn.count == 0) {  // to warm up
    Exchange(stream, trace,
             {.batch = turn.batch, .duration = turn.duration / 8});
  }
  const auto start = steady_clock::now();
  const double cpu = OthersCpu();
  const auto batches = static_cast<double>(Exchange(stream, trace, turn));
  const double cpu_used = OthersCpu() - cpu;
  const std::chrono::nanoseconds took = steady_clock::now() - start;
  const absl::Status ended = stream.Finish();
  if (!ended.ok()) Die(ended);
  return {static_cast<double>(took.count()) / batches, cpu_used / batches};
}

uint64_t Contender::Exchange(BatchStream& stream, const std::string& trace,
                             const Turn& turn) {
  const auto end = steady_clock::now() + turn.duration;
  client::BatchResult result;
  uint64_t sent = 0;
  uint64_t answered = 0;
  size_t at = 0;
  bool more = true;
  while (more || stream.in_flight() > 0) {
    if (more && stream.in_flight() < Depth(turn.batch)) {
      const absl::string_view addresses(trace.data() + at,
                                        turn.batch * kAddressOctets);
      at += addresses.size();
      if (at + addresses.size() > trace.size()) at = 0;
      const auto id = stream.Send({.addresses_v6 = addresses});
      if (!id.ok()) Die(id.status());
      ++sent;
    } else {
      const auto received = stream.Receive(result);
      if (!received.ok()) Die(received.status());
      if (!result.status.ok()) Die(result.status);
      ++answered;
    }
    more = turn.count > 0
               ? sent < turn.count
               : more && (answered == 0 || steady_clock::now() < end);
  }
  return answered;
}

}  // namespace planb::metrics
