#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests everything in deploy/: the manifests, the Debian packages, the image, the
# pod, what watches the server, and the server under load.
#
#   deploy/test.sh [--short] [FOLDER]
#
# --short leaves out what takes minutes: the image and its pod, the API server,
# Prometheus, load, upgrade, soak.
#
# FOLDER holds planb_server, planbctl and, for the step `edge`, hostile_attacker;
# without it Bazel builds them. planb-feed is built if it is not there. As root on Debian it installs the packages it
# misses. Each step says PASS, FAIL, or SKIP with the reason; the exit code is 0
# if none failed. PLANB_KUBERNETES=yes also builds a real API server, for
# minutes, unless it was built before.
set -euo pipefail
shopt -s inherit_errexit
short=''
if [[ ${1:-} == --short ]]; then
  short=yes
  shift
fi
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

declare -a summary long=()
[[ -n $short ]] || long=(--long)
failed=0
# step NAME COMMAND...
step() {
  local name=$1 code=0 started=$SECONDS verdict
  shift
  echo "== $name"
  "$@" 2>&1 | tee "$work/out" || code=$?
  case $code in
    0) verdict=PASS ;;
    77) verdict="SKIP ($(sed -n 's/^SKIP: //p' "$work/out" | tail -n 1))" ;;
    *)
      verdict="FAIL (exit code $code)"
      failed=1
      ;;
  esac
  summary+=("$(printf '%-12s %3d s  %s' "$name" $((SECONDS - started)) \
    "$verdict")")
}

# shellcheck disable=SC2317 # `step` calls it.
pod_step() {
  if [[ ! -s "$work/planb.tar" ]]; then
    echo "SKIP: there is no image"
    return 77
  fi
  "$here/image/pod_test.sh" "$work/planb.tar" "$work/rendered/sidecar.yaml"
}

# The pod of the overlay `router` once more, with its forwarder, which is built here.
# shellcheck disable=SC2317 # `step` calls it.
router_step() {
  if [[ ! -e /usr/include/dpdk/rte_ethdev.h ]]; then
    echo "SKIP: libdpdk-dev is not installed"
    return 77
  fi
  (cd "$here/.." && bazel build --noshow_progress --config=static //examples/router) ||
    return
  cp -L "$here/../bazel-bin/examples/router/router" "$work/bin/planb_router"
  mkdir "$work/router"
  cp "$work/rendered/router.yaml" "$work/router"
  "$here/kubernetes/rendered_test.py" "$work/bin" "$work/router"
}

# The programs of the image, in $work/bin, and what attacks them.
# shellcheck disable=SC2317 # `step` calls it.
binaries_step() {
  local from=${1:-}
  mkdir "$work/bin"
  if [[ -z "$from" ]]; then
    (cd "$here/.." && bazel build --noshow_progress --config=static \
      //server:planb_server //client:planbctl //server/testing:hostile_attacker) ||
      return
    cp -L "$here"/../bazel-bin/server/{planb_server,testing/hostile_attacker} \
      "$here"/../bazel-bin/client/planbctl/planbctl "$work/bin"
  else
    cp -L "$from"/planb_server "$from"/planbctl "$work/bin"
    if [[ -x "$from/hostile_attacker" ]]; then
      cp -L "$from/hostile_attacker" "$work/bin"
    fi
  fi
  cp -L "$from/planb-feed" "$work/bin" 2> /dev/null || "$here/../feed/build.sh" "$work/bin"
}

step manifests "$here/kubernetes/validate.sh" "$work/rendered"
step rules "$here/monitoring/rules_test.sh"
step dashboard "$here/monitoring/dashboard_test.py"
step binaries binaries_step "$@"
step metrics "$here/monitoring/metrics_test.sh" "$work/bin"
step pages "$here/monitoring/statusz_test.sh" "$work/bin"
step edge "$here/edge/edge_test.sh" "$work/bin"
step secrets "$here/kubernetes/certificates_test.sh" "$work/bin"
step arguments "$here/kubernetes/rendered_test.py" "$work/bin" "$work/rendered"
# Not optimized: those programs are built already.
PLANB_DEB_CONFIG="" step debian "$here/debian/test.sh" "${long[@]}"
if [[ -z $short ]]; then
  step api "$here/kubernetes/apply_test.sh" "$work/rendered"
  step image "$here/image/image.sh" "$work/planb.tar" "$@"
  step pod pod_step
  step router router_step
  step router-image "$here/image/image.sh" "$work/router.tar" --router
  step multiarch "$here/image/image.sh" "$work/planb.oci.tar" --multiarch
  # The formula for memory, on a small table here.
  step sizing "$here/kubernetes/sizing.py" --routes=100000 --quota=67108864 \
    --check="$work/bin"
  step prometheus "$here/monitoring/prometheus_test.sh" "$work/bin"
  step helm "$here/helm/test.sh" "$work/bin"
  step systemd "$here/systemd/systemd_test.sh" "$work/bin"
  step load "$here/load/load_test.sh" "$work/bin"
  step upgrade "$here/load/upgrade_test.sh" "$work/bin"
  step soak "$here/load/soak_test.sh" "$work/bin"
fi

echo "== deploy/test.sh"
printf '%s\n' "${summary[@]}"
exit "$failed"
