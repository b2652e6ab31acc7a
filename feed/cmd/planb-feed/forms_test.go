// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/source/sourcetest"
)

// What iproute2 6.1 and BIRD 2.0 print.
var printed = map[string]string{
	"ip route": `default via 192.0.2.254 dev eth0 proto static linkdown
10.9.0.0/16 linkdown
	nexthop via 192.0.2.1 dev eth0 weight 3 linkdown
	nexthop via 10.50.0.2 dev eth1 weight 1 linkdown
10.10.0.0/16 via inet6 fe80::1 dev eth0
10.60.0.0/24 dev eth2 proto kernel scope link src 10.60.0.1 linkdown
blackhole 198.51.100.0/24
203.0.113.7 via 192.0.2.9 dev ppp#0
`,
	"ip -6 route": `2001:db8::/64 dev eth0 proto kernel metric 256 pref medium
2001:db8:4::/48 metric 1024 pref medium
	nexthop via 2001:db8::9 dev eth0 weight 1
	nexthop via fe80::2 dev eth1 weight 4
`,
	"birdc show route all": `BIRD 2.0.12 ready.
Table master6:
2001:db8::/32        unicast [b6 11:02:08.558 from fe80::7] * (100) [AS64500i]
	via fe80::1 on eth0
	Type: BGP univ
	BGP.as_path: 64500 {64501 64502} 3
                     unicast [c6 11:02:08.558] (90)
	via fe80::2 on eth0
2001:db8:1::/48      unreachable [s6 11:02:08.558] * (200)
`,
}

// A file in each form that `planbctl load` reads without a flag says to the feed what it says to planbctl.
func TestAFileOfEachFormIsRead(t *testing.T) {
	t.Parallel()
	planbctl := filepath.Join(filepath.Dir(os.Getenv("PLANB_SERVER_BINARY")), "planbctl")
	if _, err := os.Stat(planbctl); err != nil {
		t.Skip("skipped: there is no planbctl beside PLANB_SERVER_BINARY")
	}
	files := map[string]string{}
	for name, text := range printed {
		files[name] = filepath.Join(t.TempDir(), "printed")
		sourcetest.Check(t, os.WriteFile(files[name], []byte(text), 0o600))
	}
	for _, name := range []string{"bird.mrt", "gobgp.mrt"} {
		files[name] = filepath.Join("../../../lpm/io/testdata", name)
	}
	// Of what the first file left there, with the meaning of its next hops.
	files["a table file"] = filepath.Join(t.TempDir(), "table.plb")
	packed := filepath.Join(t.TempDir(), "packed.xz")
	for _, attributes := range []string{"gateway", "full"} {
		s := startServer(t, "--store=none")
		f := &feed{t: t, folder: t.TempDir()}
		f.configure(s, fmt.Sprintf("sources:\n  - {name: file, kind: file, options: {path: %s, poll: 10ms, convert: %s, attributes: %s}}\n",
			f.path(0), planbctl, attributes))
		run := func(arguments ...string) (string, error) {
			out, err := exec.Command(planbctl, append([]string{"--server=" + s.target(), "--attributes=" + attributes},
				arguments...)...).Output()
			return string(out), err
		}
		eventually(t, "the server has the routes", func() bool {
			_, err := run("load", files["gobgp.mrt"])
			return err == nil
		})
		if out, err := exec.Command(planbctl, "--server="+s.target(), "snapshot", "export", files["a table file"]).CombinedOutput(); err != nil {
			t.Fatal(string(out))
		}
		if out, err := exec.Command("bash", "-c", "xz < $0 > $1", files["ip route"], packed).CombinedOutput(); err == nil {
			files["ip route, by xz"] = packed
		} else {
			t.Log("without xz: ", string(out))
		}
		f.run()
		client := s.client()
		for name, from := range files {
			// What is there is of no other form.
			between := map[string]string{"3fff::/20": "dev " + strings.ReplaceAll(name, " ", "_")}
			f.write(0, between)
			eventually(t, "what is between", func() bool { return has(client, between) })
			bytes, err := os.ReadFile(from)
			sourcetest.Check(t, err)
			sourcetest.Check(t, os.WriteFile(f.path(0)+".next", bytes, 0o600))
			sourcetest.Check(t, os.Rename(f.path(0)+".next", f.path(0)))
			var differences string
			eventually(t, name+" with "+attributes, func() (equal bool) {
				differences, err = run("routes", "diff", from)
				return err == nil
			})
			if differences != "" {
				t.Errorf("%s: %s", name, differences)
			}
		}
		// Nothing changes by a malformed one.
		before, _ := run("routes", "list")
		sourcetest.Check(t, os.WriteFile(f.path(0), []byte("10.0.0.0/8 via 192.0.2.1\n10.0.0.0/8 via\n"), 0o600))
		eventually(t, "the file is refused", func() bool {
			_, said := f.times.Load("the file is not taken; its former routes stay")
			return said
		})
		if after, _ := run("routes", "list"); after != before {
			t.Errorf("%s\nnow\n%s", before, after)
		}
		f.stop(unix.SIGTERM)
		s.stop(unix.SIGKILL)
	}
}
