// SPDX-License-Identifier: Apache-2.0

// planbctl's output: lines of JSON, or text in fields and tables.

#ifndef PLANB_CLIENT_PLANBCTL_OUTPUT_H_
#define PLANB_CLIENT_PLANBCTL_OUTPUT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/planbctl/flags.h"
#include "lpm/prefix.h"
#include "planb/client/output.pb.h"
#include "planb/v1/types.pb.h"

namespace planb::client {

// `message` (of output.proto) as one line of JSON, with all fields and their
// names as declared, ended by a newline.
std::string JsonLine(const google::protobuf::Message& message);

// What --output and --json ask for.
OutputForm WantedForm();

// `message` (of output.proto) in the form wanted, which is not kTable. The
// first CSV row of each kind of message has a header before it.
std::string Record(const google::protobuf::Message& message);

// Prints `message` in the form wanted, or `text` for kTable.
void Print(const google::protobuf::Message& message, absl::string_view text);

// A number of output.proto, where 64 bits are a double.
inline double Number(uint64_t value) { return static_cast<double>(value); }

// A line with a name and its value.
std::string Field(absl::string_view name, absl::string_view value);

// Copies the text and the 64-bit numbers that both messages have by the same
// names.
void CopyFields(const google::protobuf::Message& from,
                google::protobuf::Message& to);

// Text in aligned columns. Thread-compatible.
class TextTable {
 public:
  // `header` is printed first, unless there are no rows.
  explicit TextTable(std::vector<std::string> header)
      : rows_({std::move(header)}) {}

  // An empty cell is shown as "-".
  void AddRow(std::vector<std::string> cells);

  // The lines, without blanks at their ends.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// The state of a table, without the fields `server` and `health`.
output::Status Describe(const v1::Table& table);

// A status as text, one field a line.
std::string TextOf(const output::Status& status);

// Next hops and groups as messages of output.proto.
output::NextHop Describe(const NextHop& next_hop);
output::Group Describe(const NextHopGroup& group);

// Members and weights in the form of `group set`: "7*3 8".
std::string MembersText(const NextHopGroup& group);

// The fields besides the id, such as "via fe80::1 dev eth0 weight 3 label
// transit" or "7*3 8 label both".
std::string TextOf(const NextHop& next_hop);
std::string TextOf(const NextHopGroup& group);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_OUTPUT_H_
