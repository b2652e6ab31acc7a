// SPDX-License-Identifier: Apache-2.0

// Messages as planbctl prints them, by their descriptors: JSON, YAML, CSV and
// text. A field that the contract gains needs no code here. Rules:
//
// - A number is a JSON number, also one of 64 bits, which protobuf would quote.
// - X_nanos is X_seconds; X_unix_nanos is X_time, by RFC 3339, absent if it is
//   0. X_bytes has a unit in text.
// - Bytes are hexadecimal, and absent without any. A prefix, a gateway and a
//   community have their usual form. Numbers of routes by length are
//   {"LENGTH": NUMBER}.
// - The names of ids and of their objects differ from the contract's: kNames.

#ifndef PLANB_CLIENT_PLANBCTL_RECORD_H_
#define PLANB_CLIENT_PLANBCTL_RECORD_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/next_hop_directory.h"
#include "client/planbctl/flags.h"
#include "lpm/prefix.h"

namespace planb::client {

struct PrintedField {
  std::string name;
  // Empty: the field does not apply.
  std::string json = {};
  // For humans. Empty: there is nothing to say.
  std::string text = {};
  // It may not apply. JSON has such fields last.
  bool optional = false;
};
using PrintedFields = std::vector<PrintedField>;

// `before`, and the fields of `message` as declared.
PrintedFields FieldsOf(const google::protobuf::Message& message,
                       PrintedFields before = {});

// The text of the field `name`; empty if there is none.
std::string TextOf(const PrintedFields& fields, absl::string_view name);

// `pattern` with the text of a field for each {NAME}. A part in brackets is
// left out if one of its fields has no text or is 0: that sets `lacks`.
std::string Fill(absl::string_view pattern, const PrintedFields& fields,
                 bool* lacks = nullptr);

// A line for each row of the table of headings, then for each field that is in
// none of its rows.
std::string FormText(const PrintedFields& fields);

// What is known of an object besides its id, escaped, within a line, such as
// "via fe80::1 dev eth0 weight 3 label transit" or "7*3 8 label both".
std::string WordsText(const google::protobuf::Message& object);

// What `id` means, by its object or group: WordsText; empty without one. The
// members of a group follow with their meaning in parentheses.
std::string Describe(NextHopId id, const NextHopObjects& objects);

// A text as a JSON string, and as a field of CSV by RFC 4180, escaped for a
// terminal like other text.
std::string JsonText(const std::string& text);
std::string CsvText(absl::string_view text);

// What --output and --json ask for.
OutputForm WantedForm();

// The fields in the form wanted, which is not kTable: a line of JSON, a YAML
// document or a CSV row, with a header unless that of the row before is the
// same.
std::string Record(const PrintedFields& fields);

// Prints the fields, or a message, in the form wanted, or `text` for kTable.
void Print(const PrintedFields& fields, absl::string_view text);
void Print(const google::protobuf::Message& message, absl::string_view text);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_RECORD_H_
