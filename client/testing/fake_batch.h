// SPDX-License-Identifier: Apache-2.0

// How the fake server answers a batch, and how it spoils an answer.

#ifndef PLANB_CLIENT_TESTING_FAKE_BATCH_H_
#define PLANB_CLIENT_TESTING_FAKE_BATCH_H_

#include <string>

#include "client/testing/fake_table.h"
#include "planb/v1/route_lookup.pb.h"

namespace planb::client::testing {

// How the replies of BatchLookup are spoiled.
enum class Spoil {
  kNothing,
  kWrongId,       // another request's id
  kShort,         // one next hop too few
  kTwice,         // every reply comes twice (that is the server's part)
  kWrongNextHop,  // the first answer of a batch is off by one
};

// Empty, or "default": the one table there is.
bool IsDefaultTable(const std::string& table);

// The reply of a well-behaved server, errors in band included.
v1::BatchLookupResponse AnswerBatch(const FakeTable& table,
                                    const v1::BatchLookupRequest& request);

// The reply of a server that is about to stop.
v1::BatchLookupResponse RefuseToDrain(const FakeTable& table,
                                      const v1::BatchLookupRequest& request);

void SpoilReply(Spoil how, v1::BatchLookupResponse& reply);

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_FAKE_BATCH_H_
