# SPDX-License-Identifier: Apache-2.0

# shellcheck shell=bash
# A Kubernetes API on loopback addresses, for tests. To be sourced.
#
# start_api FOLDER BIN [FLAG...]: etcd and kube-apiserver, everything they keep
#     in FOLDER; BIN is build.sh's, FLAGs are for kube-apiserver. Afterwards
#     `kubectl` asks it as an administrator, and `kubeconfig NAME` prints the
#     path of other components' access.
# run_in_background FOLDER NAME COMMAND...: its log is FOLDER/NAME.log.
# stop_all: ends what was started so, last first, by process id.
#
# Whoever has a token may come in by TLS with a certificate that kube-apiserver
# makes for itself. Tokens live as long as FOLDER.

declare -a started=()

run_in_background() {
  local folder=$1 name=$2
  shift 2
  "$@" > "$folder/$name.log" 2>&1 &
  started+=("$!")
}

stop_all() {
  local index pid
  for ((index = ${#started[@]} - 1; index >= 0; --index)); do
    pid=${started[index]}
    kill "$pid" 2> /dev/null || continue
    for _ in $(seq 100); do
      kill -0 "$pid" 2> /dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2> /dev/null || true
    wait "$pid" 2> /dev/null || true
  done
  started=()
}

# free_ports COUNT: so many TCP ports that nobody listens on.
free_ports() {
  python3 -c '
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*[each.getsockname()[1] for each in sockets])' "$1"
}

# write_access FOLDER SERVER USER GROUP...: a token and a kubeconfig.
write_access() {
  local folder=$1 server=$2 user=$3 token groups
  shift 3
  token=$(head -c 24 /dev/urandom | base64 | tr -d '+/=')
  groups=$(IFS=,; echo "$*")
  echo "$token,$user,$user,\"$groups\"" >> "$folder/tokens.csv"
  cat > "$folder/$user.kubeconfig" << CONFIG
apiVersion: v1
kind: Config
clusters:
  - name: test
    cluster:
      server: $server
      certificate-authority: $folder/certificates/apiserver.crt
users:
  - name: test
    user: {token: $token}
contexts:
  - name: test
    context: {cluster: test, user: test}
current-context: test
CONFIG
}

start_api() {
  local folder=$1 bin=$2 client peer api
  shift 2
  read -r client peer api <<< "$(free_ports 3)"
  (umask 077 && : > "$folder/tokens.csv")
  local server=https://127.0.0.1:$api
  write_access "$folder" "$server" admin system:masters
  write_access "$folder" "$server" system:kube-controller-manager
  write_access "$folder" "$server" system:kube-scheduler
  write_access "$folder" "$server" system:node:node1 system:nodes
  export KUBECONFIG=$folder/admin.kubeconfig

  openssl genrsa -out "$folder/accounts.key" 2048 2> /dev/null
  openssl rsa -in "$folder/accounts.key" -pubout \
    -out "$folder/accounts.pub" 2> /dev/null
  run_in_background "$folder" etcd etcd --data-dir "$folder/etcd" \
    --unsafe-no-fsync \
    --listen-client-urls "http://127.0.0.1:$client" \
    --advertise-client-urls "http://127.0.0.1:$client" \
    --listen-peer-urls "http://127.0.0.1:$peer" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "default=http://127.0.0.1:$peer"
  run_in_background "$folder" kube-apiserver "$bin/kube-apiserver" \
    --etcd-servers="http://127.0.0.1:$client" \
    --bind-address=127.0.0.1 --advertise-address=127.0.0.1 \
    --secure-port="$api" --cert-dir="$folder/certificates" \
    --token-auth-file="$folder/tokens.csv" \
    --authorization-mode=Node,RBAC \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$folder/accounts.pub" \
    --service-account-signing-key-file="$folder/accounts.key" \
    --service-cluster-ip-range=10.96.0.0/16 "$@"
  local pid=${started[-1]} deadline=$((SECONDS + 120))
  until kubectl get --raw /readyz > /dev/null 2>&1; do
    if ! kill -0 "$pid" 2> /dev/null || ((SECONDS >= deadline)); then
      tail -n 20 "$folder/etcd.log" "$folder/kube-apiserver.log" >&2
      echo "FAIL: the API server does not come up" >&2
      return 1
    fi
    sleep 0.2
  done
}
