#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Collects the image's root file system: the programs, and every shared object
# they load, the loader included, at the paths where they look for them.
#
#   deploy/image/rootfs.sh ROOT [FOLDER]
#
# FOLDER holds planb_server and planbctl; without it Bazel builds them, linked
# as statically as Debian's packages allow. ROOT is made. Needs no root.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
umask 022

arguments $# 1 2
mkdir -p "$1"
root=$(realpath "$1")
if (($# == 2)); then
  folder=$(realpath "$2")
  binaries=("$folder/planb_server" "$folder/planbctl")
else
  cd "$here/../.."
  bazel build --noshow_progress --config=static \
    //server:planb_server //client:planbctl
  binaries=(bazel-bin/server/planb_server bazel-bin/client/planbctl/planbctl)
fi

for binary in "${binaries[@]}"; do
  install -D -m 755 "$binary" "$root/usr/bin/$(basename "$binary")"
done
# What makes the folder of a DaemonSet's socket ready: no shell does it here.
own_folder=$root/usr/bin/planb_own_folder
g++ -std=c++20 -O2 -Wall -Wextra -Werror -s -o "$own_folder" "$here/own_folder.cc"

objects=$(ldd "${binaries[@]}" "$own_folder")
if grep 'not found' <<< "$objects" >&2; then
  echo "FAIL: a shared object is missing" >&2
  exit 1
fi
grep -oE '/[^ ]+\.so[^ ]*' <<< "$objects" | sort -u |
  while IFS= read -r object; do
    install -D -m 755 "$object" "$root$object"
  done
# The layer shall not depend on when it was made.
find "$root" -exec touch --no-dereference --date=@0 {} +
