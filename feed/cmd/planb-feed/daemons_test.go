// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	planb "planb.dev/lookup/client/go"
	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/source/sourcetest"
)

const anyCount = -1 // but not none

// equals waits until the server has what a daemon itself lists, so many prefixes: of each its
// next hops, "via GATEWAY dev INTERFACE" each.
func equals(t *testing.T, client *planb.Client, what string, count int, own func() map[string][]string) {
	t.Helper()
	got, want := map[string]meaning{}, map[string]string{}
	defer func() {
		if !t.Failed() {
			return
		}
		t.Logf("the server has %d routes, and %s %d", len(got), what, len(want))
		for prefix, text := range want {
			if got[prefix].text != text {
				t.Logf("%s: %q, not %q", prefix, got[prefix].text, text)
			}
		}
	}()
	eventually(t, "the server has what "+what+" has", func() bool {
		clear(want)
		for prefix, hops := range own() {
			if len(hops) > 1 {
				for i := range hops {
					hops[i] += " weight 1"
				}
				slices.Sort(hops)
			}
			want[prefix] = strings.Join(hops, " ")
		}
		got = list(client)
		return (len(want) == count || count == anyCount && len(want) > 0) && has(client, want)
	})
}

// follow runs a server, and a feed of one source.
func follow(t *testing.T, kind, options string) (*planb.Client, *feed) {
	s := startServer(t, "--store=none")
	f := &feed{t: t, folder: t.TempDir()}
	f.configure(s, fmt.Sprintf("sources:\n  - {name: daemon, kind: %s, options: {%s}}\n", kind, options))
	f.run()
	return s.client(), f
}

// A next hop as FRR and iproute2 print it.
type printedHop struct {
	IP, InterfaceName string // of FRR
	Fib, Blackhole    bool
	Gateway, Dev      string          // of iproute2
	Flags             json.RawMessage // of iproute2 names, "dead" among them: its link is down
}

func (h printedHop) text() string {
	var words []string
	if gateway := h.IP + h.Gateway; gateway != "" {
		words = append(words, "via", gateway)
	}
	if dev := h.InterfaceName + h.Dev; dev != "" {
		words = append(words, "dev", dev)
	}
	return strings.Join(words, " ")
}

func texts(hops []printedHop) (all []string) {
	for _, h := range hops {
		if !strings.Contains(string(h.Flags), `"dead"`) {
			all = append(all, h.text())
		}
	}
	return all
}

// What the server has is what zebra has chosen: at first, after some went and came, and after
// zebra was killed and started.
func TestWhatZebraShowsTheServerHas(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	router := sourcetest.NewFRR(t)
	sourcetest.Ip(t, "addr add 192.0.2.1/24 dev v0", "addr add 2001:db8:f::1/64 dev v0 nodad")
	client, f := follow(t, "fpm", "quiet: 500ms, share: 0.5")
	zebra := func() func() {
		return router.Start("zebra", "fpm address 127.0.0.1 port 2620\n", "-M", "dplane_fpm_nl")
	}
	own := func() map[string][]string {
		all := map[string][]string{}
		for _, command := range []string{"show ip route json", "show ipv6 route json"} {
			var shown map[string][]struct {
				Protocol string
				Selected bool
				Nexthops []printedHop
			}
			sourcetest.Check(t, json.Unmarshal([]byte(router.Vtysh("zebra", command)), &shown))
			for prefix, routes := range shown {
				for _, r := range routes {
					if !r.Selected || r.Protocol != "static" {
						continue
					}
					if r.Nexthops[0].Blackhole {
						all[prefix] = []string{"blackhole"}
						continue
					}
					all[prefix] = texts(slices.DeleteFunc(r.Nexthops, func(h printedHop) bool { return !h.Fib }))
				}
			}
		}
		return all
	}
	kill := zebra()
	static := []string{"ip route 203.0.113.0/24 blackhole"}
	const routes = 60 // of each family: staticd takes long for many
	for i := range routes {
		static = append(static, fmt.Sprintf("ip route 10.%d.%d.0/24 192.0.2.%d", i/256, i%256, 2+i%9),
			fmt.Sprintf("ipv6 route 2001:db8:1%03x::/48 2001:db8:f::%x", i, 2+i%9))
		if i%5 == 0 {
			static = append(static, fmt.Sprintf("ipv6 route 2001:db8:1%03x::/48 fe80::%x v0", i, 1+i%9))
		}
	}
	router.Start("staticd", strings.Join(static, "\n")+"\n")
	equals(t, client, "zebra", 2*routes+1, own)
	router.Vtysh("staticd", append([]string{"configure terminal"}, forEach(static[1:40], "no %s")...)...)
	gone := map[string]bool{}
	for _, line := range static[1:40] {
		gone[strings.Fields(line)[2]] = true
	}
	equals(t, client, "zebra, with fewer,", 2*routes+1-len(gone), own)
	router.Vtysh("staticd", append([]string{"configure terminal"}, static[1:40]...)...)
	equals(t, client, "zebra, with all again,", 2*routes+1, own)
	kill()
	kill = zebra()
	equals(t, client, "zebra, after a kill,", 2*routes+1, own)
	eventually(t, "all is told", f.ready)

	// Routes come and go while zebra and the feed are killed.
	rounds := 30
	if testing.Short() {
		rounds = 2
	}
	random := rand.New(rand.NewPCG(9, 10))
	absent := map[string]bool{}
	for round := range rounds {
		for range 3 {
			var lines []string
			for range 10 {
				line := static[random.IntN(len(static))]
				if absent[line] = !absent[line]; absent[line] {
					line = "no " + line
				}
				lines = append(lines, line)
			}
			router.Vtysh("staticd", append([]string{"configure terminal"}, lines...)...)
		}
		if round%2 == 0 {
			kill()
			kill = zebra()
		} else {
			f.stop(unix.SIGKILL)
			f.run()
		}
		// zebra itself may have lost one when it starts beside what it left in the kernel.
		equals(t, client, fmt.Sprintf("zebra, after round %d,", round), anyCount, own)
	}
	f.stop(unix.SIGTERM)
}

func forEach(lines []string, format string) (result []string) {
	for _, line := range lines {
		result = append(result, fmt.Sprintf(format, line))
	}
	return result
}

// What the server has is what `ip route` lists, whatever was added, replaced and ended.
func TestWhatTheKernelListsTheServerHas(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	sourcetest.Ip(t, "addr add 192.0.2.1/24 dev v0", "addr add 2001:db8:f::1/64 dev v0 nodad")
	client, f := follow(t, "kernel", "")
	own := func() map[string][]string {
		all := map[string][]string{}
		for _, family := range []string{"-4", "-6"} {
			var shown []struct {
				Type, Dst, Protocol string
				Nexthops            []printedHop
				printedHop
			}
			sourcetest.Check(t, json.Unmarshal([]byte(sourcetest.Command(t, "ip", family, "-j", "route")), &shown))
			for _, r := range shown {
				prefix := r.Dst
				if address, err := netip.ParseAddr(prefix); err == nil {
					prefix = netip.PrefixFrom(address, address.BitLen()).String()
				}
				switch {
				case r.Protocol == "kernel":
				case r.Type == "blackhole":
					all[prefix] = []string{"blackhole"}
				case len(r.Nexthops) > 0:
					all[prefix] = texts(r.Nexthops)
				default: // one more way, or the only one
					all[prefix] = append(all[prefix], r.text())
				}
			}
		}
		return all
	}
	batch := func(lines []string) {
		t.Helper()
		file := filepath.Join(f.folder, "batch")
		sourcetest.Check(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		sourcetest.Command(t, "ip", "-batch", file)
	}
	var add, replace, remove []string
	for i := range 1000 {
		four, six := fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("2001:db8:1%03x::/48", i)
		add = append(add, fmt.Sprintf("route add %s via 192.0.2.%d", four, 2+i%9),
			fmt.Sprintf("route add %s via 2001:db8:f::%x", six, 2+i%9))
		switch i % 4 {
		case 0:
			replace = append(replace, "route replace "+six+" nexthop via fe80::1 dev v0 nexthop via fe80::2 dev v1",
				"route replace "+four+" nexthop via 192.0.2.3 nexthop via 192.0.2.4")
		case 1:
			replace = append(replace, "route replace blackhole "+four, "route append "+six+" via fe80::9 dev v0")
		case 2:
			remove = append(remove, "route del "+four, "route del "+six)
		}
	}
	batch(append(add, "route add 203.0.113.7 via 192.0.2.9"))
	equals(t, client, "the kernel", 2001, own)
	batch(replace)
	equals(t, client, "the kernel, with other ways,", 2001, own)
	batch(remove)
	equals(t, client, "the kernel, with fewer,", 1501, own)
	sourcetest.Ip(t, "link set v1 down")
	equals(t, client, "the kernel, without a link,", 1501, own)
	eventually(t, "all is told", f.ready)
	f.stop(unix.SIGTERM)
}

// What the server has is the best of what GoBGP itself lists: with two peers, after changes, and
// after one of them was killed and came again with less.
func TestWhatGoBGPListsTheServerHas(t *testing.T) {
	t.Parallel()
	bgptest.SkipUnderRaceDetector(t)
	port, control := bgptest.FreePort(t, "127.0.0.1"), fmt.Sprintf("127.0.0.1:%d", bgptest.FreePort(t, "127.0.0.1"))
	client, f := follow(t, "bgp", fmt.Sprintf("quiet: 500ms, grpc: '%s', file: %s", control,
		bgptest.Write(t, "gobgp.toml", bgptest.Global(65001, "127.0.0.1", port)+
			bgptest.Neighbor("127.0.0.1", "127.0.0.2", 65002, 0, true, true)+
			bgptest.Neighbor("127.0.0.1", "127.0.0.3", 65003, 0, true, true))))
	connection, err := grpc.NewClient(control, grpc.WithTransportCredentials(insecure.NewCredentials()))
	sourcetest.Check(t, err)
	defer func() { _ = connection.Close() }()
	own := func() map[string][]string {
		all := map[string][]string{}
		for _, family := range []bgp.Family{bgp.RF_IPv4_UC, bgp.RF_IPv6_UC} {
			stream, err := api.NewGoBgpServiceClient(connection).ListPath(t.Context(), &api.ListPathRequest{
				TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: apiutil.ToApiFamily(family.Afi(), family.Safi())})
			for err == nil {
				var answer *api.ListPathResponse
				if answer, err = stream.Recv(); err != nil {
					break
				}
				for _, path := range answer.Destination.Paths {
					if path.Best {
						attributes, err := apiutil.GetNativePathAttributes(path)
						sourcetest.Check(t, err)
						for _, attribute := range attributes {
							switch attribute := attribute.(type) {
							case *bgp.PathAttributeMpReachNLRI:
								all[answer.Destination.Prefix] = []string{"via " + attribute.Nexthop.String()}
							case *bgp.PathAttributeNextHop:
								all[answer.Destination.Prefix] = []string{"via " + attribute.Value.String()}
							}
						}
					}
				}
			}
			if !errors.Is(err, io.EOF) {
				return nil // not yet
			}
		}
		return all
	}
	announced := func(from, to int, hop string, more string) (lines []string) {
		for i := from; i < to; i++ {
			lines = append(lines, fmt.Sprintf("add 2001:db8:%x::/48 2001:db8:ffff::%s%s", i, hop, more),
				fmt.Sprintf("add 10.%d.%d.0/24 192.0.2.%s%s", i/256, i%256, hop, more))
		}
		return lines
	}
	bgptest.Start(t, "127.0.0.2", port, true, announced(0, 500, "1", " path 64500,64501")...)
	second := bgptest.Start(t, "127.0.0.3", port, true, announced(250, 750, "2", "")...)
	count := 1500
	equals(t, client, "GoBGP", count, own)
	second.Say(t, announced(700, 720, "3", "")...)
	second.Say(t, "del 2001:db8:190::/48 2001:db8:ffff::2", "del 2001:db8:2ed::/48 2001:db8:ffff::2")
	equals(t, client, "GoBGP, after changes,", count-1, own)
	second.Kill()
	bgptest.Start(t, "127.0.0.3", port, true, announced(250, 740, "2", "")...)
	equals(t, client, "GoBGP, after a kill,", count-20, own)
	eventually(t, "all is told", f.ready)
	f.stop(unix.SIGTERM)
}
