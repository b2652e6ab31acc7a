# SPDX-License-Identifier: Apache-2.0

# shellcheck shell=bash
# One node for the API of control_plane.sh: containerd, kubelet, scheduler and
# controller manager, with pods on a bridge of this machine. To be sourced, as
# root, after control_plane.sh.
#
# start_node FOLDER BIN ARCHIVE...: the images of the docker-archives are there.
# stop_node FOLDER: ends it and takes away what it leaves outside FOLDER: mounts,
#     cgroups, the bridge, an address, kernel settings.
# node_ctr FOLDER ARGUMENT...: containerd's client.
#
# The kubelet's own port is open to this machine without a password.

readonly NODE_BRIDGE=planbtest0
readonly NODE_ADDRESS=10.201.77.1
readonly NODE_PODS=10.201.78.0/24
# What kubelet and the bridge plugin set, to be set back.
readonly NODE_SETTINGS=(vm.overcommit_memory kernel.panic kernel.panic_on_oops
  net.ipv4.ip_forward)

# why_no_node: prints why no node can run here; fails if one may.
why_no_node() {
  [[ "$(id -u)" == 0 ]] || { echo "a node needs root" && return; }
  unshare --mount --net true 2> /dev/null ||
    { echo "namespaces are not allowed here" && return; }
  [[ -d /sys/fs/cgroup/memory || -f /sys/fs/cgroup/cgroup.controllers ]] ||
    { echo "there are no cgroups here" && return; }
  ip link add $NODE_BRIDGE type bridge 2> /dev/null ||
    { echo "a bridge cannot be made here" && return; }
  ip link del $NODE_BRIDGE
  return 1
}

node_ctr() {
  local folder=$1
  shift
  ctr --address "$folder/containerd.sock" --namespace k8s.io "$@"
}

# The one program of the container that holds a pod's namespaces.
pause_archive() {
  local folder=$1
  mkdir "$folder/pause"
  gcc -O2 -static -s -o "$folder/pause/pause" -x c - << 'C'
#include <signal.h>
#include <unistd.h>
static void Leave(int number) { _exit(number == SIGTERM ? 0 : 1); }
int main(void) {
  signal(SIGTERM, Leave);
  signal(SIGINT, Leave);
  for (;;) pause();
}
C
  printf 'FROM scratch\nCOPY pause /\nENTRYPOINT ["/pause"]\n' |
    buildah --root "$folder/pause/store" --runroot "$folder/pause/run" \
      --storage-driver vfs bud --isolation=chroot --quiet --file - \
      --tag localhost/pause:1 "$folder/pause" > /dev/null
  buildah --root "$folder/pause/store" --runroot "$folder/pause/run" \
    --storage-driver vfs push --quiet localhost/pause:1 \
    "docker-archive:$folder/pause.tar:localhost/pause:1"
}

start_node() {
  local folder=$1 bin=$2 archive
  shift 2
  for setting in "${NODE_SETTINGS[@]}"; do
    echo "$setting=$(sysctl -n "$setting")"
  done > "$folder/settings"
  ip address add $NODE_ADDRESS/32 dev lo
  mkdir "$folder/cni"
  cat > "$folder/cni/10-bridge.conflist" << CNI
{"cniVersion": "1.0.0", "name": "$NODE_BRIDGE", "plugins": [
  {"type": "bridge", "bridge": "$NODE_BRIDGE", "isGateway": true,
   "ipam": {"type": "host-local", "dataDir": "$folder/cni/addresses",
            "ranges": [[{"subnet": "$NODE_PODS"}]]}}]}
CNI
  cat > "$folder/containerd.toml" << TOML
version = 2
root = "$folder/containerd/root"
state = "$folder/containerd/state"
[grpc]
  address = "$folder/containerd.sock"
[ttrpc]
  address = "$folder/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$folder/cni"
TOML
  run_in_background "$folder" containerd \
    containerd --config "$folder/containerd.toml"
  local deadline=$((SECONDS + 60))
  until node_ctr "$folder" version > /dev/null 2>&1; do
    ((SECONDS < deadline)) || return 1
    sleep 0.2
  done
  pause_archive "$folder"
  for archive in "$folder/pause.tar" "$@"; do
    node_ctr "$folder" images import "$archive" > /dev/null
  done

  local access manager scheduler kubelet health
  read -r manager scheduler kubelet health <<< "$(free_ports 4)"
  access=$folder/system:kube-controller-manager.kubeconfig
  run_in_background "$folder" kube-controller-manager \
    "$bin/kube-controller-manager" --kubeconfig="$access" \
    --authentication-kubeconfig="$access" \
    --authorization-kubeconfig="$access" --bind-address=127.0.0.1 \
    --secure-port="$manager" --cert-dir="$folder/manager" \
    --service-account-private-key-file="$folder/accounts.key" \
    --use-service-account-credentials=true --leader-elect=false
  access=$folder/system:kube-scheduler.kubeconfig
  run_in_background "$folder" kube-scheduler "$bin/kube-scheduler" \
    --kubeconfig="$access" --authentication-kubeconfig="$access" \
    --authorization-kubeconfig="$access" --bind-address=127.0.0.1 \
    --secure-port="$scheduler" --cert-dir="$folder/scheduler" \
    --leader-elect=false
  # Limits as a machine without CAP_SYS_RESOURCE has them; cgroups of either
  # version, by files.
  cat > "$folder/kubelet.yaml" << YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_ADDRESS
port: $kubelet
healthzPort: $health
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://$folder/containerd.sock
failSwapOn: false
failCgroupV1: false
oomScoreAdj: 0
maxOpenFiles: 20000
makeIPTablesUtilChains: false
imageGCHighThresholdPercent: 100
syncFrequency: 5s
evictionHard: {nodefs.available: 1%, imagefs.available: 1%}
YAML
  run_in_background "$folder" kubelet "$bin/kubelet" \
    --config="$folder/kubelet.yaml" \
    --kubeconfig="$folder/system:node:node1.kubeconfig" \
    --hostname-override=node1 --node-ip=$NODE_ADDRESS \
    --root-dir="$folder/kubelet" --cert-dir="$folder/kubelet/pki"
  deadline=$((SECONDS + 120))
  until kubectl wait --for=condition=Ready node/node1 --timeout=5s \
    > /dev/null 2>&1; do
    if ((SECONDS >= deadline)); then
      tail -n 20 "$folder/kubelet.log" "$folder/containerd.log" >&2
      echo "FAIL: the node does not come up" >&2
      return 1
    fi
    sleep 0.5
  done
}

# Call before stop_all, which ends containerd.
stop_node() {
  local folder=$1 task pid path
  # Or it would start again what is ended now.
  pid=$(pgrep --full -- "--root-dir=$folder/kubelet " || true)
  [[ -z "$pid" ]] || kill "$pid" 2> /dev/null || true
  for task in $(node_ctr "$folder" tasks ls --quiet 2> /dev/null); do
    node_ctr "$folder" tasks kill --signal SIGKILL "$task" 2> /dev/null || true
  done
  sleep 2
  stop_all
  for pid in $(pgrep --full -- "-address $folder/containerd.sock" || true); do
    kill "$pid" 2> /dev/null || true # Its shims.
  done
  sleep 1
  findmnt --noheadings --raw --output TARGET | grep "^$folder/" | sort -r |
    xargs --no-run-if-empty umount || true
  # What is left of pods' networks: their ends of the bridge, their namespaces.
  ip -o link show master $NODE_BRIDGE 2> /dev/null | while IFS= read -r line; do
    [[ "$line" =~ ^[0-9]+:\ ([^@:]+).*link-netns\ ([^ ]+) ]] || continue
    ip link del "${BASH_REMATCH[1]}" || true
    ip netns del "${BASH_REMATCH[2]}" || true
  done
  ip link del $NODE_BRIDGE 2> /dev/null || true
  ip address del $NODE_ADDRESS/32 dev lo 2> /dev/null || true
  for path in /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods \
    /sys/fs/cgroup/k8s.io /sys/fs/cgroup/*/k8s.io; do
    [[ ! -d "$path" ]] || find "$path" -depth -type d \
      -exec rmdir {} \; 2> /dev/null || true
  done
  [[ ! -s "$folder/settings" ]] ||
    xargs sysctl --quiet --write < "$folder/settings" || true
}
