// SPDX-License-Identifier: Apache-2.0

package fpm

import (
	"fmt"
	"strings"
	"testing"

	"planb.dev/lookup/feed/source/sourcetest"
)

// A router with static routes: what zebra tells, what it tells again after it was killed
// alone, and what it ends.
func TestFRRIsFollowedOverAKillOfZebra(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	router := sourcetest.NewFRR(t)
	sourcetest.Ip(t, "addr add 192.0.2.1/24 dev v0", "addr add 2001:db8:f::1/64 dev v0 nodad")
	sink := sourcetest.NewSink()
	sourcetest.Run(t, New, "quiet: 500ms", sink)

	zebra := func() func() {
		return router.Start("zebra", "fpm address 127.0.0.1 port 2620\n", "-M", "dplane_fpm_nl")
	}
	kill := zebra()
	static := []string{
		"ip route 198.51.100.0/24 192.0.2.2",
		"ip route 203.0.113.0/24 blackhole",
		"ipv6 route 2001:db8:a::/48 fe80::1 v0",
		"ipv6 route 2001:db8:b::/48 2001:db8:f::2",
		"ipv6 route 2001:db8:b::/48 2001:db8:f::3",
	}
	for i := range 40 {
		static = append(static, fmt.Sprintf("ipv6 route 2001:db8:1%02x::/48 2001:db8:f::9", i))
	}
	router.Start("staticd", strings.Join(static, "\n")+"\n")
	const routes = 44
	check := func() {
		t.Helper()
		sourcetest.Eventually(t, "all routes", func() bool {
			return sink.State("") == "complete" && sink.Len() == routes
		})
		for prefix, want := range map[string]string{
			"198.51.100.0/24": "192.0.2.2%v0",
			"203.0.113.0/24":  "blackhole",
			"2001:db8:a::/48": "fe80::1%v0",
			"2001:db8:b::/48": "2001:db8:f::2%v0 2001:db8:f::3%v0",
		} {
			if got := sink.Text(prefix); got != want {
				t.Errorf("%s: %q, not %q", prefix, got, want)
			}
		}
	}
	check()

	// A route changes (FRR ends it and tells it anew), and one ends.
	router.Vtysh("staticd", "configure terminal", "no ipv6 route 2001:db8:b::/48 2001:db8:f::3")
	sourcetest.Eventually(t, "one path less",
		func() bool { return sink.Text("2001:db8:b::/48") == "2001:db8:f::2%v0" })
	router.Vtysh("staticd", "configure terminal", "ipv6 route 2001:db8:b::/48 2001:db8:f::3")
	router.Vtysh("staticd", "configure terminal", "no ipv6 route 2001:db8:127::/48 2001:db8:f::9")
	sourcetest.Eventually(t, "the route ended", func() bool { return sink.Len() == routes-1 })
	router.Vtysh("staticd", "configure terminal", "ipv6 route 2001:db8:127::/48 2001:db8:f::9")
	check()

	withdrawn := sink.Withdrawn()
	kill()
	await(t, sink, "lost")
	zebra()
	check()
	if sink.Withdrawn() != withdrawn {
		t.Errorf("%d routes were withdrawn", sink.Withdrawn()-withdrawn)
	}
}
