# SPDX-License-Identifier: Apache-2.0

"""Which command blocks of the documents run, how, and why the others do not.

commands_test.py reads this. A block is known by its document and by how its first
line begins. Each block is in a session or in NOT_RUN.
"""

import dataclasses

# What becomes of a block, as shell.
SHELL = "{block}"
PYTHON = "cat > /tmp/block.py << 'BLOCK_END'\n{block}\nBLOCK_END\npython3 /tmp/block.py"
YAML = "cat > /tmp/block.yaml << 'BLOCK_END'\n{block}\nBLOCK_END"
GO = """cat > /tmp/program/main.go << 'BLOCK_END'
package main

import (
	"context"
	"fmt"
	"net/netip"

	planb "planb.dev/lookup/client/go"
)

func main() {
	ctx := context.Background()
{block}
	fmt.Println(nextHops, err)
}
BLOCK_END
go vet . && go run . | grep '^\\[7\\] <nil>$'"""
SERVER = """export PLANB_SERVER=unix:///tmp/planb.sock
planb_server --listen=$PLANB_SERVER --store=none --generate=1000 &
until planbctl health 2> /dev/null; do sleep 0.1; done"""
STOP = "kill %planb_server; wait %planb_server"


@dataclasses.dataclass(frozen=True)
class Session:
    """Blocks of a document, run in their order by one shell.

    The shell's folder is the repository's, and /tmp/ is a folder of its own. A command
    has to exit with 0, or with the status that its comment names.
    """

    document: str
    # Beginnings of first lines, and what becomes of these blocks; none: all as they are.
    blocks: dict = dataclasses.field(default_factory=dict)
    before: str = ""
    after: str = ""
    # What the reader puts in for what is there.
    replace: dict = dataclasses.field(default_factory=dict)
    # Beginnings of commands that do not run, or with --long only, and why.
    without: dict = dataclasses.field(default_factory=dict)
    long: dict = dataclasses.field(default_factory=dict)
    # As packages.sh wants them, and as go_tool.sh fetches them; without them the
    # session is skipped.
    needs: tuple = ()
    modules: tuple = ()
    root: bool = False


# Why a block or a command does not run.
_DIAGRAM = "is no command"
_GATE = "is a step of make check"
_LONG = "is a step of make test-long"
_MINUTES = "builds or runs for minutes"
_MEASURES = "measures: it wants a machine of its own, minutes and often real tables"
_CLUSTER = "needs a cluster; deploy/kubernetes/apply_test.sh has an API server"
_DPDK = "needs libdpdk-dev and root"
_MACHINE = "changes the machine: packages, users, services"
_IMAGE = "needs an image, root and a container engine; deploy/image/pod_test.sh has them"

SESSIONS = [
    Session("README.md", {
        "make build": SHELL, "PATH=$PATH:$(dirname": SHELL,
        "planbctl generate --routes=100000 /tmp": SHELL, "for i in 1 2 3": SHELL,
        "planb_server --listen=unix:///tmp/planb4": SHELL,
    }, needs=("etcd:etcd-server", "curl"),
        without={"make build": "it is built"},
        long={"PATH=$PATH:$(dirname": "builds grpcurl for minutes",
              "grpcurl": "needs the line before"}),
    Session("docs/guides/sidecar.md", before="""
kubectl() {  # apply -k FOLDER
  kustomize=$(deploy/go_tool.sh kustomize) && "$kustomize" build "$3" > /tmp/rendered.yaml &&
    deploy/kubernetes/manifest_rules.py /tmp/rendered.yaml
}""", without={
        "make image": _IMAGE, "kind load": _IMAGE, "kubectl rollout": _CLUSTER,
        "in_pod=": _CLUSTER, "$in_pod": _CLUSTER,
    }, needs=("import.yaml:python3-yaml", "import.numpy:python3-numpy")),
    Session("docs/guides/flow-enrichment.md", needs=("import.numpy:python3-numpy",),
            modules=("github.com/netsampler/goflow2/v2@v2.2.6",)),
    Session("docs/guides/replicas.md", needs=("etcd:etcd-server",), without={
        "deploy/kubernetes/certificates.sh": _CLUSTER, "kubectl": _CLUSTER}),
    Session("docs/guides/router.md", {
        "feed/build.sh": SHELL, "cat >": SHELL, "echo 'fpm": SHELL, "static()": SHELL,
        "kill -9": SHELL}, needs=("vtysh:frr", "ip:iproute2", "curl"), root=True,
            before="chmod 755 /tmp/"),
    Session("docs/guides/route-reflector.md", {
        "feed/build.sh": SHELL, "cat >": SHELL, "vtysh": SHELL, "kill -9": SHELL},
            needs=("vtysh:frr", "curl"), root=True, before="chmod 755 /tmp/"),
    Session("client/python/README.md", {"make wheel": SHELL, "import numpy": PYTHON},
            before=SERVER + """
python3 -m venv --system-site-packages --without-pip /tmp/venv
pip() { /usr/bin/python3 -m pip --python=/tmp/venv/bin/python "$@"; }
python3() { /tmp/venv/bin/python "$@"; }""", after=STOP,
            replace={"/run/planb/": "/tmp/", "pip install": "pip install --quiet "
                     "--no-index --no-deps --disable-pip-version-check "}),
    Session("client/go/README.md", {"make go-module": SHELL, "client, err :=": GO},
            before=SERVER + """
PATH=$(dirname "$(deploy/go_tool.sh go)"):$PATH
go() { GOFLAGS=-mod=mod GOTOOLCHAIN=local command go -C /tmp/program "$@"; }
mkdir /tmp/program && (cd /tmp/program && command go mod init program 2> /dev/null)""",
            after=STOP, replace={"/run/planb/": "/tmp/", "=PATH/": "=$PWD/"}),
    Session("feed/README.md", {"feed/build.sh": SHELL, "server: unix": YAML,
                               "/tmp/planb-feed --config": SHELL},
            before=SERVER, after="wait %?planb-feed\n" + STOP,
            replace={"/run/planb/": "/tmp/", "=feed.yaml": "=/tmp/block.yaml"},
            needs=("curl",)),
    Session("deploy/README.md", {"planbctl snapshot export table.plb": SHELL},
            before=SERVER, after=STOP, replace={"table.plb": "/tmp/table.plb"}),
    Session("deploy/README.md", {"images:": YAML}, after="""
cp -r deploy/kubernetes /tmp/kubernetes
kustomization=/tmp/kubernetes/sidecar/kustomization.yaml
sed -i '/^images:/,$d' $kustomization && cat /tmp/block.yaml >> $kustomization
diff $kustomization deploy/kubernetes/sidecar/kustomization.yaml"""),
    Session("deploy/RUNBOOK.md", {"export PLANB_SERVER=": SHELL}, before=SERVER, after=STOP,
            replace={"/run/planb/": "/tmp/"}, needs=("curl",),
            without={"journalctl": "the server is no service of systemd's"}),
    Session("deploy/kubernetes/policy/README.md", {
        "planb_server --authorization_policy=policy": SHELL,
        "planb_server --authorization_policy=sidecar": SHELL,
    }, replace={"planb_server ": "planb_server --check_config ", " ...": "",
                "=policy.json": "=deploy/kubernetes/policy/cluster.json",
                "=sidecar.json": "=deploy/kubernetes/policy/sidecar.json",
                "/run/planb/": "/tmp/", "/run/planb-control/": "/tmp/control-"}),
    Session("deploy/monitoring/README.md", {
        "deploy/monitoring/dashboard.py >": SHELL, "deploy/monitoring/kubernetes.py": SHELL,
        "planb_server --otlp_endpoint": SHELL, "promtool": SHELL,
    }, before="""PATH=$PATH:$(deploy/monitoring/prometheus.sh)
kubectl() {
  python3 -c 'import sys, yaml; assert len(list(yaml.safe_load_all(sys.stdin))) == 2'
}""", after="python3 -m json.tool /tmp/dashboard.json > /tmp/read_again",
            replace={"dashboard.json": "/tmp/dashboard.json", " ...": "",
                     "planb_server ": "planb_server --check_config "},
            needs=("import.yaml:python3-yaml",)),
    Session("deploy/systemd/README.md", {"PLANB_FLAGS=--listen": SHELL},
            before="openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
                   "-nodes -subj /CN=x -keyout /tmp/key.pem -out /tmp/cert.pem 2> /dev/null",
            replace={"PLANB_FLAGS=": "planb_server --check_config ",
                     "/etc/planb/": "/tmp/", "/run/planb/": "/tmp/"},
            needs=("openssl",)),
    Session("server/README.md", {
        "# /etc/planb/planb.yaml": YAML, "PLANB_MAX_ROUTES=": SHELL,
    }, after="""planb_server config print --config=/tmp/block.yaml > /tmp/printed
grep '^max_routes: "2000000"$' /tmp/printed""",
            replace={"/etc/planb/planb.yaml": "/tmp/block.yaml", "/run/planb/": "/tmp/",
                     "planb_server --config": "planb_server --check_config --config"}),
    Session("server/STORE.md", before="""export PLANB_SERVER=unix:///tmp/planb.sock
planb_server --listen=$PLANB_SERVER --store=/tmp/planb.db --metrics_address= &
until planbctl health 2> /dev/null; do sleep 0.1; done
planbctl announce 2001:db8::/32 7
mkdir /tmp/backup""", after=STOP + """
planb_server --listen=$PLANB_SERVER --store=/tmp/backup/planb.db --metrics_address= &
until planbctl health 2> /dev/null; do sleep 0.1; done
planbctl lookup 2001:db8::1
""" + STOP, needs=("sqlite3",),
            replace={" PATH ": " /tmp/planb.db ", "/backup/": "/tmp/backup/"}),
    # What the tests are given.
    Session("deploy/edge/README.md", {"bazel build //server": SHELL},
            replace={" bin": " /tmp/bin"}, without={"deploy/edge/edge_test.sh": _GATE}),
    Session("deploy/load/README.md", {"make build": SHELL}, replace={" bin": " /tmp/bin"},
            without={"make build": "it is built"}),
    Session("deploy/monitoring/README.md", {"mkdir bin": SHELL},
            replace={" bin": " /tmp/bin"},
            without={"deploy/monitoring/prometheus_test.sh": _LONG,
                     "feed/build.sh": "is run by feed/README.md"}),
    Session("deploy/systemd/README.md", {"mkdir bin": SHELL}, replace={" bin": " /tmp/bin"},
            without={"deploy/systemd/systemd_test.sh": _LONG,
                     "feed/build.sh": "is run by feed/README.md"}),
]

# Blocks that are C++, and the test that has their lines, and so compiles and runs them.
CXX = {"client/README.md": {'#include "client/local_table.h"': "client/local_table_test.cc"}}

NOT_RUN = {
    "CONTRIBUTING.md": {
        "make setup": _MACHINE,
        "bazel test": _MINUTES,
        "make format": _GATE,
        "third_party <- base": _DIAGRAM,
        "room: what it does": _DIAGRAM,
    },
    "README.md": {"make demo": _GATE, "make image": _IMAGE, "proto/ ": _DIAGRAM},
    "examples/router/README.md": {
        "port -> RX": _DIAGRAM,
        "apt-get install --no-install-recommends libdpdk-dev": _MACHINE,
        "examples/router/run.sh": _DPDK,
        "GoBGP announces": _DIAGRAM,
        "PLANB_ROUTER_PACKETS=": _DPDK,
        "examples/router/measure.sh": _MEASURES,
    },
    "benchmarks/README.md": {
        "bazel build --config=opt": _MEASURES,
        "PLANB_DATA_DIR=": _MEASURES,
        "apt-get install --no-install-recommends libdpdk-dev": _MACHINE,
        "make bench": _MEASURES,
        "for i in 1 2 3 4 5 6 7": _MEASURES,
    },
    "benchmarks/serving/README.md": {
        "benchmarks/serving/hostile.sh": _MEASURES,
    },
    "benchmarks/serving/rpc/README.md": {
        "bazel build": _MEASURES,
        "benchmarks/plot.py": "draws over results, by matplotlib",
    },
    "benchmarks/serving/visibility/README.md": {
        "bazel build": _MEASURES, "planb_server": _MEASURES, "for i in": _MEASURES},
    "client/go/README.md": {"planb_server": _MEASURES},
    "client/python/README.md": {"planb_server": _MEASURES},
    "deploy/README.md": {
        "make image": _IMAGE,
        "ctr -n k8s.io": _IMAGE,
        "deploy/image/image.sh": _IMAGE,
        "kubectl": _CLUSTER,
        "helm install": _CLUSTER,
        "deploy/kubernetes/certificates.sh": _CLUSTER,
        "request = 48 MiB": _DIAGRAM,
        "deploy/test.sh": _GATE,
    },
    "deploy/RUNBOOK.md": {"kubectl": _CLUSTER},
    "docs/SCALE.md": {"benchmarks/serving/visibility/followers.py": _MEASURES},
    "deploy/edge/README.md": {"apt-get install haproxy": _MACHINE},
    "deploy/load/README.md": {
        "deploy/load/run.sh": _LONG,
        "deploy/load/image.sh": _CLUSTER,
        "deploy/load/soak.py": _LONG,
    },
    "deploy/systemd/README.md": {
        "make deb": _MACHINE,
        "bazel build": _MACHINE,
        "planb-feed --check": _MACHINE,
        "feed/build.sh": _MACHINE,
        "[Service]": _DIAGRAM,
    },
    "docs/guides/router.md": {
        "apt-get": _MACHINE, "deploy/image/image.sh": _CLUSTER, "bazel build": _DPDK},
    "docs/guides/route-reflector.md": {"apt-get": _MACHINE},
    "docs/ARCHITECTURE.md": {"proto/planb/v1 ": _DIAGRAM, "base <- proto": _DIAGRAM},
    "lpm/README.md": {"routes": _DIAGRAM},
    "server/METRICS.md": {"PLANB_WRITE_METRICS=1": "writes the document; make test checks it"},
    "server/README.md": {"socket ->": _DIAGRAM, "decoded ->": _DIAGRAM},
}
