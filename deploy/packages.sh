#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Installs the Debian packages that a test misses, as root.
#
#   deploy/packages.sh NEED...
#
# NEED is a program, PROGRAM:PACKAGE[+PACKAGE...] where names differ, or
# import.MODULE:PACKAGE for a module of /usr/bin/python3. Exit code 77 and the
# reason, as for a skipped test, if something is still missing.
set -euo pipefail
shopt -s inherit_errexit
PATH=$PATH:/usr/sbin

missing() {
  local need
  for need in "$@"; do
    if [[ "$need" == import.* ]]; then
      need=${need#import.}
      /usr/bin/python3 -c "import ${need%:*}" 2> /dev/null || echo "${need#*:}"
    else
      command -v "${need%:*}" > /dev/null || tr + '\n' <<< "${need#*:}"
    fi
  done
}

mapfile -t packages < <(missing "$@")
((${#packages[@]})) || exit 0
if [[ "$(id -u)" == 0 ]] && command -v apt-get > /dev/null; then
  echo "installing ${packages[*]}" >&2
  # RUNLEVEL=1: a package that has a service does not start it.
  { apt-get update -qq || true
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      -o DPkg::Lock::Timeout=600 --no-install-recommends "${packages[@]}" ||
      true; } > /dev/null
  mapfile -t packages < <(missing "$@")
fi
((${#packages[@]} == 0)) || {
  echo "SKIP: not installed: ${packages[*]}"
  exit 77
}
