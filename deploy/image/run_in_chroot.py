#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Runs a program as a container runtime would, without a container runtime.

run_in_chroot.py ROOT UID GID PROGRAM [ARGUMENT...]

In a chroot, as this user with this one group, with an empty bounding set of
capabilities and no new privileges. As a pod with `drop: [ALL]`, so even user 0
is left with no capability. Needs root.
"""

import ctypes
import errno
import os
import sys

PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38


def prctl(libc, option, argument):
    """0 or an errno."""
    failed = libc.prctl(option, argument, 0, 0, 0) != 0
    return ctypes.get_errno() if failed else 0


def main(root, uid, gid, program):
    libc = ctypes.CDLL(None, use_errno=True)
    os.chroot(root)
    os.chdir("/")
    capability = 0
    while (code := prctl(libc, PR_CAPBSET_DROP, capability)) != errno.EINVAL:
        if code:
            raise OSError(code, "cannot drop a capability")
        capability += 1
    os.setgroups([gid])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if code := prctl(libc, PR_SET_NO_NEW_PRIVS, 1):
        raise OSError(code, "cannot renounce new privileges")
    os.execv(program[0], program)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
