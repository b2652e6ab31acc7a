#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tries the load tests: a few seconds by run.sh; then what job.yaml runs in a
# cluster, from the image's root file system alone, as the job's user.
#
#   deploy/load/load_test.sh BIN
#
# BIN holds planb_server and planbctl. PLANB_GHZ as for run.sh. No rates are
# judged, only that every call ended with OK. Exit code 77 (skipped) without root.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 1
bin=$(realpath "$1")
need_root "the image's user"
/usr/bin/python3 -c 'import yaml' 2> /dev/null ||
  skip "python3-yaml is not installed"
PLANB_GHZ=${PLANB_GHZ:-$("$here/../go_tool.sh" ghz)}
export PLANB_GHZ
work=$(mktemp -d /tmp/planb_load_test.XXXXXX)
trap cleanup EXIT

"$here/run.sh" "$bin" "$work/reports" 3 > "$work/run.log" 2>&1 ||
  fail "run.sh"
echo "load: run.sh, $(grep -c ': done$' "$work/run.log") runs"

root=$work/root
"$here/image.sh" --files "$root"
mkdir -p "$root/run/planb"
chmod 755 "$work"
chown 65532:65532 "$root/run/planb"
chroot --userspec=65533:65532 "$root" /usr/bin/ghz --version > "$work/ghz.log" \
  2>&1 || skip "no chroot here: $(tail -n 1 "$work/ghz.log")"
start_server server "$bin/planb_server" --store=none --generate=100000 \
  --listen="unix://$root/run/planb/planb.sock" --metrics_address= \
  --unix_socket_owner=65532:65532

# The arguments of the job's container $1, one a line.
job_arguments() {
  /usr/bin/python3 -c '
import sys, yaml
documents = yaml.safe_load_all(open(sys.argv[1]))
(job,) = [d for d in documents if d["kind"] == "Job"]
for container in job["spec"]["template"]["spec"]["containers"]:
    if container["name"] == sys.argv[2]:
        print("\n".join(container["args"]))
' "$here/../kubernetes/loadtest/job.yaml" "$1" | sed 's/^--duration=.*/--duration=3s/'
}
# run_job NAME [OPTION...]: that container, as its user, with nothing around it.
run_job() {
  local name=$1 words
  mapfile -t words < <(job_arguments "$name")
  env -i /usr/sbin/chroot --userspec=65533:65532 "$root" /usr/bin/ghz "${@:2}" \
    "${words[@]}" > "$work/$name.out" 2> "$work/ghz.log" || return
  python3 -B "$here/ghz/report.py" keep "$work/$name.out" \
    "$root/loadtest/$name.json" "$root/loadtest/$name.bin" 0 0 "$work/$name"
  python3 -B "$here/ghz/report.py" summary "$work" "$name" \
    > "$work/summary.log"
}
for name in unary soak; do
  run_job "$name" || fail "the job's container $name"
done
echo "load: the job's two containers, all calls OK"
stop_server server
# The judge must be able to say no: the server has ended.
if run_job unary --connect-timeout=1s; then
  fail "calls without a server passed for answered ones"
fi
echo "right control: without a server, the judge says no"
echo "PASS: load tests"
