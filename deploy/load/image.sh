#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Builds the image localhost/planb-ghz:v0.120.0 of the Job kubernetes/loadtest.
#
#   deploy/load/image.sh ARCHIVE.tar       saves it as a docker-archive
#   deploy/load/image.sh --files FOLDER    only its root file system
#
# In it: ghz as go_tool.sh pins and builds it (static, from the Go module proxy),
# or the one of PLANB_GHZ; the configurations in ghz, and their
# requests. The image needs root and buildah, no registry.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
readonly IMAGE=localhost/planb-ghz:v0.120.0
readonly GHZ_FILES=$here/ghz
[[ $# == 1 || ($# == 2 && $1 == --files) ]] || {
  sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}
umask 022

collect() {
  local root=$1 ghz
  ghz=${PLANB_GHZ:-$("$here/../go_tool.sh" ghz)}
  install -D -m 755 "$ghz" "$root/usr/bin/ghz"
  mkdir -p "$root/loadtest"
  install -m 644 "$GHZ_FILES/unary.json" "$GHZ_FILES/soak.json" "$root/loadtest/"
  python3 -B "$GHZ_FILES/messages.py" lookup > "$root/loadtest/unary.bin"
  python3 -B "$GHZ_FILES/messages.py" batch 256 > "$root/loadtest/soak.bin"
  find "$root" -exec touch --no-dereference --date=@0 {} +
}
if [[ $1 == --files ]]; then
  collect "$2"
  exit
fi

need_root "building the image"
"$here/../packages.sh" buildah
archive=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The image store is private and thrown away: only the archive stays.
buildah=(buildah --root "$work/store" --runroot "$work/run"
  --storage-driver vfs)
collect "$work/context/rootfs"
"${buildah[@]}" bud --isolation=chroot --no-cache --timestamp 0 --quiet \
  --file "$here/Containerfile" --tag "$IMAGE" "$work/context"
rm -f "$archive"
"${buildah[@]}" push --quiet "$IMAGE" "docker-archive:$archive:$IMAGE"
