#include "server/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace planb::server {
namespace {

std::optional<mode_t> ParseMode(absl::string_view text) {
  if (text.empty() || text.size() > 4) return std::nullopt;
  mode_t mode = 0;
  for (const char c : text) {
    if (c < '0' || c > '7') return std::nullopt;
    mode = mode * 8 + static_cast<mode_t>(c - '0');
  }
  return mode <= 0777 ? std::optional(mode) : std::nullopt;
}

std::optional<uint32_t> ParseId(absl::string_view text) {
  uint32_t id = 0;
  // chown() takes the largest for "as it is".
  if (!absl::SimpleAtoi(text, &id) ||
      id == std::numeric_limits<uint32_t>::max()) {
    return std::nullopt;
  }
  return id;
}

// By the descriptor, not the path: a link that took the socket's place must not
// lend these rights to another file. Without /proc there is only the path.
int ChangeMode(int file, const std::string& path, mode_t mode) {
  if (chmod(absl::StrCat("/proc/self/fd/", file).c_str(), mode) == 0) return 0;
  return errno == ENOENT ? chmod(path.c_str(), mode) : -1;
}

}  // namespace

absl::StatusOr<SocketFileOptions> ParseSocketFileOptions(
    absl::string_view mode, absl::string_view owner) {
  SocketFileOptions options;
  const std::optional<mode_t> bits = ParseMode(mode);
  if (!bits.has_value() || (*bits & S_IWUSR) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--unix_socket_mode: \"", mode,
                     "\" is no octal mode, such as 0660, that lets the owner "
                     "write"));
  }
  options.mode = *bits;
  if (owner.empty()) return options;
  const std::vector<absl::string_view> ids = absl::StrSplit(owner, ':');
  options.uid = ParseId(ids.front());
  if (ids.size() == 2) options.gid = ParseId(ids.back());
  if (ids.size() > 2 || !options.uid.has_value() ||
      (ids.size() == 2 && !options.gid.has_value())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--unix_socket_owner: \"", owner, "\" is not UID[:GID] in numbers"));
  }
  return options;
}

bool RestrictSocket(int fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return false;
  return domain != AF_UNIX || fchmod(fd, S_IRUSR | S_IWUSR) == 0;
}

absl::Status OpenSocketFile(const std::string& path,
                            const SocketFileOptions& options) {
  const auto failed = [&path](const auto&... what) {
    const int error = errno;
    return absl::UnavailableError(absl::StrCat(
        "unix://", path, ": cannot ", what..., ": ", std::strerror(error)));
  };
  const int file = open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return failed("find the socket");
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat found;
  if (fstat(file, &found) != 0) return failed("look at the socket");
  if (!S_ISSOCK(found.st_mode)) {
    return absl::UnavailableError(
        absl::StrCat("unix://", path, ": was replaced while starting"));
  }
  constexpr uint32_t kAsItIs = std::numeric_limits<uint32_t>::max();
  const uid_t uid = options.uid.value_or(kAsItIs);
  const gid_t gid = options.gid.value_or(kAsItIs);
  if ((uid != kAsItIs || gid != kAsItIs) &&
      fchownat(file, "", uid, gid, AT_EMPTY_PATH) != 0) {
    return failed("change the owner");
  }
  if (ChangeMode(file, path, options.mode) != 0) {
    return failed("set mode ", absl::StrFormat("%04o", options.mode));
  }
  return absl::OkStatus();
}

}  // namespace planb::server
