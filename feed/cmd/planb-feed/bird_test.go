// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/source/sourcetest"
)

// An unnumbered session: both sides have link-local addresses only.
const (
	birdAddress = "fe80::a"
	birdConfig  = `
log stderr { error, fatal, bug };
router id 192.0.2.2;
protocol device {}
protocol static held {
  ipv6;
  include "%s";
}
protocol bgp planb {
  local as 65002;
  neighbor fe80::b%%v0 as 65001;
  passive;
  ipv6 { import none; export all; next hop self; };
}
`
	birdsPeer = `
[[neighbors]]
  [neighbors.config]
    neighbor-interface = "v1"
    peer-as = 65002
  [neighbors.timers.config]
    connect-retry = 1
    idle-hold-time-after-reset = 1
  [neighbors.graceful-restart.config]
    enabled = true
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv6-unicast"
    [neighbors.afi-safis.mp-graceful-restart.config]
      enabled = true
`
)

// What the server has is what BIRD has: at first, after routes went and came, after its
// session went down and up, and after BIRD was killed and started with fewer of them.
func TestAnUnnumberedBIRDIsFollowed(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	bird, err := exec.LookPath("bird")
	if err != nil {
		t.Skip("skipped: Debian's package bird2 is not installed")
	}
	for _, end := range [][2]string{{"v0", birdAddress}, {"v1", "fe80::b"}} {
		sourcetest.Ip(t, "-6 addr flush dev "+end[0], "addr add "+end[1]+"/64 dev "+end[0]+" nodad")
	}
	// GoBGP looks for its neighbour, and may come before BIRD says a word.
	v0, err := net.InterfaceByName("v0")
	sourcetest.Check(t, err)
	sourcetest.Ip(t, "-6 neigh add "+birdAddress+" lladdr "+v0.HardwareAddr.String()+" dev v1 nud permanent")

	folder := t.TempDir()
	routes, config, socket := filepath.Join(folder, "routes"), filepath.Join(folder, "bird.conf"), filepath.Join(folder, "ctl")
	sourcetest.Check(t, os.WriteFile(config, fmt.Appendf(nil, birdConfig, routes), 0o600))
	configure := func(from, to int) {
		t.Helper()
		var text strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&text, "route 2001:db8:%x::/48 blackhole;\n", i)
		}
		sourcetest.Check(t, os.WriteFile(routes, []byte(text.String()), 0o600))
	}
	birdc := func(command string) string {
		t.Helper()
		return sourcetest.Command(t, append([]string{"birdc", "-s", socket}, strings.Fields(command)...)...)
	}
	start := func() func() {
		kill := sourcetest.Start(t, bird, "-f", "-c", config, "-s", socket, "-P", filepath.Join(folder, "pid"))
		eventually(t, "BIRD takes commands", func() bool { return exec.Command("birdc", "-s", socket, "show", "status").Run() == nil })
		return kill
	}

	s := startServer(t, "--store=none")
	f := &feed{t: t, folder: t.TempDir()}
	f.configure(s, fmt.Sprintf("sources:\n  - {name: bird, kind: bgp, options: {quiet: 500ms, file: %s}}\n",
		bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "192.0.2.1", -1)+birdsPeer)))
	f.run()
	client := s.client()
	equal := func(count int) {
		t.Helper()
		want := map[string]string{}
		for line := range strings.Lines(birdc("show route table master6")) {
			if fields := strings.Fields(line); strings.HasPrefix(line, "2001:") {
				want[fields[0]] = "via " + birdAddress + " dev v1"
			}
		}
		if len(want) != count {
			t.Fatalf("BIRD has %d routes, not %d", len(want), count)
		}
		eventually(t, fmt.Sprintf("the server has BIRD's %d routes", count), func() bool { return has(client, want) })
	}

	const count = 1000
	configure(0, count)
	kill := start()
	equal(count)
	eventually(t, "all is told", f.ready)
	configure(100, count)
	birdc("configure")
	equal(count - 100)
	configure(0, count)
	birdc("configure")
	equal(count)

	before := list(client)
	birdc("disable planb")
	for range 10 { // what is lost stays
		time.Sleep(100 * time.Millisecond)
		if got := list(client); !maps.Equal(got, before) {
			t.Fatalf("%d routes after the session went down, not %d", len(got), len(before))
		}
	}
	birdc("enable planb")
	kill()
	configure(0, count-10)
	start()
	equal(count - 10)
	f.stop(unix.SIGTERM)
}
