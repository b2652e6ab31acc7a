#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Collects the image's root file system: the programs, and every shared object
# they load, the loader included, at the paths where they look for them.
#
#   deploy/image/rootfs.sh ROOT [FOLDER | --arm64 | --router]
#
# FOLDER holds planb_server and planbctl; without it Bazel builds them, linked
# as statically as Debian's packages allow; with --arm64, for that processor
# (third_party/arm64.sh). planb-feed is taken from there or built by Go, static. With
# --router the program is examples/router, with the drivers of DPDK that it names. ROOT is
# made. Needs no root.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
umask 022

arguments $# 1 2
mkdir -p "$1"
root=$(realpath "$1")
cd "$here/../.."

# install_objects FILE...: what these programs or objects load.
install_objects() {
  local objects
  objects=$(ldd "$@")
  if grep 'not found' <<< "$objects" >&2; then
    fail "a shared object is missing"
  fi
  grep -oE '/[^ ]+\.so[^ :]*' <<< "$objects" | sort -u |
    while IFS= read -r object; do
      install -D -m 755 "$object" "$root$object"
    done
}
# The layer shall not depend on when it was made.
forget_times() {
  find "$root" -exec touch --no-dereference --date=@0 {} +
}

if [[ "${2:-}" == --router ]]; then
  [[ -e /usr/include/dpdk/rte_ethdev.h ]] || skip "libdpdk-dev is not installed"
  bazel build --noshow_progress --config=static //examples/router
  program=bazel-bin/examples/router/router
  install -D -m 755 "$program" "$root/usr/bin/planb_router"
  # DPDK's environment loads all that are in this folder. The bus of virtual devices is
  # what two of these need: here as well, it would be another file, and loaded twice.
  folder=/usr/lib/x86_64-linux-gnu/dpdk
  drivers=("$folder"/pmds-*/librte_{mempool_ring,net_af_packet,net_pcap}.so.*.*)
  for driver in "${drivers[@]}"; do
    install -D -m 755 "$driver" "$root$driver"
  done
  install_objects "$program" "${drivers[@]}"
  forget_times
  exit
fi

cxx=g++ debian=''
declare -a options=()
if [[ "${2:-}" == --arm64 ]]; then
  cxx=aarch64-linux-gnu-g++
  debian=$(third_party/arm64.sh folder)
  lines=$(third_party/arm64.sh options)
  mapfile -t options <<< "$lines"
fi
if [[ -n "${2:-}" && "$2" != --arm64 ]]; then
  folder=$(realpath "$2")
  binaries=("$folder/planb_server" "$folder/planbctl")
else
  bazel build --noshow_progress --config=static "${options[@]}" \
    //server:planb_server //client/planbctl:planbctl
  binaries=(bazel-bin/server/planb_server bazel-bin/client/planbctl/planbctl)
fi

for binary in "${binaries[@]}"; do
  install -D -m 755 "$binary" "$root/usr/bin/$(basename "$binary")"
done
if [[ -x "${folder:-}/planb-feed" ]]; then
  install -m 755 "$folder/planb-feed" "$root/usr/bin"
else
  feed/build.sh "$root/usr/bin" "$([[ -n $debian ]] && echo arm64 || echo amd64)"
fi
# What makes the folder of a DaemonSet's socket ready: no shell does it here.
own_folder=$root/usr/bin/planb_own_folder
"$cxx" -std=c++20 -O2 -Wall -Wextra -Werror -s -o "$own_folder" "$here/own_folder.cc"

# needed FILE: installs what the program or object of arm64 loads.
needed() {
  local name object
  for name in $(aarch64-linux-gnu-readelf -ld "$1" |
    sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p; s/.*interpreter: \(.*\)\]$/\1/p'); do
    # The loader is there, as the program's interpreter.
    [[ $name != ld-linux-* ]] || continue
    if [[ $name != /* ]]; then
      for object in {/usr,}/lib/aarch64-linux-gnu/"$name"; do
        [[ ! -e "$debian$object" ]] || name=$object
      done
    fi
    [[ $name == /* ]] || fail "a shared object is missing: $name"
    [[ ! -e "$root$name" ]] || continue
    install -D -m 755 "$debian$name" "$root$name"
    needed "$root$name"
  done
}
if [[ -n "$debian" ]]; then
  for binary in "$root"/usr/bin/*; do
    needed "$binary"
  done
else
  install_objects "${binaries[@]}" "$own_folder"
fi
forget_times
