#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Builds the image localhost/planb-ghz:v0.120.0 and saves it as a docker-archive.
#
#   deploy/load/image.sh ARCHIVE.tar
#
# Needs root and buildah, no registry; the Go module proxy the first time.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
readonly IMAGE=localhost/planb-ghz:v0.120.0
(($# == 1)) || {
  sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}
if [[ "$(id -u)" != 0 ]] || ! command -v buildah > /dev/null; then
  echo "SKIP: building the image needs root and buildah"
  exit 77
fi
archive=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The image store is private and thrown away: only the archive stays.
buildah=(buildah --root "$work/store" --runroot "$work/run"
  --storage-driver vfs)
"$here/rootfs.sh" "$work/context/rootfs"
"${buildah[@]}" bud --isolation=chroot --no-cache --timestamp 0 --quiet \
  --file "$here/Containerfile" --tag "$IMAGE" "$work/context"
rm -f "$archive"
"${buildah[@]}" push --quiet "$IMAGE" "docker-archive:$archive:$IMAGE"
