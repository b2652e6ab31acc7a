// Each is parsed by its words; the error lists them.

#include "client/planbctl/flag_choices.h"

namespace planb::client {

bool AbslParseFlag(absl::string_view text, AckChoice* ack, std::string* error) {
  for (AckChoice choice :
       {AckChoice::kAccepted, AckChoice::kVisible, AckChoice::kPersisted}) {
    if (text != AbslUnparseFlag(choice)) continue;
    *ack = choice;
    return true;
  }
  *error = "must be accepted, visible or persisted";
  return false;
}

std::string AbslUnparseFlag(AckChoice ack) {
  switch (ack) {
    case AckChoice::kAccepted:
      return "accepted";
    case AckChoice::kVisible:
      return "visible";
    case AckChoice::kPersisted:
      return "persisted";
  }
  return "";
}

bool AbslParseFlag(absl::string_view text, MatchChoice* choice,
                   std::string* error) {
  for (auto match : {v1::ListRoutesRequest::MATCH_EXACT,
                     v1::ListRoutesRequest::MATCH_COVERING,
                     v1::ListRoutesRequest::MATCH_SUBTREE}) {
    choice->match = match;
    if (text == AbslUnparseFlag(*choice)) return true;
  }
  *error = "must be exact, covering or subtree";
  return false;
}

std::string AbslUnparseFlag(MatchChoice choice) {
  switch (choice.match) {
    case v1::ListRoutesRequest::MATCH_EXACT:
      return "exact";
    case v1::ListRoutesRequest::MATCH_COVERING:
      return "covering";
    default:
      return "subtree";
  }
}

bool AbslParseFlag(absl::string_view text, TraceChoice* trace,
                   std::string* error) {
  const absl::StatusOr<TraceKind> kind = ParseTraceKind(text);
  if (!kind.ok()) {
    *error = std::string(kind.status().message());
    return false;
  }
  trace->kind = *kind;
  return true;
}

std::string AbslUnparseFlag(TraceChoice trace) {
  return std::string(TraceKindName(trace.kind));
}

bool AbslParseFlag(absl::string_view text, ArrivalChoice* choice,
                   std::string* error) {
  if (text == "even") {
    choice->kind = ArrivalKind::kEven;
  } else if (text == "poisson") {
    choice->kind = ArrivalKind::kPoisson;
  } else {
    *error = "must be even or poisson";
    return false;
  }
  return true;
}

std::string AbslUnparseFlag(ArrivalChoice choice) {
  return choice.kind == ArrivalKind::kEven ? "even" : "poisson";
}

bool AbslParseFlag(absl::string_view text, FormChoice* choice,
                   std::string* error) {
  if (text != "full" && text != "upper") {
    *error = "must be full or upper";
    return false;
  }
  choice->upper = text == "upper";
  return true;
}

std::string AbslUnparseFlag(FormChoice choice) {
  return choice.upper ? "upper" : "full";
}

bool AbslParseFlag(absl::string_view text, FamilyChoice* choice,
                   std::string* error) {
  if (text == "ipv4") {
    choice->family = Family::kIpv4;
  } else if (text == "ipv6") {
    choice->family = Family::kIpv6;
  } else {
    *error = "must be ipv4 or ipv6";
    return false;
  }
  return true;
}

std::string AbslUnparseFlag(FamilyChoice choice) {
  return choice.family == Family::kIpv4 ? "ipv4" : "ipv6";
}

}  // namespace planb::client
