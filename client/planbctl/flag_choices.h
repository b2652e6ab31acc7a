// The values of flags that choose one of a few words.

#ifndef PLANB_CLIENT_PLANBCTL_FLAG_CHOICES_H_
#define PLANB_CLIENT_PLANBCTL_FLAG_CHOICES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/load/arrivals.h"
#include "lpm/address.h"
#include "lpm/synthetic/traffic.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client {

// --ack
enum class AckChoice { kAccepted, kVisible, kPersisted };
bool AbslParseFlag(absl::string_view text, AckChoice* ack, std::string* error);
std::string AbslUnparseFlag(AckChoice ack);

// --match
struct MatchChoice {
  v1::ListRoutesRequest::Match match = v1::ListRoutesRequest::MATCH_SUBTREE;
};
bool AbslParseFlag(absl::string_view text, MatchChoice* choice,
                   std::string* error);
std::string AbslUnparseFlag(MatchChoice choice);

// --trace
struct TraceChoice {
  TraceKind kind = TraceKind::kUniform;
};
bool AbslParseFlag(absl::string_view text, TraceChoice* trace,
                   std::string* error);
std::string AbslUnparseFlag(TraceChoice trace);

// --form
struct FormChoice {
  bool upper = false;
};
bool AbslParseFlag(absl::string_view text, FormChoice* choice,
                   std::string* error);
std::string AbslUnparseFlag(FormChoice choice);

// --arrivals
struct ArrivalChoice {
  ArrivalKind kind = ArrivalKind::kEven;
};
bool AbslParseFlag(absl::string_view text, ArrivalChoice* choice,
                   std::string* error);
std::string AbslUnparseFlag(ArrivalChoice choice);

// --family
struct FamilyChoice {
  Family family = Family::kIpv6;
};
bool AbslParseFlag(absl::string_view text, FamilyChoice* choice,
                   std::string* error);
std::string AbslUnparseFlag(FamilyChoice choice);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_FLAG_CHOICES_H_
