// Only what an object has is shown.

#include "client/planbctl/next_hop_output.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace planb::client {

output::NextHop Describe(const NextHop& next_hop) {
  output::NextHop described;
  described.set_id(next_hop.id);
  if (next_hop.gateway.has_value()) {
    described.set_gateway(next_hop.gateway->ToString());
  }
  described.set_interface(next_hop.interface);
  described.set_weight(next_hop.weight);
  described.set_label(next_hop.label);
  return described;
}

output::Group Describe(const NextHopGroup& group) {
  output::Group described;
  described.set_id(group.id);
  for (const NextHopGroup::Member& member : group.members) {
    output::Group::Member* to = described.add_members();
    to->set_next_hop(member.next_hop);
    to->set_weight(member.weight);
  }
  described.set_label(group.label);
  return described;
}

std::string MembersText(const NextHopGroup& group) {
  return absl::StrJoin(group.members, " ",
                       [](std::string* to, const NextHopGroup::Member& member) {
                         absl::StrAppend(to, member.next_hop);
                         if (member.weight != 1)
                           absl::StrAppend(to, "*", member.weight);
                       });
}

std::string TextOf(const NextHop& next_hop) {
  std::vector<std::string> parts;
  if (next_hop.gateway.has_value()) {
    parts.push_back(absl::StrCat("via ", next_hop.gateway->ToString()));
  }
  if (!next_hop.interface.empty()) {
    parts.push_back(absl::StrCat("dev ", next_hop.interface));
  }
  if (next_hop.weight != 1) {
    parts.push_back(absl::StrCat("weight ", next_hop.weight));
  }
  if (!next_hop.label.empty()) {
    parts.push_back(absl::StrCat("label ", next_hop.label));
  }
  return absl::StrJoin(parts, " ");
}

std::string TextOf(const NextHopGroup& group) {
  return group.label.empty()
             ? MembersText(group)
             : absl::StrCat(MembersText(group), " label ", group.label);
}

}  // namespace planb::client
