#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Runs the image's root file system without any container engine.
#
#   deploy/image/rootfs_test.sh ARCHIVE.tar|ROOT
#
# ARCHIVE is image.sh's, whose layers are unpacked; ROOT is rootfs.sh's folder,
# for machines that cannot build images. Programs run in a chroot as user 65532
# without capabilities and new privileges; where mounts are allowed, on a
# read-only mount. Needs root; 77 (skipped) without.
set -euo pipefail
shopt -s inherit_errexit
readonly USER_ID=65532
readonly SOCKET=unix:///run/planb/planb.sock
here=$(cd "$(dirname "$0")" && pwd)

if [[ "$(id -u)" != 0 ]]; then
  echo "SKIP: a chroot needs root"
  exit 77
fi
"$here/run_in_chroot.py" / $USER_ID $USER_ID /bin/true 2> /dev/null || {
  echo "SKIP: this root may not drop privileges in a chroot"
  exit 77
}
# In a mount namespace of its own, whose mounts go when this ends.
if [[ "${1:-}" != --mounts=* ]]; then
  (($# == 1)) || {
    sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
    exit 2
  }
  if unshare --mount mount -t tmpfs none /mnt 2> /dev/null; then
    exec unshare --mount "$0" --mounts=yes "$1"
  fi
  exec "$0" --mounts=no "$1"
fi
mounts=${1#--mounts=} from=$2

work=$(mktemp -d)
chmod 755 "$work" # The way into the chroot, for its user.
server=
cleanup() {
  if [[ -n "$server" ]]; then
    { kill -KILL "$server" && wait "$server"; } 2> /dev/null || true
  fi
  [[ $mounts == no ]] || umount --recursive "$work/view" 2> /dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

fail() {
  echo "FAIL: $*" >&2
  [[ ! -e "$work/log" ]] || tail -n 20 "$work/log" >&2
  exit 1
}

root=$work/root
mkdir "$root"
if [[ -d "$from" ]]; then
  cp -a "$from/." "$root"
else
  mkdir "$work/archive"
  tar --extract --file "$from" --directory "$work/archive"
  python3 -c '
import json, sys
for layer in json.load(sys.stdin)[0]["Layers"]:
    print(layer)' < "$work/archive/manifest.json" |
    while IFS= read -r layer; do
      tar --extract --file "$work/archive/$layer" --directory "$root"
    done
fi

# Nothing in it but programs and what they load: no shell, no setuid.
foreign=$(find "$root" -type f -exec sh -c '
  for file; do
    [ "$(head -c 4 "$file" | od -An -tx1)" = " 7f 45 4c 46" ] || echo "$file"
  done' sh {} +)
[[ -z "$foreign" ]] || fail "no program: $foreign"
programs=$(find "$root/usr/bin" -printf '%P\n' | sort | xargs)
[[ "$programs" == "planb_own_folder planb_server planbctl" ]] ||
  fail "programs in the image: $programs"
[[ -z "$(find "$root" -perm /6000)" ]] || fail "something is setuid or setgid"
writable=$(setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups \
  find "$root" ! -type l -writable)
[[ -z "$writable" ]] || fail "the server's user could write $writable"
echo "rootfs: $(find "$root" -type f | wc -l) files, all programs or shared" \
  "objects, $(du -sb "$root" | cut -f 1) bytes"

# The pod's volume, as the kubelet makes a hostPath: root's, mode 0755.
mkdir -p "$root/run/planb"
view=$root
how="chroot without mounts, which are not allowed here"
if [[ $mounts == yes ]]; then
  view=$work/view
  mkdir "$view"
  mount --bind "$root" "$view"
  mount -o remount,bind,ro,nosuid "$view"
  mount -t tmpfs -o mode=0755,size=1m none "$view/run/planb"
  how="chroot on a read-only mount"
fi
as() {
  local user=$1 group=$2
  shift 2
  "$here/run_in_chroot.py" "$view" "$user" "$group" "$@"
}
planbctl() {
  as $USER_ID $USER_ID /usr/bin/planbctl --server=$SOCKET --timeout=30s "$@"
}
# The probe's exit codes are what an exec probe goes by.
health() {
  local code=0
  planbctl health --timeout=5s "$@" > "$work/health" 2>&1 || code=$?
  echo "$code"
}
start() {
  "$here/run_in_chroot.py" "$view" $USER_ID $USER_ID /usr/bin/planb_server \
    --listen=$SOCKET --metrics_address= "$@" \
    > "$work/log" 2>&1 &
  server=$!
}
await_health() {
  local deadline=$((SECONDS + 60))
  until [[ "$(health)" == "$1" ]]; do
    kill -0 "$server" 2> /dev/null || fail "the server ended"
    ((SECONDS < deadline)) || fail "health is not $1: $(cat "$work/health")"
    sleep 0.2
  done
}

code=$(health)
[[ "$code" == 4 ]] || fail "without a server, health says $code, not 4"
# A folder that the server's user must not write; then it is his group's.
start --generate=20000
code=0
wait "$server" || code=$?
server=
((code == 1)) || fail "a server without a place for its socket ended with $code"
as 0 $USER_ID /usr/bin/planb_own_folder /run/planb || fail "planb_own_folder"
as 0 $USER_ID /usr/bin/planb_own_folder /run/planb || fail "the second time"
seen=$(stat --format='%u:%g %a' "$view/run/planb")
[[ "$seen" == "0:$USER_ID 775" ]] || fail "the folder is $seen"
echo "rootfs: the socket's folder was handed over without any capability"

start --generate=20000
await_health 0
code=$(health --service=nobody.knows.it)
[[ "$code" == 3 ]] || fail "for a strange service, health says $code, not 3"
for line in $'Uid:\t65532\t65532\t65532\t65532' $'Gid:\t65532' \
  $'Groups:\t65532' $'CapEff:\t0000000000000000' \
  $'CapBnd:\t0000000000000000' $'NoNewPrivs:\t1'; do
  grep -q "^$line" "/proc/$server/status" || fail "runs without '$line'"
done
echo "rootfs: serves in a $how, health probe says so"

planbctl generate --routes=20000 > "$root/table" # The chroot has no /dev.
verify() {
  planbctl verify --samples=20000 /table > "$work/verify" || fail "verify: $(cat "$work/verify")"
  echo "rootfs: $(tail -n 1 "$work/verify")"
}
verify

# Its socket stays behind and must not keep the next one from its place.
kill -KILL "$server"
wait "$server" 2> /dev/null || true
code=$(health)
[[ "$code" == 4 ]] || fail "of a killed server, health says $code, not 4"
start --generate=20000
await_health 0
verify
finish() {
  local code=0
  kill -TERM "$server"
  wait "$server" || code=$?
  server=
  ((code == 0)) || fail "SIGTERM ended it with $code"
}
finish
start --empty_table_ready=false
await_health 1
planbctl announce 2001:db8::/32 7 > /dev/null || fail "announce"
await_health 0
finish
echo "rootfs: the probe says no while the table is empty, where that counts"
echo "PASS: the root file system, run in a $how; drained with exit code 0"
