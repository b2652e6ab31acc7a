#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests the Helm chart with the real helm, without a cluster.
#
#   deploy/helm/test.sh [FOLDER]
#
# Helm lints and renders it, as it is and with other values; the manifests must
# be valid for Kubernetes and keep the rules that the overlays keep, and values
# that cannot work must be refused. With a FOLDER that has planb_server,
# planbctl and planb-feed, these use the certificates that the chart makes, and become ready
# with its arguments. helm and kubeconform come
# from the Go module proxy, pinned by deploy/go_tool.sh.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 0 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly CHART=$here/planb-lookup
kubernetes=$(sed -n 's/^readonly KUBERNETES=//p' "$here/../kubernetes/validate.sh")
schemas=$here/../../.cache/kubeconform/v$kubernetes
[[ -d "$schemas" ]] || "$here/../kubernetes/validate.sh" > /dev/null
"$here/../packages.sh" import.yaml:python3-yaml
mapfile -t tools < <("$here/../go_tool.sh" helm kubeconform)
helm=${tools[0]} kubeconform=${tools[1]}
export HELM_CACHE_HOME=$work/cache HELM_CONFIG_HOME=$work/config HELM_DATA_HOME=$work/data

version=$(< "$here/../../VERSION")
for field in version appVersion; do
  grep -qx "$field: $version" "$CHART/Chart.yaml" ||
    fail "$field of the chart is not $version"
done
"$helm" lint --strict "$CHART" > "$work/lint.log" 2>&1 || fail "helm lint"

# render NAME ARGUMENTS...: as release `routes` in the namespace `planb`.
render() {
  "$helm" template routes "$CHART" --namespace planb --kube-version "$kubernetes" "${@:2}" \
    > "$work/$1.yaml" 2> "$work/render.log"
}
printf '{"name": "p", "allow_rules": [{"name": "all"}]}' > "$work/policy.json"
render default || fail "the chart does not render"
printf '2001:db8::/32 7\n' > "$work/routes.txt"
# Helm reads a number of a values file as floating point, and one of --set as it is.
cat > "$work/values.yaml" << 'VALUES'
flags:
  max_tables: 1000000
  etcd_ca: /etc/planb/etcd/ca.crt
extraVolumes:
  - name: etcd
    secret: {secretName: etcd-client}
extraVolumeMounts:
  - {name: etcd, mountPath: /etc/planb/etcd, readOnly: true}
VALUES
render more -f "$work/values.yaml" --set replicas=3 --set tls.secretName=own --set-file routes="$work/routes.txt" --set autoscaling.enabled=true \
  --set networkPolicy.enabled=false --set podDisruptionBudget=false \
  --set-file authorizationPolicy="$work/policy.json" \
  --set 'flags.store=etcd://etcd-0.etcd:2379\,etcd-1.etcd:2379/planb' \
  --set flags.log_level=debug --set image.repository=registry.example/planb-lookup \
  --set 'tolerations[0].key=dataplane' --set nodeSelector.pool=network ||
  fail "other values do not render"
cat > "$work/feed.values.yaml" << 'VALUES'
feed:
  enabled: true
  config:
    stale_time: 10m
    sources:
      - {name: routes, kind: file, options: {path: /etc/planb/feed/routes.txt}}
  files:
    routes.txt: "2001:db8::/32 via fe80::1 dev eth0\n"
networkPolicy:
  ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}], ports: [{port: 1179}]}]
VALUES
render feed -f "$work/feed.values.yaml" || fail "with a feed: $(< "$work/render.log")"
if grep -q -- '--routes=' "$work/feed.yaml"; then
  fail "there are routes where the feed brings them"
fi
for line in 'cidr: 192.0.2.0/24' '- port: feed' 'stale_time: 10m' 'value: 900MiB'; do
  grep -qF -- "$line" "$work/feed.yaml" || fail "with a feed no $line"
done
if render nothing --set feed.enabled=true; then
  fail "a feed of nothing"
fi
# One table has one feed, and a server that follows takes no routes.
store=flags.store=etcd://etcd.etcd:2379/planb
for values in "$store" "$store,replicas=1,autoscaling.enabled=true" \
  flags.follow=dns:///leader:50051,replicas=1; do
  if render unfed -f "$work/feed.values.yaml" --set "networkPolicy.enabled=false,$values"; then
    fail "a feed with $values"
  fi
  grep -q 'feed.enabled' "$work/render.log" || fail "refused, but not so: $values"
done
render one -f "$work/feed.values.yaml" --set "networkPolicy.enabled=false,$store,replicas=1" ||
  fail "one feed with a store: $(< "$work/render.log")"
for manifests in default more feed; do
  "$kubeconform" -strict -summary -schema-location \
    "$schemas/{{.ResourceKind}}{{.KindSuffix}}.json" "$work/$manifests.yaml" ||
    fail "$manifests is not valid"
done
for line in '"--store=etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/planb"' \
  "registry.example/planb-lookup:$version" 'name: routes-authorization' \
  'kind: HorizontalPodAutoscaler' 'secretName: own' \
  '"--max_tables=1000000"' '"--etcd_ca=/etc/planb/etcd/ca.crt"' \
  'secretName: etcd-client' 'mountPath: /etc/planb/etcd' \
  '--routes=/etc/planb/routes/routes.txt' 'routes.txt: "2001:db8::/32 7\n"'; do
  grep -qF -- "$line" "$work/more.yaml" || fail "no $line"
done
if grep -q 'NetworkPolicy\|PodDisruptionBudget\|^  replicas:\|kind: Secret' "$work/more.yaml"; then
  fail "what was switched off is there"
fi
# The Secrets that the values name are there.
printf -- '---\n{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: planb}}\n' \
  own etcd-client >> "$work/more.yaml"
"$here/../kubernetes/manifest_rules.py" "$work/default.yaml" "$work/more.yaml" \
  "$work/feed.yaml" ||
  fail "rules broken"

# As it is, it has all that its pods mount, and routes to be ready with.
grep -q 'secretName: routes-tls' "$work/default.yaml" || fail "no Secret of its own"
grep -q -- '--routes=/etc/planb/routes/routes.txt' "$work/default.yaml" ||
  fail "no routes to start with"
render fed --set routes= || fail "the chart does not render without routes"
if grep -q -- '--routes=\|name: routes-routes' "$work/fed.yaml"; then
  fail "there are routes where a feeder brings them"
fi
if [[ -n "${1:-}" ]]; then
  "$here/../kubernetes/certificates_test.sh" "$1" "$work/default.yaml" routes-tls \
    routes-client-tls
  mkdir "$work/rendered"
  cp "$work/default.yaml" "$work/rendered/chart.yaml"
  cp "$work/feed.yaml" "$work/rendered/chart-with-feed.yaml"
  "$here/../kubernetes/rendered_test.py" "$1" "$work/rendered"
fi

# A pod has time for what its server's drain may take.
render slow --set flags.drain_timeout=60s || fail "the chart does not render a long drain"
"$here/../kubernetes/manifest_rules.py" "$work/slow.yaml" || fail "a long drain is cut"

# Values that cannot work.
if render minute --set flags.drain_timeout=1m; then
  fail "a drain of which the chart does not know how long it is"
fi
render latest --set image.tag=latest
render small --set flags.max_table_memory_bytes=4GiB
for spoilt in latest small; do
  if "$here/../kubernetes/manifest_rules.py" "$work/$spoilt.yaml" > "$work/rules.log"; then
    fail "$spoilt passed for sound"
  fi
done
# What the network policy would cut off is said at once; with `egress` it renders.
for flag in store=etcd://etcd.etcd:2379/planb follow=dns:///leader:50051 \
  otlp_endpoint=collector:4317; do
  if render cut --set "flags.$flag"; then
    fail "--$flag behind a network policy without egress"
  fi
  grep -q 'networkPolicy.egress' "$work/render.log" || fail "refused, but not so: $flag"
  render let --set "flags.$flag" --set 'networkPolicy.egress[0].ports[0].port=53' ||
    fail "--$flag with networkPolicy.egress"
done
echo "PASS: the chart"
