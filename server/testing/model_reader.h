// SPDX-License-Identifier: Apache-2.0

// Clients that look at the table all the time, in every way there is.

#ifndef PLANB_SERVER_TESTING_MODEL_READER_H_
#define PLANB_SERVER_TESTING_MODEL_READER_H_

#include <memory>
#include <string>

#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/testing/model_history.h"
#include "server/testing/model_run.h"
#include "server/testing/model_world.h"

namespace planb::server {

// Thread-compatible: a thread has one of its own.
class ModelReader {
 public:
  // REQUIRES, as below: `run` outlives it.
  ModelReader(ModelRun& run, int number);

  // Until the run stops.
  void Run();

  // ListRoutes; false if it failed.
  bool List(ListCall& call);
  // GetTable.
  bool State(StateCall& call);

 private:
  void Stream();
  void Lookup();
  void GetRoute();
  void Explain();

  ModelRun& run_;
  Random random_;
  std::unique_ptr<v1::RouteLookup::Stub> lookup_;
  std::unique_ptr<v1::RouteTable::Stub> table_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_READER_H_
