// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	nl "github.com/mdlayher/netlink"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/source"
	"planb.dev/lookup/feed/source/sourcetest"
)

func linkName(index uint32) string { return fmt.Sprintf("eth%d", index) }

func via(gateway string) Hop { return Hop{Gateway: netip.MustParseAddr(gateway), Link: 1, Weight: 1} }

func newRoute(prefix string, metric uint32, hops ...Hop) *Route {
	return &Route{Prefix: netip.MustParsePrefix(prefix), Metric: metric, Hops: hops, Table: unix.RT_TABLE_MAIN,
		Type: unix.RTN_UNICAST, Protocol: unix.RTPROT_BGP}
}

func newGroupRoute(prefix string, id uint32) *Route {
	r := newRoute(prefix, 0)
	r.GroupID = id
	return r
}

func gone(r *Route) *Route {
	end := *r
	end.Delete = true
	return &end
}

// text says changes as "PREFIX gateway*weight ...; ...", in order.
func text(routes []source.Route) string {
	var lines []string
	for _, r := range routes {
		line := r.Prefix.String()
		if r.Keep {
			line += " stays"
		}
		var ways []string
		for _, way := range r.Paths {
			name := way.Gateway.String()
			if !way.Gateway.IsValid() {
				name = way.Interface + way.Label
			}
			if way.Weight > 1 {
				name += fmt.Sprintf("*%d", way.Weight)
			}
			ways = append(ways, name)
		}
		slices.Sort(ways)
		lines = append(lines, strings.TrimSpace(line+" "+strings.Join(ways, " ")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func expect(t *testing.T, table *Table, want string) {
	t.Helper()
	if got := text(table.Changes()); got != want {
		t.Errorf("changes %q, not %q", got, want)
	}
}

func TestTheLowestMetricAnswers(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN}, linkName)
	table.Route(newRoute("192.0.2.0/24", 20, via("198.51.100.2")))
	table.Route(newRoute("192.0.2.0/24", 10, via("198.51.100.1")))
	table.Route(newRoute("192.0.2.0/24", 30, via("198.51.100.3")))
	expect(t, table, "192.0.2.0/24 198.51.100.1")
	table.Route(gone(newRoute("192.0.2.0/24", 10)))
	expect(t, table, "192.0.2.0/24 198.51.100.2")
	replaced := newRoute("192.0.2.0/24", 20, via("198.51.100.9"))
	replaced.Replace = true
	table.Route(replaced)
	expect(t, table, "192.0.2.0/24 198.51.100.9")
	table.Route(gone(newRoute("192.0.2.0/24", 20)))
	table.Route(gone(newRoute("192.0.2.0/24", 30)))
	expect(t, table, "192.0.2.0/24")
	if table.Route(gone(newRoute("192.0.2.0/24", 30))) {
		t.Error("the end of a route that is not there is no contradiction")
	}
}

func TestPathsOfIPv6JoinAndLeaveOneByOne(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN}, linkName)
	a, b := via("fe80::a"), via("fe80::b")
	table.Route(newRoute("2001:db8::/32", 1024, a))
	further := newRoute("2001:db8::/32", 1024, a, b)
	further.Append = true
	table.Route(further)
	expect(t, table, "2001:db8::/32 fe80::a fe80::b")
	table.Route(gone(newRoute("2001:db8::/32", 1024, a)))
	expect(t, table, "2001:db8::/32 fe80::b")
	table.Route(gone(newRoute("2001:db8::/32", 1024, b)))
	expect(t, table, "2001:db8::/32")
}

func TestAnEndAndAStartInOneTransactionAreOneChange(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN, OnePerPrefix: true}, linkName)
	table.Route(newRoute("2001:db8::/32", 20, via("fe80::a")))
	table.Changes()
	table.Route(gone(newRoute("2001:db8::/32", 20)))
	table.Route(newRoute("2001:db8::/32", 20, via("fe80::b")))
	expect(t, table, "2001:db8::/32 fe80::b")
}

func TestWhatIsNotAskedForDoesNotCount(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN, OnePerPrefix: true}, linkName)
	table.Route(newRoute("2001:db8::/32", 20, via("fe80::a")))
	table.Changes()
	for _, change := range []func(*Route){
		func(r *Route) { r.Cloned = true },
		func(r *Route) { r.Selective = true },
		func(r *Route) { r.Table = 1000 },
		func(r *Route) { r.Table, r.Delete = 0, true },
		func(r *Route) { r.Type, r.Delete = unix.RTN_LOCAL, true },
	} {
		r := newRoute("2001:db8::/32", 20, via("fe80::b"))
		change(r)
		table.Route(r)
		expect(t, table, "")
	}
	if table.Untaken != 1 {
		t.Errorf("%d routes of table 0, not 1", table.Untaken)
	}
}

func TestARouteThatDoesNotCountTakesThePlaceOfOneThatDoes(t *testing.T) {
	for _, one := range []bool{false, true} {
		for _, change := range []func(*Route){
			func(r *Route) { r.Protocol = unix.RTPROT_KERNEL },
			func(r *Route) { r.Type = unix.RTN_LOCAL },
			func(r *Route) { r.Type = unix.RTN_THROW },
		} {
			table := NewTable(Rules{Table: unix.RT_TABLE_MAIN, OnePerPrefix: one}, linkName)
			table.Route(newRoute("192.0.2.0/24", 20, via("198.51.100.1")))
			table.Changes()
			r := newRoute("192.0.2.0/24", 20, via("198.51.100.2"))
			r.Replace = !one
			change(r)
			table.Route(r)
			expect(t, table, "192.0.2.0/24")
		}
	}
}

func TestRoutesOfIPv4AreInTheOrderOfTheKernel(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN}, linkName)
	a, b, c := newRoute("192.0.2.0/24", 20, via("198.51.100.1")), newRoute("192.0.2.0/24", 20, via("198.51.100.2")), newRoute("192.0.2.0/24", 20, via("198.51.100.3"))
	table.Route(a)
	b.Append = true
	table.Route(b)
	expect(t, table, "192.0.2.0/24 198.51.100.1")
	if table.Doubts != 0 {
		t.Errorf("%d doubts of what is clear", table.Doubts)
	}
	table.Route(c) // ip route prepend
	expect(t, table, "192.0.2.0/24 198.51.100.3")
	// The end of one that is not there is not that of another.
	if table.Route(gone(newRoute("192.0.2.0/24", 20, via("198.51.100.4")))) || table.Doubts != 2 {
		t.Errorf("%d doubts, not 2", table.Doubts)
	}
	expect(t, table, "192.0.2.0/24 198.51.100.3")
}

// A dump has the last of three states, and is followed by the events of all.
func TestEventsThatADumpHasLeaveNoGhost(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN}, linkName)
	first, last := newRoute("192.0.2.0/24", 20, via("198.51.100.1")), newRoute("192.0.2.0/24", 20, via("198.51.100.2"))
	table.Route(last)
	table.Route(first)
	if table.Doubts != 1 {
		t.Errorf("%d doubts, not 1", table.Doubts)
	}
	last.Replace = true
	table.Route(last)
	expect(t, table, "192.0.2.0/24 198.51.100.2")
	table.Route(gone(last))
	expect(t, table, "192.0.2.0/24")
}

func TestARouteWaitsForItsObjectAndKeepsItsAnswer(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN, OnePerPrefix: true}, linkName)
	table.Route(newRoute("2001:db8::/32", 20, via("fe80::a")))
	table.Changes()
	table.Route(newGroupRoute("2001:db8::/32", 7))
	expect(t, table, "2001:db8::/32 stays")
	table.NextHop(&NextHop{ID: 7, Group: []Member{{8, 1}}})
	expect(t, table, "2001:db8::/32 stays")
	if table.Waiting() != 1 {
		t.Errorf("%d routes wait, not 1", table.Waiting())
	}
	table.NextHop(&NextHop{ID: 8, Group: []Member{{1, 2}, {2, 1}}})
	table.NextHop(&NextHop{ID: 1, Hop: via("fe80::1")})
	table.NextHop(&NextHop{ID: 2, Hop: via("fe80::2")})
	expect(t, table, "2001:db8::/32 fe80::1*2 fe80::2")
	if table.Waiting() != 0 {
		t.Errorf("%d routes wait, not 0", table.Waiting())
	}
	// A group deep below the route changes, and a repeat changes nothing.
	table.NextHop(&NextHop{ID: 2, Hop: via("fe80::3")})
	expect(t, table, "2001:db8::/32 fe80::1*2 fe80::3")
	table.NextHop(&NextHop{ID: 2, Hop: via("fe80::3")})
	expect(t, table, "")
	if table.NextHop(&NextHop{ID: 7, Delete: true}) {
		t.Error("the end of an object that a route names is no contradiction")
	}
	expect(t, table, "")
}

// Otherwise its routes would go on by what it was before.
func TestRoutesWaitForAnObjectThatCannotBeRead(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN, OnePerPrefix: true}, linkName)
	table.NextHop(&NextHop{ID: 1, Hop: via("fe80::1")})
	table.NextHop(&NextHop{ID: 7, Group: []Member{{1, 1}}})
	table.Route(newGroupRoute("2001:db8::/32", 7))
	expect(t, table, "2001:db8::/32 fe80::1")
	for id, data := range map[uint32][]byte{
		1: message(unix.RTM_NEWNEXTHOP, 0, make([]byte, 8), func(e *nl.AttributeEncoder) {
			e.Uint32(unix.NHA_ID, 1)
			e.Bytes(unix.NHA_GATEWAY, []byte{1, 2, 3})
		}),
		7: message(unix.RTM_NEWNEXTHOP, 0, make([]byte, 8), func(e *nl.AttributeEncoder) {
			e.Uint32(unix.NHA_ID, 7)
			e.Bytes(unix.NHA_GROUP, []byte{1, 2, 3})
		}),
	} {
		all, err := decodeAll(data)
		object, ok := all[0].(*NextHop)
		if err == nil || !ok || object.ID != id || !object.Unread {
			t.Fatalf("%v, %v", all, err)
		}
		table.NextHop(object)
		expect(t, table, "2001:db8::/32 stays")
		if table.Waiting() != 1 {
			t.Errorf("%d routes wait, not 1", table.Waiting())
		}
		table.NextHop(&NextHop{ID: 1, Hop: via("fe80::2")})
		table.NextHop(&NextHop{ID: 7, Group: []Member{{1, 1}}})
		expect(t, table, "2001:db8::/32 fe80::2")
	}
}

func TestACircleOfGroupsEnds(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN, OnePerPrefix: true}, linkName)
	table.NextHop(&NextHop{ID: 1, Group: []Member{{2, 1}, {2, 1}}})
	table.NextHop(&NextHop{ID: 2, Group: []Member{{1, 1}, {1, 1}}})
	table.Route(newGroupRoute("2001:db8::/32", 1))
	expect(t, table, "2001:db8::/32 stays")
	if table.Waiting() != 1 {
		t.Errorf("%d routes wait, not 1", table.Waiting())
	}
}

func TestAnInterfaceThatIsNamedLaterIsToldAnew(t *testing.T) {
	name := ""
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN}, func(uint32) string { return name })
	table.Route(newRoute("2001:db8::/32", 20, Hop{Link: 12, Weight: 1}))
	expect(t, table, "2001:db8::/32 if12")
	name = "eth12"
	expect(t, table, "2001:db8::/32 eth12")
	expect(t, table, "")
}

func manyHops(count int) (hops []Hop) {
	for i := range count {
		hops = append(hops, via(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String()))
	}
	return hops
}

func TestARouteOfTooManyPathsIsLeftOutAndNamedOnce(t *testing.T) {
	options := sourcetest.Options(t, "")
	var log strings.Builder
	options.Log = slog.New(slog.NewTextHandler(&log, nil))
	oversized := NewOversized("test", options)
	count := func(want float64) {
		t.Helper()
		if count := testutil.ToFloat64(oversized.gauge); count != want {
			t.Errorf("%v routes are counted, not %v", count, want)
		}
	}
	group := &NextHop{ID: 7}
	for i := range uint32(MaxHops + 1) {
		group.Group = append(group.Group, Member{i + 10, 1})
	}
	var table *Table
	for range 2 { // the table is read anew
		table = NewTable(Rules{Table: unix.RT_TABLE_MAIN}, linkName)
		table.Route(newRoute("192.0.2.0/24", 10, manyHops(MaxHops+1)...))
		table.Route(newRoute("192.0.2.0/24", 20, via("198.51.100.2"))) // the kernel does not use it
		table.Route(newRoute("203.0.113.0/24", 10, via("198.51.100.3")))
		for i, hop := range manyHops(MaxHops + 1) {
			table.NextHop(&NextHop{ID: uint32(i + 10), Hop: hop})
		}
		table.NextHop(group)
		table.Route(newGroupRoute("198.51.100.0/24", 7))
		expect(t, table, "192.0.2.0/24; 198.51.100.0/24; 203.0.113.0/24 198.51.100.3")
		oversized.Note(table)
		count(2)
	}
	if out := log.String(); strings.Count(out, "\n") != 1 || !strings.Contains(out, "192.0.2.0/24") || !strings.Contains(out, "198.51.100.0/24") {
		t.Errorf("the log is %s", out)
	}
	if table.Waiting() != 0 {
		t.Errorf("%d routes wait", table.Waiting())
	}
	table.NextHop(&NextHop{ID: 7, Group: group.Group[:2]})
	expect(t, table, "198.51.100.0/24 10.1.0.0 10.1.0.1")
	table.Route(gone(newRoute("192.0.2.0/24", 10)))
	expect(t, table, "192.0.2.0/24 198.51.100.2")
	oversized.Note(table)
	count(0)
}

func TestPathsThatJoinOneByOneAreTooManyAsWell(t *testing.T) {
	table := NewTable(Rules{Table: unix.RT_TABLE_MAIN}, linkName)
	table.Route(newRoute("2001:db8::/32", 1024, manyHops(MaxHops-1)...))
	further := newRoute("2001:db8::/32", 1024)
	further.Append = true
	for i, paths := range []int{MaxHops, 0, 0} {
		further.Hops = []Hop{via(fmt.Sprintf("fe80::%d", i+1))}
		table.Route(further)
		if routes := table.Changes(); len(routes) != 1 || len(routes[0].Paths) != paths {
			t.Errorf("%d routes, not one of %d paths", len(routes), paths)
		}
	}
	if table.Route(gone(newRoute("2001:db8::/32", 1024, via("fe80::1")))) {
		t.Error("that one of more paths than are known has ended is no contradiction")
	}
}
