// The tables (VRFs) of one server, by name. "default" always exists; creating
// others is not implemented yet.

#ifndef PLANB_SERVER_TABLES_H_
#define PLANB_SERVER_TABLES_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/error.h"
#include "server/table.h"

namespace planb::server {

// Thread-safe.
class Tables {
 public:
  static constexpr char kDefault[] = "default";

  explicit Tables(TableOptions options) : default_(std::move(options)) {}

  // The table of that name; "" means "default". Lives as long as this.
  // Errors: NOT_FOUND (TABLE_NOT_FOUND).
  absl::StatusOr<Table*> Find(absl::string_view name) {
    if (name.empty() || name == kDefault) return &default_;
    // Escaped: cut anywhere, what is left stays valid UTF-8.
    return FieldError(absl::StatusCode::kNotFound, "TABLE_NOT_FOUND", "table",
                      absl::StrCat("there is no table \"",
                                   absl::CHexEscape(name.substr(0, 63)), "\""));
  }

  Table& default_table() { return default_; }

 private:
  Table default_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLES_H_
