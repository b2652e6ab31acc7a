#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Installs Debian packages whose programs are missing.
#
#   deploy/kubernetes/packages.sh PROGRAM:PACKAGE...
#
# Fails, and says what is missing, where that takes root or apt and there is
# none.
set -euo pipefail
missing=()
for pair in "$@"; do
  command -v "${pair%:*}" > /dev/null || missing+=("${pair#*:}")
done
((${#missing[@]})) || exit 0
if [[ "$(id -u)" != 0 ]] || ! command -v apt-get > /dev/null; then
  echo "not installed, for want of root or apt: ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}" >&2
apt-get update -qq >&2
# Installed to be run by tests, not by init.
DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq \
  --no-install-recommends "${missing[@]}" > /dev/null
