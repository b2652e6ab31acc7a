// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_service.h"

#include "base/cpu_list.h"
#include "base/monotonic_time.h"

namespace planb::server {
void LookupService::Register(const LookupThreads& threads,
                             grpc::ServerBuilder& builder) {
  builder.RegisterService(&service_);
  size_t count = threads.count;
  if (count == 0) count = threads.cpus.size();
  if (count == 0) count = UsableCpus();
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
