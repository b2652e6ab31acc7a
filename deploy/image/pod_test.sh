#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Runs the image as the manifests say: the sidecar example as a real pod of two
# containers that share a socket, and what the DaemonSet and the Deployment have
# besides.
#
#   deploy/image/pod_test.sh ARCHIVE.tar [RENDERED.yaml]
#
# ARCHIVE is image.sh's, RENDERED the rendered deploy/kubernetes/sidecar (rendered here
# without it). pod_of.py says what podman needs changed in the manifest. The
# pod has no network but its own loopback. Everything podman keeps is in a
# temporary folder. Exit code 77 (skipped) where podman cannot run containers.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
IMAGE=localhost/planb-lookup:$(< "$here/../../VERSION")
readonly IMAGE
readonly SOCKET=unix:///run/planb/planb.sock

arguments $# 1 2
archive=$1

need_root "running the pod"
"$here/../packages.sh" podman conmon runc catatonit nsenter:util-linux

work=$(mktemp -d)
podman=(podman --root "$work/store" --runroot "$work/run" --tmpdir "$work/tmp"
  --storage-driver vfs)
cleanup() {
  "${podman[@]}" pod rm --force --all --time 1 > /dev/null 2>&1 || true
  findmnt --noheadings --raw --output TARGET | grep "^$work/" | sort -r |
    xargs --no-run-if-empty umount || true
  # Its monitors may write for a moment yet.
  rm -rf "$work" 2> /dev/null || { sleep 2 && rm -rf "$work"; }
  # Podman leaves its parent cgroup behind; rmdir takes only what is unused.
  find /sys/fs/cgroup -depth -type d -path '*/libpod_parent*' \
    -exec rmdir {} \; 2> /dev/null || true
}
trap cleanup EXIT

# Asks for no more than this machine allows: by default podman raises limits,
# which not every root may, and needs systemd for its cgroups. crun cannot do
# hybrid cgroups, runc can.
hard_limit() {
  local limit
  limit=$(ulimit "-H$1")
  [[ "$limit" != unlimited ]] && ((limit < 20000)) || limit=20000
  echo "$limit:$limit"
}
runtime=$(command -v runc > /dev/null && echo runc || echo crun)
cat > "$work/containers.conf" << CONF
[containers]
default_ulimits=["nofile=$(hard_limit n)", "nproc=$(hard_limit u)"]
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
lock_type="file"
runtime="$runtime"
CONF
export CONTAINERS_CONF=$work/containers.conf

# Below, the pod is looked at from outside, by its namespaces and its users'
# numbers: rootless podman, which it turns into without the capability, would
# show others.
unshare --net true 2> /dev/null ||
  skip "this root may not enter a pod's network"
"${podman[@]}" load --quiet --input "$archive" > /dev/null
# Whether this machine runs containers at all must not depend on our programs.
"${podman[@]}" run --rm --network none \
  --entrypoint /lib64/ld-linux-x86-64.so.2 "$IMAGE" \
  --list /usr/bin/planb_server > "$work/probe" 2>&1 ||
  skip "podman cannot run containers here: $(tail -n 1 "$work/probe")"

fail() {
  echo "FAIL: $*" >&2
  local container
  for container in planb-server function; do
    echo "--- end of the log of $container" >&2
    "${podman[@]}" logs --tail 20 "pod-$container" >&2 || true
  done
  exit 1
}

# as UID ARGUMENT...: a container with the manifests' security settings.
as() {
  "${podman[@]}" run --network none --read-only --cap-drop all \
    --security-opt no-new-privileges --user "$1:65532" \
    --volume "$work/node:/run/planb" "${@:2}"
}
# The node's folder, as the kubelet makes a hostPath: root's, mode 0755.
mkdir -m 755 "$work/node"
code=0
as 65532 --rm "$IMAGE" --listen=$SOCKET --metrics_address= > "$work/out" 2>&1 ||
  code=$?
((code == 1)) || fail "a server without a place for its socket ended with $code"
for _ in 1 2; do
  as 0 --rm --entrypoint /usr/bin/planb_own_folder "$IMAGE" /run/planb ||
    fail "planb_own_folder"
done
seen=$(stat --format='%u:%g %a' "$work/node")
[[ "$seen" == "0:65532 775" ]] || fail "the node's folder is $seen"
echo "pod: the node's folder was handed over without any capability"

# With the flag of the Deployment, a server is ready once it has routes.
as 65532 --detach --name pod-planb-server "$IMAGE" --listen=$SOCKET \
  --metrics_address= --empty_table_ready=false > /dev/null || fail "no server"
await_code() { # WANTED ARGUMENT...: until planbctl ends with that code
  local code deadline=$((SECONDS + 60))
  while true; do
    code=0
    "${podman[@]}" exec pod-planb-server /usr/bin/planbctl \
      --server=$SOCKET "${@:2}" > "$work/health" 2>&1 || code=$?
    ((code != $1)) || return 0
    ((code != 126 && code != 127)) ||
      skip "podman cannot exec here: $(tail -n 1 "$work/health")"
    ((SECONDS < deadline)) || fail "${*:2}: $code: $(cat "$work/health")"
    sleep 0.2
  done
}
await_code 1 health
await_code 0 announce 2001:db8::/32 7
await_code 0 health
"${podman[@]}" stop --time 20 pod-planb-server > /dev/null
"${podman[@]}" rm pod-planb-server > /dev/null
echo "pod: the probe says no while the table is empty, where that counts"

rendered=${2:-}
if [[ -z "$rendered" ]]; then
  rendered=$work/rendered.yaml
  kustomize=$("$here/../go_tool.sh" kustomize)
  "$kustomize" build "$here/../kubernetes/sidecar" > "$rendered"
fi
mkdir "$work/volumes"
"$here/pod_of.py" "$work/volumes" < "$rendered" > "$work/pod.yaml"
"${podman[@]}" kube play --quiet --network none "$work/pod.yaml" \
  > "$work/play" 2>&1 || fail "kube play: $(cat "$work/play")"

# What the function sees: the client, in its container, over the socket.
in_function() {
  "${podman[@]}" exec --interactive pod-function /usr/bin/planbctl "$@"
}
field() {
  "${podman[@]}" inspect "pod-$1" --format "{{.$2}}"
}
# probe SERVICE: the exit code of what the kubelet would ask; the pod's address
# is its loopback here.
probe() {
  local code=0
  in_function health --server=127.0.0.1:50052 --timeout=5s --service="$1" \
    > "$work/health" 2>&1 < /dev/null || code=$?
  echo "$code"
}
await_ready() {
  local deadline=$((SECONDS + 60)) code
  while true; do
    code=$(probe '')
    ((code != 0)) || break
    # These are not the client's codes, which runs as the container's command:
    # here the runtime cannot join a running container, as in a chroot.
    if ((code == 126 || code == 127)) &&
      [[ "$(field function State.Running)" == true ]]; then
      skip "podman cannot exec here: $(tail -n 1 "$work/health")"
    fi
    ((SECONDS < deadline)) ||
      fail "not ready after 60 s: $(tail -n 1 "$work/health")"
    sleep 0.2
  done
}
await_ready
[[ "$(probe startup)" == 0 ]] || fail "startup: $(cat "$work/health")"
[[ "$(probe no.such.service)" == 3 ]] || fail "an unknown service is known"
echo "pod: healthy over TCP"

# Nothing but health is reachable by TCP.
code=0
in_function lookup --server=127.0.0.1:50052 2001:db8::1 > "$work/out" 2>&1 ||
  code=$?
{ ((code == 3)) && grep -qi unimplemented "$work/out"; } ||
  fail "a lookup at the health port ($code): $(cat "$work/out")"
listening=$(nsenter --target "$(field planb-server State.Pid)" --net \
  cat /proc/net/tcp /proc/net/tcp6 |
  awk '$4 == "0A" { sub(/.*:/, "", $2); print $2 }' | sort | xargs)
wanted=$(printf '%04X\n' 9464 50052 | sort | xargs)
[[ "$listening" == "$wanted" ]] || fail "it listens on $listening (hexadecimal)"
echo "pod: lookups and changes go by the shared socket only"

in_function verify --server=$SOCKET --samples=100000 /srv/planb/routes.txt \
  > "$work/verify" || fail "verify: $(cat "$work/verify")"
echo "pod: $(tail -n 1 "$work/verify")"

# Host routes are longer than any other route of the table.
in_function announce --server=$SOCKET \
  2001:db8::1/128 4242 192.0.2.1/32 70000 > /dev/null || fail "announce"
in_function lookup --server=$SOCKET 2001:db8::1 192.0.2.1 > "$work/answers" ||
  fail "lookup"
cut -f 1,2,3 "$work/answers" | diff - <(
  printf '%s\tnext hop %s\t%s\n' \
    2001:db8::1 4242 2001:db8::1/128 192.0.2.1 70000 192.0.2.1/32
) || fail "wrong answers"
echo "pod: changes made over the shared socket are answered"

metric() {
  nsenter --target "$(field planb-server State.Pid)" --net bash -c '
    exec 3<> /dev/tcp/127.0.0.1/9464
    printf "GET /metrics HTTP/1.0\r\n\r\n" >&3
    cat <&3' | awk -v name="$1" '
      $1 == name || index($1, name "{") == 1 { sum += $2 }
      END { printf "%.0f\n", sum }'
}
# More lookups than there were: it is the function that makes them.
await_lookups() {
  local before after deadline=$((SECONDS + 60))
  before=$(metric planb_lookups_total)
  until after=$(metric planb_lookups_total) && ((after > before)); do
    ((SECONDS < deadline)) || fail "no lookups: $before, $after"
    sleep 0.2
  done
  echo "pod: the function has made $before, then $after lookups"
}
await_lookups

for user in planb-server=65532 function=65533; do
  container=${user%=*}
  status=/proc/$(field "$container" State.Pid)/status
  for line in $'Uid:\t'"${user#*=}" $'Gid:\t65532' $'CapBnd:\t0000000000000000' \
    $'NoNewPrivs:\t1' $'Seccomp:\t2'; do
    grep -q "^$line" "$status" || fail "$container runs without '$line'"
  done
  [[ "$(field "$container" HostConfig.ReadonlyRootfs)" == true ]] ||
    fail "$container can write its root file system"
done
for limit in planb-server=1536 function=256; do
  bytes=$(field "${limit%=*}" HostConfig.Memory)
  ((bytes == ${limit#*=} << 20)) || fail "memory of ${limit%=*}: $bytes bytes"
done
echo "pod: both run unprivileged, read-only, limited, under seccomp"

# The sidecar dies without a word. Its socket file stays, its table is gone; the
# function is to notice nothing but a wait.
function_started=$(field function State.StartedAt)
for round in 1 2 3; do
  killed=$(field planb-server State.Pid)
  kill -KILL "$killed"
  deadline=$((SECONDS + 60))
  until [[ "$(field planb-server State.Running)" == true ]] &&
    [[ "$(field planb-server State.Pid)" != "$killed" ]]; do
    ((SECONDS < deadline)) || fail "the killed server was not restarted"
    sleep 0.2
  done
  await_ready
  await_lookups
done
[[ "$(field function State.StartedAt)" == "$function_started" ]] ||
  fail "the function was restarted, too"
echo "pod: killed $round times with -9, restarted, lookups went on"

# As the kubelet does: the function ends first, then SIGTERM to the sidecar. It
# ends with 0 if no batch failed and no answer was wrong, all along.
"${podman[@]}" stop --time 30 pod-function > /dev/null 2>&1
code=$(field function State.ExitCode)
report=$("${podman[@]}" logs --tail 1 pod-function)
[[ "$code" == 0 ]] || fail "the function ended with code $code: $report"
grep -qE "batches failed: none; [0-9]+ disconnects, [$round-9] reconnects" \
  <<< "$report" ||
  fail "the function saw something else: $report"
echo "pod: the function saw $report"
started=$SECONDS
"${podman[@]}" stop --time 20 pod-planb-server > /dev/null
code=$(field planb-server State.ExitCode)
[[ "$code" == 0 ]] || fail "the server ended with code $code"
echo "PASS: the two-container pod; the server drained and ended with 0" \
  "in $((SECONDS - started)) s"
