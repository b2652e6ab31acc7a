#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# A router of this example between hosts, in network namespaces, as root:
#
#        +-- b  r2 --+         BGP between FRR of r and GoBGP of r2 and r3;
#   ha --r           hb        in r: FRR -> planb-feed -> planb_server <- router.
#        +-- c  r3 --+         The kernel of r forwards nothing.
#
#   examples/router/run.sh [--fib=rpc]      # or --fib=local
#
# r3 has the whole world: the table rv6_20260730.txt of PLANB_DATA_DIR (default
# ../shared/data), or 4,096 prefixes that are made up. r2 has but the way to hb, which r
# prefers. The hosts ping, hb as each address of the world; one downloads from the other, and
# asks it a hundred times a second while the link to r2 goes. Needs FRR, libdpdk-dev and what
# planb-feed is built with; GoBGP comes from the module proxy, as feed/go.mod pins it.
set -euo pipefail
cd "$(dirname "$0")/../.."
fib=${1:---fib=rpc}
if [[ $EUID != 0 || ! -e /usr/include/dpdk/rte_ethdev.h || ! -x /usr/lib/frr/zebra ]]; then
  echo "SKIP: root, libdpdk-dev and FRR are needed"
  exit 77
fi
bazel build --noshow_progress //server:planb_server //client/planbctl //examples/router
bin=$(realpath bazel-bin) here=$PWD/examples/router
work=$(mktemp -d /tmp/planb_run.XXXXXX)
chmod 755 "$work"
feed/build.sh "$work"
GO=$(deploy/go_tool.sh go)
gobgp=github.com/osrg/gobgp/v4
version=$(GOTOOLCHAIN=local "$GO" -C feed list -m -f '{{.Version}}' "$gobgp")
GOTOOLCHAIN=local CGO_ENABLED=0 GOBIN=$work "$GO" install "$gobgp/cmd/gobgp@$version" \
  "$gobgp/cmd/gobgpd@$version"
table=$(realpath -m "${PLANB_DATA_DIR:-../shared/data}")/rv6_20260730.txt
if [[ ! -e $table ]]; then
  table=$work/made_up.txt
  for ((i = 0; i < 4096; ++i)); do printf '3fff:%x::/32 1\n' "$i"; done >"$table"
fi

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
  for ((i = 0; i < 1800; ++i)); do
    "${@:2}" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "no $1 within three minutes; logs: $work" && KEEP=yes && tail -n 5 "$work"/*.log
  exit 1
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
within hb ip route add 2001:db8::/32 via 2001:db8:33::3
within hb ip route add local 2000::/3 dev lo table main  # it answers for the world
within r2 ip route add 2001:db8:b::/64 via 2001:db8:22::b
within r3 ip route add 2000::/3 via 2001:db8:33::b
within r3 ip route add 2001:db8:a::/64 via 2001:db8:13::1

frr() { # DAEMON CONFIGURATION OPTIONS...
  echo "$2" >"$work/r/$1.conf"
  start r "$1" "/usr/lib/frr/$1" -f "$work/r/$1.conf" -P 0 -z "$work/r/zserv" \
    -i "$work/r/$1.pid" --vty_socket "$work/r" "${@:3}"
}
mkdir "$work/r"
chown frr:frr "$work/r"
frr zebra 'fpm address 127.0.0.1 port 2620' -M dplane_fpm_nl
await "zebra" test -S "$work/r/zserv"
frr bgpd "
router bgp 65001
 bgp router-id 10.0.0.1
 no bgp ebgp-requires-policy
 neighbor 2001:db8:12::2 remote-as 65002
 neighbor 2001:db8:12::2 timers connect 1
 neighbor 2001:db8:13::3 remote-as 65003
 neighbor 2001:db8:13::3 timers connect 1
 address-family ipv6 unicast
  neighbor 2001:db8:12::2 activate
  neighbor 2001:db8:12::2 weight 100
  neighbor 2001:db8:13::3 activate"
for i in 2 3; do
  cat >"$work/gobgp$i.toml" <<END
[global.config]
  as = 6500$i
  router-id = "10.0.0.$i"
[[neighbors]]
  [neighbors.config]
    neighbor-address = "2001:db8:1$i::1"
    peer-as = 65001
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv6-unicast"
END
  start "r$i" gobgpd "$work/gobgpd" -f "$work/gobgp$i.toml" --pprof-disable
  await "GoBGP of r$i" within "r$i" "$work/gobgp" global rib add -a ipv6 2001:db8:b::/64 \
    nexthop "2001:db8:1$i::$i"
done
"$here/run_probe.py" world "$table" 2001:db8:13::3 "$work/world.mrt"

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
routes=$(($(wc -l <"$table") + 2))  # and the hosts'
complete() {
  "$bin/client/planbctl/planbctl" table list | grep -qw "$routes"
}
began=$(date +%s.%N)
within r3 "$work/gobgp" mrt inject global "$work/world.mrt"
await "table of $routes routes" complete
zebra=$(vtysh --vty_socket "$work/r" -d zebra -c 'show ipv6 route summary')
awk -v began="$began" -v now="$(date +%s.%N)" -v table="${table##*/}" -v routes="$routes" '
  $1 == "ebgp" {
    printf "GoBGP announces %s, zebra has %d routes of BGP, the server %d after %.1f s\n",
      table, $2, routes, now - began
  }' <<<"$zebra"
start r router "$bin/examples/router/router" --server="$PLANB_SERVER" "$fib" \
  --interfaces=a,b,c --idle_sleep=50us
router=${pids[-1]}
await router grep -q forwarding "$work/r.router.log"

probe() { within "$1" "$here/run_probe.py" "${@:2}"; } # SPACE ARGUMENTS...
head -c 20000000 /dev/urandom >"$work/file"
start hb http python3 -m http.server --bind 2001:db8:b::1 --directory "$work" 8000
await "way from ha to hb" probe ha ask 2001:db8:a::2 2001:db8:b::1 0.2 1
if [[ -n $(type -P ping) ]]; then
  within ha ping -6 -c 20 -i 0.05 -I 2001:db8:a::2 2001:db8:b::1 | tail -n 2
  within hb ping -6 -c 20 -i 0.05 -I 2001:db8:b::1 2001:db8:a::2 | tail -n 2
else
  probe ha ask 2001:db8:a::2 2001:db8:b::1 1 1
  probe hb ask 2001:db8:b::1 2001:db8:a::2 1 1
fi
probe ha visit "$table" 2000
await "download" within ha curl -sf -m 50 -o "$work/copy" 'http://[2001:db8:b::1]:8000/file'
cmp "$work/file" "$work/copy"
echo "downloaded: $(stat -c %s "$work/copy") bytes, as they were"
(
  sleep 2
  ip -n "r2-$id" link set dev b down
) &
probe ha ask 2001:db8:a::2 2001:db8:b::1 6 1
probe ha visit "$table" 2000
# None came to a router or a host that it is not for.
strays=0
for of in r2:NoRoutes r3:NoRoutes ha:AddrErrors hb:AddrErrors; do
  count=$(within "${of%:*}" awk -v name="Ip6In${of#*:}" '$1 == name {print $2}' /proc/net/snmp6)
  strays=$((strays + count))
done
echo "$strays strays"
kill "$router"
await "end of the router" grep -q '^held' "$work/r.router.log"
cat "$work/r.router.log"
grep -q '^held 0$' "$work/r.router.log"
[[ $strays == 0 ]]
