# SPDX-License-Identifier: Apache-2.0

# The two commands: `make demo` and `make test`. Both install what is missing
# (Debian 12, as root), build, and do everything else by themselves.
# CONTRIBUTING.md says which of the tests is for whom.

SHELL := /bin/bash
BAZEL := bazel
export PLANB_DATA_DIR ?= $(abspath ../shared/data)

# Where `make run` listens, and what it holds.
SOCKET ?= /tmp/planb.sock
LISTEN ?= unix://$(SOCKET),127.0.0.1:50051
METRICS ?= 127.0.0.1:9464
ROUTES ?= 100000

.PHONY: help setup build demo test check test-long test-emulated bench bench-full wheel site image image-multiarch deb go-module run format compile_commands.json clean

help:
	@echo "make demo    install, build, run a server, look addresses up in it"
	@echo "make test    install, build, run the tests of the product as shipped"
	@echo "make check   what a change has to pass besides: sources, sanitizers, deployment"
	@echo "make test-long  both for longer, and the rest of the deployment's tests"
	@echo "make test-emulated  the engine's tests on older processors and on arm64"
	@echo "make bench   the engine beside every rival, some minutes"
	@echo "make bench-full  the same on all tables and traces"
	@echo "make wheel   the Python package, in dist/"
	@echo "make site    the documentation as a web site, in dist/site"
	@echo "make image   the container image as an archive, in dist/"
	@echo "make image-multiarch   the same for amd64 and arm64 under one name"
	@echo "make deb     the Debian packages, in dist/"
	@echo "make go-module  the Go module with its generated code, in dist/go"
	@echo "make run     a server in the foreground"
	@echo "make format  apply clang-format"

setup:
	@third_party/install.sh

build: setup
	$(BAZEL) build --noshow_progress //server:planb_server //client:planbctl

demo: build
	deploy/demo.sh

test check: setup
	.ci/gate.py $@

test-long: setup
	.ci/gate.py long

test-emulated: setup
	lpm/testing/emulate.sh

# DPDK's tables take part if libdpdk-dev is installed, bart if there is Go.
bench bench-full: setup
	$(BAZEL) build --noshow_progress --config=opt //benchmarks/engine:compare
	if test -e /usr/include/dpdk/rte_fib6.h; then $(BAZEL) build \
	  --noshow_progress --config=opt //benchmarks/engine:compare_dpdk; fi
	if command -v go >/dev/null; then \
	  cd benchmarks/rivals/bart && go build -o bart .; fi
	benchmarks/bench.py $(if $(filter bench-full,$@),--full)

wheel: setup
	client/python/wheel.sh dist

site: build
	docs/site.py dist/site

image: setup
	mkdir -p dist
	deploy/image/image.sh dist/planb-lookup-$$(cat VERSION).tar

image-multiarch: setup
	mkdir -p dist
	deploy/image/image.sh dist/planb-lookup-$$(cat VERSION).oci.tar --multiarch

deb: setup
	deploy/debian/build.sh dist

# To copy, or to name in a replace directive: with the generated messages.
go-module: setup
	GO=$$(deploy/go_tool.sh go) client/go/generate.sh
	rm -rf dist/go && mkdir -p dist && cp -r client/go dist/go

run: build
	@echo "Serving on $(LISTEN), metrics on http://$(METRICS)/metrics"
	@echo "  export PLANB_SERVER=unix://$(SOCKET)"
	@echo "  bazel-bin/client/planbctl/planbctl status"
	@echo "  bazel-bin/client/planbctl/planbctl lookup 2001:db8::1"
	@echo "  bazel-bin/client/planbctl/planbctl announce 2001:db8::/32 7"
	@echo "Ctrl-C drains and ends it."
	@bazel-bin/server/planb_server --listen=$(LISTEN) \
	  --metrics_address=$(METRICS) --generate=$(ROUTES)

format:
	git ls-files '*.h' '*.cc' '*.inc' | xargs clang-format -i

compile_commands.json: build
	third_party/compile_commands.py

clean:
	$(BAZEL) clean
