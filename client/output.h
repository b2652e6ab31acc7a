// Machine-readable output.

#ifndef PLANB_CLIENT_OUTPUT_H_
#define PLANB_CLIENT_OUTPUT_H_

#include <google/protobuf/message.h>

#include <string>

namespace planb::client {

// `message` (of output.proto) as one line of JSON, with all fields and their
// names as declared, ended by a newline.
std::string JsonLine(const google::protobuf::Message& message);

}  // namespace planb::client

#endif  // PLANB_CLIENT_OUTPUT_H_
