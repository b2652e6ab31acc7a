// SPDX-License-Identifier: Apache-2.0

// Clients that follow the table.

#ifndef PLANB_SERVER_TESTING_MODEL_WATCHER_H_
#define PLANB_SERVER_TESTING_MODEL_WATCHER_H_

#include <memory>
#include <string>

#include "planb/v1/route_table.grpc.pb.h"
#include "server/testing/model_reader.h"
#include "server/testing/model_run.h"
#include "server/testing/model_world.h"

namespace planb::server {

// Follows the table by watching alone, and by a list only when the server has
// forgotten where it was. Thread-compatible.
class ModelWatcher {
 public:
  ModelWatcher(ModelRun& run, int number);

  // Until the run stops and all its generations were seen.
  void Run();

 private:
  void Watch();

  ModelRun& run_;
  Random random_;
  ModelReader lists_;
  std::unique_ptr<v1::RouteTable::Stub> stub_;
  // The last complete generation and the digest of its routes.
  uint64_t generation_ = 0;
  std::string digest_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_WATCHER_H_
