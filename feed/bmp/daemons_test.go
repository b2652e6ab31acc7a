// SPDX-License-Identifier: Apache-2.0

package bmp

import (
	"fmt"
	"strings"
	"testing"

	"planb.dev/lookup/feed/bgp/bgptest"
	"planb.dev/lookup/feed/source/sourcetest"
)

// GoBGP numbers the paths of its table also where it has only best ones, and says no end
// of the one before.
func TestTheLocRIBOfGoBGPIsFollowed(t *testing.T) {
	bgptest.SkipUnderRaceDetector(t)
	t.Parallel()
	for i, multipath := range []bool{false, true} {
		t.Run(fmt.Sprintf("multipath %v", multipath), func(t *testing.T) {
			t.Parallel()
			sink := sourcetest.NewSink()
			station := bgptest.FreePort(t, "127.0.0.1")
			sourcetest.Run(t, New, fmt.Sprintf("listen: 127.0.0.1:%d\nrouters: [127.0.0.1]\nquiet: 300ms\nmultipath: %v", station, multipath), sink)
			hub, a, b := fmt.Sprintf("127.0.1.%d", 1+i), fmt.Sprintf("127.0.2.%d", 11+i), fmt.Sprintf("127.0.2.%d", 21+i)
			port := bgptest.FreePort(t, hub)
			file := bgptest.Global(65001, hub, port)
			if multipath {
				file += "[global.use-multiple-paths.config]\n enabled = true\n"
			}
			file += fmt.Sprintf("[[bmp-servers]]\n[bmp-servers.config]\naddress = \"127.0.0.1\"\nport = %d\nroute-monitoring-policy = \"local-rib\"\n", station) +
				bgptest.Neighbor(hub, a, 65011+i, 0, true, false) + bgptest.Neighbor(hub, b, 65021+i, 0, true, false)
			bgptest.Run(t, file, "add 2001:db8:1::/48 2001:db8:ffff::1", "add 192.0.2.0/24 198.51.100.1", "start")
			await(t, sink, "127.0.0.1", "complete")
			has(t, sink, "2001:db8:1::/48", "2001:db8:ffff::1")
			has(t, sink, "192.0.2.0/24", "198.51.100.1")
			first := bgptest.StartTo(t, a, hub, port, "add 2001:db8:2::/48 2001:db8:ffff::a")
			await := func(want string) {
				t.Helper()
				sourcetest.Eventually(t, "2001:db8:2::/48 is "+want, func() bool { return sink.Text("2001:db8:2::/48") == want })
			}
			await("2001:db8:ffff::a") // of two the older one counts
			second := bgptest.StartTo(t, b, hub, port, "add 2001:db8:3::/48 2001:db8:ffff::b", "add 2001:db8:2::/48 2001:db8:ffff::b")
			sourcetest.Eventually(t, "the second peer", func() bool { return sink.Text("2001:db8:3::/48") != "" })
			if multipath {
				await("2001:db8:ffff::a 2001:db8:ffff::b")
			} else {
				await("2001:db8:ffff::a")
			}
			first.Kill()
			await("2001:db8:ffff::b")
			second.Say(t, "del 2001:db8:2::/48 2001:db8:ffff::b")
			await("")
			if sink.Len() != 3 {
				t.Errorf("%v", sink.Prefixes())
			}
		})
	}
}

// What a peer told FRR before and after its policy.
func TestThePeersOfFRRAreFollowed(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	frr := sourcetest.NewFRR(t)
	for i := 2; i <= 4; i++ { // bgpd wants addresses of an interface
		sourcetest.Ip(t, fmt.Sprintf("addr add 10.9.9.%d/24 dev v0", i))
	}
	sourcetest.Ip(t, "addr add 2001:db8:ffff::2/64 dev v0 nodad")
	sink := sourcetest.NewSink()
	frr.Start("zebra", "")
	frr.Start("bgpd", `router bgp 65002
 bgp router-id 10.9.9.2
 no bgp ebgp-requires-policy
 neighbor 10.9.9.3 remote-as 65003
 neighbor 10.9.9.3 passive
 neighbor 10.9.9.3 disable-connected-check
 neighbor 10.9.9.3 ebgp-multihop
 neighbor 10.9.9.4 remote-as 65004
 neighbor 10.9.9.4 passive
 neighbor 10.9.9.4 ebgp-multihop
 address-family ipv6 unicast
  neighbor 10.9.9.3 activate
  neighbor 10.9.9.3 route-map some in
  neighbor 10.9.9.4 activate
 bmp targets planb
  bmp monitor ipv4 unicast pre-policy
  bmp monitor ipv6 unicast pre-policy
  bmp monitor ipv4 unicast post-policy
  bmp monitor ipv6 unicast post-policy
  bmp connect 127.0.0.1 port 11019 min-retry 100 max-retry 1000
ipv6 prefix-list refused seq 5 permit 2001:db8:3::/48
route-map some deny 5
 match ipv6 address prefix-list refused
route-map some permit 10
`, "-M", "bmp", "-l", "10.9.9.2", "-p", "1790")
	lines := []string{"add 192.0.2.0/24 10.9.9.9", "add 2001:db8:1::/48 2001:db8:ffff::3", "add 2001:db8:2::/48 2001:db8:ffff::3",
		"add 2001:db8:3::/48 2001:db8:ffff::3"}
	first := bgptest.StartTo(t, "10.9.9.3", "10.9.9.2", 1790, lines...)
	bgptest.StartTo(t, "10.9.9.4", "10.9.9.2", 1790, "add 2001:db8:1::/48 2001:db8:ffff::4")
	// FRR tells no route that was not valid when it came.
	sourcetest.Eventually(t, "the routes are valid", func() bool {
		return strings.Count(frr.Vtysh("bgpd", "show bgp ipv4 unicast", "show bgp ipv6 unicast"), "*> ") == 3
	})
	sourcetest.Run(t, New, "listen: 127.0.0.1:11019\nrouters: [127.0.0.1]\nrib: post-policy\npeers: [10.9.9.3, 10.9.9.4]\nquiet: 20s", sink)
	for _, session := range []string{"127.0.0.1 10.9.9.3", "127.0.0.1 10.9.9.4"} {
		sourcetest.Eventually(t, session+" has told all", func() bool { return sink.State(session) == "complete" })
	}
	has(t, sink, "2001:db8:1::/48", "2001:db8:ffff::3")
	has(t, sink, "192.0.2.0/24", "10.9.9.9")
	if sink.Len() != 3 {
		t.Errorf("%v", sink.Prefixes())
	}
	first.Say(t, "del 2001:db8:1::/48 2001:db8:ffff::3", "del 2001:db8:2::/48 2001:db8:ffff::3")
	has(t, sink, "2001:db8:1::/48", "2001:db8:ffff::4")
	has(t, sink, "2001:db8:2::/48", "")
	first.Kill()
	await(t, sink, "127.0.0.1 10.9.9.3", "lost")
	has(t, sink, "2001:db8:1::/48", "2001:db8:ffff::4")
	if sink.State("127.0.0.1 10.9.9.4") != "complete" || sink.Len() != 2 {
		t.Errorf("%s", strings.Join(sink.Events(), ", "))
	}
}
