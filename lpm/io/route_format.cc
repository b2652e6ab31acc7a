#include "lpm/io/route_format.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "lpm/io/mrt.h"
#include "lpm/io/table_file.h"
#include "lpm/io/text_routes.h"

namespace planb {
namespace {

bool IsText(absl::string_view octets) {
  return std::none_of(octets.begin(), octets.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c)) &&
           !absl::ascii_isspace(static_cast<unsigned char>(c));
  });
}

// True for "ADDRESS/", and for less if the line is cut.
bool StartsLikeRoute(absl::string_view content, bool cut) {
  const absl::string_view word =
      content.substr(0, content.find_first_of(" \t"));
  return word.find_first_not_of("0123456789abcdefABCDEF:./") ==
             absl::string_view::npos &&
         (cut || word.find('/') != absl::string_view::npos);
}

}  // namespace

RouteFormat DetectRouteFormat(absl::string_view head) {
  if (absl::StartsWith(head, kTableFileMagic)) return RouteFormat::kTableFile;
  if (StartsLikeMrt(head)) return RouteFormat::kMrt;
  if (!IsText(head)) return RouteFormat::kUnknown;
  bool says_something = false;
  while (!head.empty()) {
    const size_t end = head.find('\n');
    const bool cut = end == absl::string_view::npos;
    const absl::string_view content = TextLineContent(head.substr(0, end));
    if (!content.empty()) {
      if (StartsLikeRoute(content, cut)) return RouteFormat::kText;
      says_something = true;
    }
    head.remove_prefix(cut ? head.size() : end + 1);
  }
  return says_something ? RouteFormat::kUnknown : RouteFormat::kText;
}

}  // namespace planb
