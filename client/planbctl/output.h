// Machine-readable output.

#ifndef PLANB_CLIENT_PLANBCTL_OUTPUT_H_
#define PLANB_CLIENT_PLANBCTL_OUTPUT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

namespace planb::client {

// `message` (of output.proto) as one line of JSON, with all fields and their
// names as declared, ended by a newline.
std::string JsonLine(const google::protobuf::Message& message);

// A number of output.proto, where 64 bits are a double.
inline double Number(uint64_t value) { return static_cast<double>(value); }

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_OUTPUT_H_
