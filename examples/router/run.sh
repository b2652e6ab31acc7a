#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# A router of this example between hosts, in network namespaces, as root:
#
#        +-- b  r2 --+         BGP between FRR of r and of r2 and r3;
#   ha --r           hb        in r: FRR -> planb-feed -> planb_server <- router.
#        +-- c  r3 --+         The kernel of r forwards nothing.
#
#   examples/router/run.sh [--fib=rpc]      # or --fib=local
#
# A host asks another a hundred times a second and downloads from it, and the link to r2,
# which BGP prefers, goes. Needs FRR, libdpdk-dev and what planb-feed is built with.
set -euo pipefail
cd "$(dirname "$0")/../.."
fib=${1:---fib=rpc}
if [[ $EUID != 0 || ! -e /usr/include/dpdk/rte_ethdev.h || ! -x /usr/lib/frr/zebra ]]; then
  echo "SKIP: root, libdpdk-dev and FRR are needed"
  exit 77
fi
bazel build --noshow_progress //server:planb_server //examples/router
bin=$PWD/bazel-bin here=$PWD/examples/router
work=$(mktemp -d /tmp/planb_run.XXXXXX)
chmod 755 "$work"
feed/build.sh "$work"

spaces=(ha r r2 r3 hb) id=$$ pids=()
finish() {
  # zebra may wait for its connection of FPM for ever.
  kill -9 "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  for space in "${spaces[@]}"; do ip netns del "$space-$id" 2>/dev/null || true; done
  [[ -n ${KEEP:-} ]] || rm -rf "$work"
}
trap finish EXIT
within() { ip netns exec "$1-$id" "${@:2}"; }
start() { # SPACE NAME COMMAND...
  # No function, whose shell would be killed in the place of the program.
  ip netns exec "$1-$id" "${@:3}" >"$work/$1.$2.log" 2>&1 &
  pids+=($!)
}
await() { # WHAT COMMAND...
  for ((i = 0; i < 600; ++i)); do
    "${@:2}" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "no $1 within a minute; logs: $work" && KEEP=yes && tail -n 5 "$work"/*.log && exit 1
}

for space in "${spaces[@]}"; do
  ip netns add "$space-$id"
  within "$space" ip link set lo up
  within "$space" sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0 \
    net.ipv6.conf.default.accept_dad=0
done
link() { # SPACE NAME ADDRESS SPACE NAME ADDRESS
  ip link add name "$2" netns "$1-$id" type veth peer name "$5" netns "$4-$id"
  local a=("$@")
  for i in 0 3; do
    within "${a[i]}" ip link set dev "${a[i + 1]}" up
    within "${a[i]}" ip address add "${a[i + 2]}/64" dev "${a[i + 1]}" nodad
    # Whole checksums, and no frames that the kernel put together.
    within "${a[i]}" "$here/run_probe.py" offloads "${a[i + 1]}"
  done
}
link ha e 2001:db8:a::2 r a 2001:db8:a::1
link r b 2001:db8:12::1 r2 b 2001:db8:12::2
link r c 2001:db8:13::1 r3 c 2001:db8:13::3
link r2 h 2001:db8:22::2 hb e2 2001:db8:22::b
link r3 h 2001:db8:33::3 hb e3 2001:db8:33::b
for space in r2 r3; do within "$space" sysctl -qw net.ipv6.conf.all.forwarding=1; done
within ha ip route add default via 2001:db8:a::1
within hb ip address add 2001:db8:b::1/64 dev lo nodad
within hb ip route add default via 2001:db8:33::3
within r2 ip route add 2001:db8:b::/64 via 2001:db8:22::b
within r3 ip route add 2001:db8:b::/64 via 2001:db8:33::b
within r3 ip route add 2001:db8:a::/64 via 2001:db8:13::1

frr() { # SPACE DAEMON OPTIONS...
  local folder=$work/$1
  [[ $2 == zebra ]] || await "zebra of $1" test -S "$folder/zserv"
  start "$1" "$2" "/usr/lib/frr/$2" -f "$folder/$2.conf" -P 0 -z "$folder/zserv" \
    -i "$folder/$2.pid" --vty_socket "$folder" "${@:3}"
}
bgp() { # SPACE AS NEIGHBOUR=AS...
  mkdir "$work/$1"
  echo 'fpm address 127.0.0.1 port 2620' >"$work/$1/zebra.conf"
  {
    echo "router bgp $2"
    echo " bgp router-id 10.0.0.${2: -1}"
    echo ' no bgp ebgp-requires-policy'
    echo ' no bgp network import-check'
    echo ' timers bgp 1 3'
    for peer in "${@:3}"; do
      echo " neighbor ${peer%=*} remote-as ${peer#*=}"
      echo " neighbor ${peer%=*} timers connect 1"
    done
    echo ' address-family ipv6 unicast'
    [[ $1 == r ]] || echo '  network 2001:db8:b::/64'
    for peer in "${@:3}"; do echo "  neighbor ${peer%=*} activate"; done
    [[ $1 != r ]] || echo '  neighbor 2001:db8:12::2 weight 100'
  } >"$work/$1/bgpd.conf"
  chown -R frr:frr "$work/$1"
}
bgp r 65001 2001:db8:12::2=65002 2001:db8:13::3=65003
bgp r2 65002 2001:db8:12::1=65001
bgp r3 65003 2001:db8:13::1=65001
for space in r r2 r3; do
  more=()
  [[ $space != r ]] || more=(-M dplane_fpm_nl)
  frr "$space" zebra "${more[@]}"
  frr "$space" bgpd
done

export PLANB_SERVER=unix://$work/planb.sock
start r server "$bin/server/planb_server" --listen="$PLANB_SERVER" --store=none \
  --metrics_address=
await server grep -q ' serving' "$work/r.server.log"
echo '2001:db8:a::/64 dev a' >"$work/connected.txt"
cat >"$work/feed.yaml" <<END
server: $PLANB_SERVER
sources:
  - {name: connected, kind: file, distance: 1, options: {path: $work/connected.txt}}
  - {name: frr, kind: fpm, distance: 10, options: {quiet: 1s}}
END
start r feed "$work/planb-feed" --config="$work/feed.yaml"
start r router "$bin/examples/router/router" --server="$PLANB_SERVER" "$fib" \
  --interfaces=a,b,c --idle_sleep=50us
router=${pids[-1]}
await router grep -q forwarding "$work/r.router.log"

head -c 20000000 /dev/urandom >"$work/file"
start hb echo "$here/run_probe.py" echo 2001:db8:b::1
start hb http python3 -m http.server --bind 2001:db8:b::1 --directory "$work" 8000
await "way from ha to hb" within ha "$here/run_probe.py" ask 2001:db8:b::1 0.2 1
await "download" within ha curl -sf -m 50 -o "$work/copy" 'http://[2001:db8:b::1]:8000/file'
cmp "$work/file" "$work/copy"
echo "downloaded: $(stat -c %s "$work/copy") bytes, as they were"
(
  sleep 2
  ip -n "r2-$id" link set dev b down
) &
within ha "$here/run_probe.py" ask 2001:db8:b::1 6 1
kill "$router"
await "end of the router" grep -q '^held' "$work/r.router.log"
cat "$work/r.router.log"
grep -q '^held 0$' "$work/r.router.log"
