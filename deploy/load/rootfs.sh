#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Makes the root file system of the image of job.yaml.
#
#   deploy/load/rootfs.sh FOLDER
#
# ghz as go_tool.sh pins and builds it (static, from the Go module proxy), or
# the one of PLANB_GHZ; the configurations of benchmarks/serving/ghz, and their requests.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
readonly GHZ_FILES=$here/../../benchmarks/serving/ghz
(($# == 1)) || {
  sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}
umask 022
root=$1
ghz=${PLANB_GHZ:-$("$here/../go_tool.sh" ghz)}
install -D -m 755 "$ghz" "$root/usr/bin/ghz"
mkdir -p "$root/loadtest"
install -m 644 "$GHZ_FILES/unary.json" "$GHZ_FILES/soak.json" "$root/loadtest/"
python3 -B "$GHZ_FILES/messages.py" lookup > "$root/loadtest/unary.bin"
python3 -B "$GHZ_FILES/messages.py" batch 256 > "$root/loadtest/soak.bin"
find "$root" -exec touch --no-dereference --date=@0 {} +
