// Next hops and groups as planbctl shows them.

#ifndef PLANB_CLIENT_PLANBCTL_NEXT_HOP_OUTPUT_H_
#define PLANB_CLIENT_PLANBCTL_NEXT_HOP_OUTPUT_H_

#include <string>

#include "lpm/prefix.h"
#include "planb/client/output_routes.pb.h"

namespace planb::client {

output::NextHop Describe(const NextHop& next_hop);
output::Group Describe(const NextHopGroup& group);

// Members and their weights as `group set` takes them: "7*3 8".
std::string MembersText(const NextHopGroup& group);

// What there is to say besides the id, such as "via fe80::1 dev eth0 weight 3
// label transit" or "7*3 8 label both".
std::string TextOf(const NextHop& next_hop);
std::string TextOf(const NextHopGroup& group);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_NEXT_HOP_OUTPUT_H_
