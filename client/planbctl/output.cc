// protobuf writes the JSON.

#include "client/planbctl/output.h"

#include <google/protobuf/util/json_util.h>

#include "absl/base/internal/raw_logging.h"

namespace planb::client {

std::string JsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Our own messages always convert.
  ABSL_RAW_CHECK(
      google::protobuf::util::MessageToJsonString(message, &json, options).ok(),
      "a message of output.proto has no JSON form");
  json += '\n';
  return json;
}

}  // namespace planb::client
