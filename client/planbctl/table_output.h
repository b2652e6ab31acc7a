// The state of a table as planbctl shows it.

#ifndef PLANB_CLIENT_PLANBCTL_TABLE_OUTPUT_H_
#define PLANB_CLIENT_PLANBCTL_TABLE_OUTPUT_H_

#include "planb/client/output.pb.h"
#include "planb/v1/types.pb.h"

namespace planb::client {

// All but server and health.
output::Status Describe(const v1::Table& table);

// Prints it: as JSON, or a field a line.
void PrintTable(const output::Status& status);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_TABLE_OUTPUT_H_
