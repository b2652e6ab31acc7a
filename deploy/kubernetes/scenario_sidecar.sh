# SPDX-License-Identifier: Apache-2.0

# shellcheck shell=bash disable=SC2154
# A sidecar is killed, upgraded within its pod, and rolled out. Sourced by
# node_test.sh.

space=planb-sidecar
apply sidecar
await "the sidecar's pod" \
  kubectl -n $space rollout status deployment/network-function --timeout=5s
one=$(pod $space network-function)
say "sidecar: ready"
goes_on $space "$one"
function_id() {
  kubectl -n $space get pod "$1" \
    -o 'jsonpath={.status.containerStatuses[?(@.name=="function")].containerID}'
}
before=$(function_id "$one")
follow $space "$one" function
follow $space "$one" planb-server

for kill in 1 2; do
  kill_server $space "$one"
  await "restart $kill" is_ready $space "$one" $kill
  goes_on $space "$one"
  say "sidecar: killed with -9, restarted, lookups go on"
done

kubectl -n $space patch pod "$one" --type=strategic --patch \
  '{"spec": {"initContainers": [{"name": "planb-server", "image":
    "localhost/planb-lookup:next"}]}}' > /dev/null
await "the new image" is_ready $space "$one" 3
[[ "$(server $space "$one" image)" == *:next ]] || fail "the image is the old one"
goes_on $space "$one"
[[ "$(function_id "$one")" == "$before" ]] || fail "the function was restarted"
say "sidecar: upgraded to another image within the pod, lookups go on"
follow $space "$one" planb-server

# The ordinary way: a pod with the new image comes, then the old one goes.
kubectl -n $space set image deployment/network-function \
  planb-server=localhost/planb-lookup:next > /dev/null
await "the rollout" \
  kubectl -n $space rollout status deployment/network-function --timeout=5s
await "the old pod's end" \
  bash -c "! kubectl -n $space get pod $one > /dev/null 2>&1"
two=$(pod $space network-function)
[[ "$two" != "$one" ]] || fail "the rollout made no new pod"
goes_on $space "$two"
sleep 1 # For the end of the log.
sound "$work/$one.function.out" 3
grep -q ' drained' "$work/$one.planb-server.out" ||
  fail "the sidecar did not drain: $(tail -n 3 "$work/$one.planb-server.out")"
# Time stamps of one clock, the runtime's: the function ends first.
ended=$(tail -n 1 "$work/$one.function.out" | cut -d ' ' -f 1)
draining=$(grep ' draining' "$work/$one.planb-server.out" | cut -d ' ' -f 1)
[[ "$ended" < "$draining" ]] ||
  fail "the server drained at $draining, the function ended at $ended"
say "sidecar: rolled out; the function ended first, then its server drained"
kubectl delete namespace $space --wait=false > /dev/null
