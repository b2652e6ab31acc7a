// SPDX-License-Identifier: Apache-2.0

// A client that changes the table at random in every way there is, and repeats
// what it does not know the outcome of.

#ifndef PLANB_SERVER_TESTING_MODEL_WRITER_H_
#define PLANB_SERVER_TESTING_MODEL_WRITER_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "planb/v1/route_table.grpc.pb.h"
#include "server/testing/model_history.h"
#include "server/testing/model_run.h"
#include "server/testing/model_world.h"

namespace planb::server {

// Thread-compatible: a thread has one of its own.
class ModelWriter {
 public:
  // REQUIRES: `run` outlives it; no other writer of the run has this number.
  ModelWriter(ModelRun& run, int number);

  // Until the run stops.
  void Run();

 private:
  // Makes up one call.
  WriteCall Invent();
  void AddTerms(WriteCall& call);
  std::string NewRequestId();

  // Whether the server surely knows a request id that was given out after the
  // run's first `since`.
  bool Remembered(uint64_t since) const;

  // Makes a unary call, and repeats it until it has an answer, if it may.
  void Perform(WriteCall call, uint64_t since);
  // Once; fills in what came of it and records it.
  void Attempt(WriteCall& call);

  // Several batches on one stream, all with the epoch of the first.
  void Stream(std::vector<WriteCall> calls, uint64_t since);
  void ReadAnswer(const v1::StreamUpdatesResponse& response, WriteCall& call);

  void Judge(const grpc::Status& status, WriteCall& call);
  void Record(const WriteCall& call);

  ModelRun& run_;
  const int number_;
  Random random_;
  std::unique_ptr<v1::RouteTable::Stub> stub_;
  uint64_t epoch_ = 0;
  int named_ = 0;
  // Unary, with request ids, the last few; and how many ids there were before.
  std::deque<std::pair<uint64_t, WriteCall>> answered_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_WRITER_H_
