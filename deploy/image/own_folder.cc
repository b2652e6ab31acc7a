// SPDX-License-Identifier: Apache-2.0

// planb_own_folder FOLDER: gives a folder to the group of this process, and the
// group the right to write.
//
// A hostPath volume of type DirectoryOrCreate comes up owned by root, mode
// 0755: a server that is not root cannot put its socket there. This runs before
// it, as root with the server's group and without any capability, for the owner
// of a folder needs none to hand it to one of its own groups. The image has no
// shell and no chgrp, hence a program.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

// Other users may pass, and reach a socket if its own mode lets them.
constexpr mode_t kMode = 0775;

int Fail(const char* what, const char* folder) {
  std::fprintf(stderr, "planb_own_folder: cannot %s %s: %s\n", what, folder,
               std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: planb_own_folder FOLDER\n", stderr);
    return 2;
  }
  // By descriptor, so that what is changed is what was looked at.
  const int folder = open(argv[1], O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat status;
  if (folder < 0 || fstat(folder, &status) != 0) return Fail("open", argv[1]);
  // An earlier run or the node's administrator has done it.
  if (status.st_gid == getegid() && (status.st_mode & S_IWGRP) != 0) return 0;
  if (fchown(folder, static_cast<uid_t>(-1), getegid()) != 0) {
    return Fail("change the group of", argv[1]);
  }
  if (fchmod(folder, kMode) != 0) return Fail("change the mode of", argv[1]);
  return 0;
}
