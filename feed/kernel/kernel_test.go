// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	nl "github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/netlink"
	"planb.dev/lookup/feed/source"
	"planb.dev/lookup/feed/source/sourcetest"
)

func within(t *testing.T, sink *sourcetest.Sink, prefix, want string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s: %q, not %q", prefix, last, want)
		}
	}()
	sourcetest.Eventually(t, prefix+" "+want, func() bool {
		last = sink.Text(prefix)
		return last == want
	})
}

// batch runs many commands of iproute2 at once.
func batch(t *testing.T, commands []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "batch")
	sourcetest.Check(t, os.WriteFile(file, []byte(strings.Join(commands, "\n")), 0o644))
	sourcetest.Command(t, "ip", "-batch", file)
}

func TestARoutingTableIsFollowed(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	sourcetest.Ip(t, "addr add 192.0.2.1/24 dev v0", "addr add 2001:db8:f::1/64 dev v0 nodad",
		"addr add 198.18.0.1/24 dev v1",
		"route add 198.51.100.0/24 via 192.0.2.2", "route add 203.0.113.0/24 via 192.0.2.3 table 1000")
	sink := sourcetest.NewSink()
	sourcetest.Run(t, New, "", sink)
	sourcetest.Eventually(t, "the dump", func() bool { return sink.State("") == "complete" })
	if sink.Len() != 1 {
		t.Errorf("%v, not the one route that is not of an address", sink.Prefixes())
	}
	within(t, sink, "198.51.100.0/24", "192.0.2.2%v0")

	for _, step := range []struct{ command, prefix, want string }{
		{"route add 198.51.100.0/24 via 192.0.2.9 metric 100", "198.51.100.0/24", "192.0.2.2%v0"},
		{"route del 198.51.100.0/24 via 192.0.2.2", "198.51.100.0/24", "192.0.2.9%v0"},
		{"route prepend 198.51.100.0/24 via 192.0.2.7 metric 100", "198.51.100.0/24", "192.0.2.7%v0"},
		{"route append 198.51.100.0/24 via 192.0.2.8 metric 100", "198.51.100.0/24", "192.0.2.7%v0"},
		{"route del 198.51.100.0/24 via 192.0.2.7 metric 100", "198.51.100.0/24", "192.0.2.9%v0"},
		{"route del 198.51.100.0/24 via 192.0.2.8 metric 100", "198.51.100.0/24", "192.0.2.9%v0"},
		{"route replace 198.51.100.0/24 metric 100 nexthop via 192.0.2.4 weight 3 nexthop via 192.0.2.5", "198.51.100.0/24", "192.0.2.4%v0*3 192.0.2.5%v0"},
		{"route add blackhole 203.0.113.0/24", "203.0.113.0/24", "blackhole"},
		{"-6 route add 2001:db8:a::/48 via fe80::1 dev v0", "2001:db8:a::/48", "fe80::1%v0"},
		{"-6 route append 2001:db8:a::/48 via fe80::2 dev v0", "2001:db8:a::/48", "fe80::1%v0 fe80::2%v0"},
		{"-6 route del 2001:db8:a::/48 via fe80::1 dev v0", "2001:db8:a::/48", "fe80::2%v0"},
		{"-6 route replace 2001:db8:a::/48 nexthop via fe80::3 dev v0 nexthop via fe80::4 dev v1", "2001:db8:a::/48", "fe80::3%v0 fe80::4%v1"},
		{"-6 route del 2001:db8:a::/48", "2001:db8:a::/48", ""},
		{"nexthop add id 1 via 192.0.2.6 dev v0", "198.51.100.0/24", "192.0.2.4%v0*3 192.0.2.5%v0"},
		{"nexthop add id 2 via 192.0.2.7 dev v0", "198.51.100.0/24", "192.0.2.4%v0*3 192.0.2.5%v0"},
		{"nexthop add id 10 group 1/2", "198.51.100.0/24", "192.0.2.4%v0*3 192.0.2.5%v0"},
		{"route add 192.0.0.0/24 nhid 10", "192.0.0.0/24", "192.0.2.6%v0 192.0.2.7%v0"},
		{"nexthop replace id 2 via 192.0.2.8 dev v0", "192.0.0.0/24", "192.0.2.6%v0 192.0.2.8%v0"},
		{"nexthop del id 1", "192.0.0.0/24", "192.0.2.8%v0"},
		{"nexthop del id 10", "192.0.0.0/24", ""}, // the kernel tells no end of a route
		{"route add 192.88.99.0/24 via 198.18.0.2", "192.88.99.0/24", "198.18.0.2%v1"},
		{"addr del 198.18.0.1/24 dev v1", "192.88.99.0/24", ""}, // nor here, with the last address of a link
		{"link set v1 down", "203.0.113.0/24", "blackhole"},
		{"route add 192.88.99.0/24 via 192.0.2.2", "192.88.99.0/24", "192.0.2.2%v0"},
		{"link set v0 down", "192.88.99.0/24", ""}, // nor here
	} {
		sourcetest.Ip(t, step.command)
		within(t, sink, step.prefix, step.want)
		if t.Failed() {
			t.Fatalf("after ip %s", step.command)
		}
	}
	if got := fmt.Sprint(sink.Prefixes()); got != "[203.0.113.0/24]" {
		t.Errorf("left: %s", got)
	}
}

// The kernel sends a dump of the table alone, and drops changes of others before they take room
// in the buffer.
func TestMessagesOfOtherTablesDoNotArrive(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	sourcetest.Ip(t, "addr add 192.0.2.1/24 dev v0", "route add 10.1.0.0/16 via 192.0.2.2", "route add 10.1.0.0/16 via 192.0.2.2 table 1000")
	for _, table := range []uint32{unix.RT_TABLE_MAIN, 1000} {
		s, err := New(sourcetest.Options(t, fmt.Sprintf("table: %d", table)))
		sourcetest.Check(t, err)
		k, found := s.(*kernel), false
		take := func(m nl.Message, prefix string) {
			message, err := netlink.Decode(m)
			sourcetest.Check(t, err)
			if r, ok := message.(*netlink.Route); ok && r.Table != table {
				t.Errorf("table %d: %v of table %d", table, r.Prefix, r.Table)
			} else if ok {
				found = found || r.Prefix.String() == prefix
			}
		}
		requests, err := netlink.Dial("", true)
		sourcetest.Check(t, err)
		defer requests.Close()
		sourcetest.Check(t, netlink.Dump(requests, unix.RTM_GETROUTE, (&follower{k: k}).routeRequest(unix.AF_INET),
			func(m nl.Message) { take(m, "10.1.0.0/16") }))
		if !found {
			t.Errorf("table %d: the dump has no route of it", table)
		}

		events, err := netlink.Dial("", false)
		sourcetest.Check(t, err)
		defer events.Close()
		sourcetest.Check(t, k.prepare(events))
		other := unix.RT_TABLE_MAIN + 1000 - table
		sourcetest.Ip(t, fmt.Sprintf("route add 10.2.0.0/16 via 192.0.2.2 table %d", other), fmt.Sprintf("route del 10.2.0.0/16 table %d", other),
			fmt.Sprintf("route add 10.3.0.0/16 via 192.0.2.2 table %d", table))
		sourcetest.Check(t, events.SetReadDeadline(time.Now().Add(sourcetest.Patience)))
		for found = false; !found; {
			messages, err := events.Receive()
			sourcetest.Check(t, err)
			for _, m := range messages {
				take(m, "10.3.0.0/16")
			}
		}
	}
}

// namedNamespaces lets `ip netns` add some, which end with the test's.
func namedNamespaces(t *testing.T) {
	sourcetest.Check(t, os.MkdirAll("/run/netns", 0o755))
	sourcetest.Command(t, "mount", "-t", "tmpfs", "none", "/run/netns")
}

func TestALinkWithoutCarrierEndsTheRoutesByItsObjects(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	namedNamespaces(t)
	// The end of the other side is not seen here.
	sourcetest.Ip(t, "netns add other", "link set v1 netns other", "-n other link set v1 up",
		"addr add 192.0.2.1/24 dev v0", "nexthop add id 1 via 192.0.2.2 dev v0", "route add 198.51.100.0/24 nhid 1",
		"route add 203.0.113.0/24 via 192.0.2.3")
	sink := sourcetest.NewSink()
	sourcetest.Run(t, New, "", sink)
	within(t, sink, "198.51.100.0/24", "192.0.2.2%v0")
	sourcetest.Ip(t, "-n other link set v1 down") // v0 stays up, without a carrier
	within(t, sink, "198.51.100.0/24", "")
	within(t, sink, "203.0.113.0/24", "192.0.2.3%v0")
}

func TestATableOfANamedNamespace(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	namedNamespaces(t)
	sourcetest.Ip(t, "netns add other", "-n other link set lo up", "-n other link add w0 type veth peer name w1",
		"-n other link set w0 up", "-n other addr add 192.0.2.1/24 dev w0")
	sink := sourcetest.NewSink()
	stop := sourcetest.Run(t, New, "{namespace: other, table: 1000, protocols: [static, 186]}", sink)
	sourcetest.Eventually(t, "the dump of no table", func() bool { return sink.State("") == "complete" })
	sourcetest.Ip(t,
		"-n other route add 10.1.0.0/16 via 192.0.2.2 table 1000",
		"-n other route add 10.2.0.0/16 via 192.0.2.2 proto static",
		"-n other route add 10.3.0.0/16 via 192.0.2.2 proto static table 500",
		"-n other route add 10.4.0.0/16 via 192.0.2.2 proto bgp table 1000",
		"-n other route add 10.5.0.0/16 via 192.0.2.2 proto static table 1000")
	within(t, sink, "10.5.0.0/16", "192.0.2.2%w0")
	if got := fmt.Sprint(sink.Prefixes()); got != "[10.4.0.0/16 10.5.0.0/16]" {
		t.Errorf("%s", got)
	}

	// It is made anew.
	s, err := New(sourcetest.Options(t, "namespace: other"))
	sourcetest.Check(t, err)
	sink = sourcetest.NewSink()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context(), sink) }()
	sourcetest.Eventually(t, "the dump", func() bool { return sink.State("") == "complete" })
	stop()
	sourcetest.Ip(t, "netns del other", "netns add other")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(sourcetest.Patience):
		t.Error("the old namespace is followed")
	}
}

// ECMP of more paths than iproute2 has room for.
func wideRoute(t *testing.T, paths int) nl.Message {
	var hops []byte
	for i := range paths {
		encoder := nl.NewAttributeEncoder()
		encoder.Bytes(unix.RTA_GATEWAY, []byte{10, 1, byte(i >> 8), byte(i)})
		gateway, _ := encoder.Encode()
		hops = binary.NativeEndian.AppendUint16(hops, uint16(unix.SizeofRtNexthop+len(gateway)))
		hops = append(append(hops, 0, 0, 0, 0, 0, 0), gateway...)
	}
	encoder := nl.NewAttributeEncoder()
	encoder.Bytes(unix.RTA_DST, []byte{198, 51, 100, 0})
	encoder.Bytes(unix.RTA_MULTIPATH, hops)
	attributes, err := encoder.Encode()
	sourcetest.Check(t, err)
	return nl.Message{
		Header: nl.Header{Type: unix.RTM_NEWROUTE, Flags: nl.Request | nl.Acknowledge | nl.Create | nl.Replace},
		Data: append([]byte{unix.AF_INET, 24, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BGP, unix.RT_SCOPE_UNIVERSE,
			unix.RTN_UNICAST, 0, 0, 0, 0}, attributes...)}
}

func TestARouteOfTooManyPathsDoesNotKeepTheOthersAway(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	sourcetest.Ip(t, "addr add 10.1.255.255/8 dev v0", "route add 203.0.113.0/24 via 10.1.0.1")
	requests, err := netlink.Dial("", false)
	sourcetest.Check(t, err)
	defer requests.Close()
	set := func(paths int) {
		if _, err := requests.Execute(wideRoute(t, paths)); err != nil {
			t.Fatal(err)
		}
	}
	set(netlink.MaxHops + 1)
	s, err := New(sourcetest.Options(t, ""))
	sourcetest.Check(t, err)
	sink := sourcetest.NewSink()
	sourcetest.Run(t, func(source.Options) (source.Source, error) { return s, nil }, "", sink)
	sourcetest.Eventually(t, "the dump", func() bool { return sink.State("") == "complete" })
	if got := fmt.Sprint(sink.Prefixes()); got != "[203.0.113.0/24]" {
		t.Errorf("%s", got)
	}
	set(netlink.MaxHops)
	sourcetest.Eventually(t, "a route of fewer", func() bool { return len(sink.Paths("198.51.100.0/24")) == netlink.MaxHops })
	set(netlink.MaxHops + 1)
	within(t, sink, "198.51.100.0/24", "")
	if n := testutil.ToFloat64(s.(*kernel).dumps.WithLabelValues(interrupted)); n != 0 {
		t.Errorf("%v dumps were not whole", n)
	}
}

// slow is a sink that a test holds up.
type slow struct {
	*sourcetest.Sink
	gate sync.Mutex
}

func (s *slow) Apply(session string, routes []source.Route) {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.Sink.Apply(session, routes)
}

func TestAnOverrunReadsTheTableAnew(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	sourcetest.Ip(t, "addr add 192.0.2.1/24 dev v0", "route add 10.255.0.0/16 via 192.0.2.2")
	sink := &slow{Sink: sourcetest.NewSink()}
	s, err := New(sourcetest.Options(t, "receive_buffer: 65536"))
	sourcetest.Check(t, err)
	sourcetest.Run(t, func(source.Options) (source.Source, error) { return s, nil }, "", sink)
	sourcetest.Eventually(t, "the dump", func() bool { return sink.State("") == "complete" })

	sink.gate.Lock()
	var commands []string
	for i := range 5000 {
		commands = append(commands, fmt.Sprintf("route add 10.%d.%d.0/24 via 192.0.2.3", i/256, i%256))
	}
	batch(t, append(commands, "route del 10.255.0.0/16"))
	sink.gate.Unlock()
	sourcetest.Eventually(t, "all routes, and not the one that ended",
		func() bool { return sink.Len() == 5000 && sink.Text("10.255.0.0/16") == "" })
	if n := testutil.ToFloat64(s.(*kernel).dumps.WithLabelValues(overrun)); n < 1 {
		t.Errorf("%v dumps after overruns", n)
	}
	if sink.Withdrawn() != 1 {
		t.Errorf("%d withdrawals, not 1", sink.Withdrawn())
	}
}

func TestADumpThatIsNotWholeSweepsNothing(t *testing.T) {
	route := func(prefix string) nl.Message {
		p := netip.MustParsePrefix(prefix)
		encoder := nl.NewAttributeEncoder()
		encoder.Bytes(unix.RTA_DST, p.Addr().AsSlice())
		encoder.Bytes(unix.RTA_GATEWAY, p.Addr().AsSlice())
		attributes, _ := encoder.Encode()
		return nl.Message{Header: nl.Header{Type: unix.RTM_NEWROUTE, Flags: nl.Multi},
			Data: append([]byte{unix.AF_INET, 24, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BGP, 0, unix.RTN_UNICAST, 0, 0, 0, 0}, attributes...)}
	}
	dumps := 0
	requests := nltest.Dial(func(request []nl.Message) ([]nl.Message, error) {
		answer := []nl.Message{}
		if request[0].Header.Type == unix.RTM_GETROUTE && request[0].Data[0] == unix.AF_INET {
			answer = append(answer, route("192.0.2.0/24"), route("198.51.100.0/24"))
			switch dumps++; dumps {
			case 2: // a route is missing: the table changed under the dump
				answer = answer[:1]
				answer[0].Header.Flags |= nl.DumpInterrupted
			case 3: // or it cannot be read
				answer[1].Data = answer[1].Data[:4]
			case 4: // or its events have no end
				answer = answer[:1]
			}
		}
		answer = append(answer, nl.Message{Header: nl.Header{Type: nl.Done, Flags: nl.Multi}})
		for i := range answer {
			answer[i].Header.Sequence = request[0].Header.Sequence
		}
		return answer, nil
	})
	defer requests.Close()
	events, err := netlink.Dial("", false)
	if err != nil {
		t.Skipf("skipped: no netlink: %v", err)
	}
	defer events.Close()
	s, err := New(sourcetest.Options(t, ""))
	sourcetest.Check(t, err)
	sink := sourcetest.NewSink()
	f := &follower{k: s.(*kernel), sink: sink, events: events, requests: requests, reason: atStart}
	usual := backlog
	defer func() { backlog = usual }()
	for i, want := range []bool{true, false, false, false, true} {
		if backlog = usual; i == 3 {
			backlog = 0
		}
		if whole, err := f.dump(t.Context()); whole != want || err != nil {
			t.Errorf("dump %d: %v, %v", i+1, whole, err)
		}
		if sink.Len() != 2 {
			t.Errorf("%d routes after dump %d", sink.Len(), i+1)
		}
	}
	if got, want := strings.Join(sink.Events(), " "), "begun complete begun begun begun begun complete"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestAnOverrunIsNotForgotten(t *testing.T) {
	for _, c := range []struct {
		reasons []string
		want    string
	}{
		{[]string{overrun, contradiction, silent}, overrun},
		{[]string{silent, contradiction}, silent},
		{[]string{contradiction, silent, overrun}, overrun},
	} {
		f := &follower{}
		for _, reason := range c.reasons {
			f.need(reason)
		}
		if f.reason != c.want {
			t.Errorf("%v: %s, not %s", c.reasons, f.reason, c.want)
		}
	}
}

func TestAReadAfterTheEndReturns(t *testing.T) {
	events, err := netlink.Dial("", false)
	if err != nil {
		t.Skipf("skipped: no netlink: %v", err)
	}
	defer events.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- (&follower{events: events}).receive(ctx, time.Time{}) }()
	select {
	case <-done:
	case <-time.After(sourcetest.Patience):
		t.Error("a read waits although the source ended")
	}
}
