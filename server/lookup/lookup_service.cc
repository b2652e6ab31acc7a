// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_service.h"

#include <sched.h>

#include <algorithm>

#include "base/monotonic_time.h"

namespace planb::server {
namespace {

size_t CoresAllowed() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  return std::max<size_t>(static_cast<size_t>(CPU_COUNT(&cpus)), 1);
}

}  // namespace

void LookupService::Register(const LookupThreads& threads,
                             grpc::ServerBuilder& builder) {
  builder.RegisterService(&service_);
  const size_t count = threads.count == 0 ? CoresAllowed() : threads.count;
  for (size_t i = 0; i < count; ++i) {
    QueueOptions options = {.spin = threads.spin};
    if (!threads.cpus.empty()) {
      options.cpu = threads.cpus[i % threads.cpus.size()];
    }
    workers_.push_back(std::make_unique<LookupWorker>(
        context_, service_, in_flight_, builder.AddCompletionQueue(), options));
  }
}

absl::Status LookupService::Start() {
  absl::Status status;
  for (const auto& worker : workers_) status.Update(worker->Start());
  return status;
}

void LookupService::Drain(SteadyInstant deadline) {
  for (const auto& worker : workers_) worker->Drain();
  in_flight_.AwaitIdle(deadline);
}

void LookupService::Shutdown() {
  for (const auto& worker : workers_) worker->Shutdown();
}

}  // namespace planb::server
