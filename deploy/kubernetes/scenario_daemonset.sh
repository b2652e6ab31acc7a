# SPDX-License-Identifier: Apache-2.0

# shellcheck shell=bash disable=SC2154
# A node's server is killed and upgraded under a consumer in another pod.
# Sourced by node_test.sh.

space=planb-node
apply daemonset
await "the node's server" \
  kubectl -n $space rollout status daemonset/planb-lookup --timeout=5s
await "the consumer" \
  kubectl -n $space rollout status deployment/consumer --timeout=5s
one=$(pod $space planb-lookup)
consumer=$(pod $space consumer)
goes_on $space "$one"
say "daemonset: ready, its consumer in another pod looks up"
seen=$(stat --format='%u:%g %a' "$work/host/planb" "$work/host/planb/planb.sock" |
  paste -sd ' ')
[[ "$seen" == "0:65532 775 65532:65532 660" ]] || fail "folder and socket: $seen"
follow $space "$consumer" consumer
kill_server $space "$one"
await "the restart" is_ready $space "$one" 1
goes_on $space "$one"
say "daemonset: killed with -9, restarted, lookups go on"
kubectl -n $space set image daemonset/planb-lookup \
  planb-server=localhost/planb-lookup:next > /dev/null 2>&1
await "the upgrade" \
  kubectl -n $space rollout status daemonset/planb-lookup --timeout=5s
two=$(pod $space planb-lookup)
[[ "$two" != "$one" ]] || fail "the upgrade made no new pod"
goes_on $space "$two"
say "daemonset: upgraded to another image, lookups go on"
kubectl -n $space delete pod "$consumer" > /dev/null
sleep 1
sound "$work/$consumer.consumer.out" 2
