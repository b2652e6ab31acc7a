// SPDX-License-Identifier: Apache-2.0

// Holds a recorded history against what the contract (proto/planb/v1) promises:
// one sequence of batches, of which every answer tells the truth.

#ifndef PLANB_SERVER_TESTING_MODEL_CHECK_H_
#define PLANB_SERVER_TESTING_MODEL_CHECK_H_

#include <string>
#include <vector>

#include "server/testing/model_history.h"

namespace planb::server {

// What is wrong with it, for people, at most a few of each kind; empty if it
// keeps every promise. Most histories take O(calls * routes); calls of unknown
// outcome are tried out where nothing says what became of them.
std::vector<std::string> CheckHistory(const ModelHistory& history);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_CHECK_H_
