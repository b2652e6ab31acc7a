// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source"
)

// A connected table of one source, and its clock.
func newTable(now *time.Time) (*Table, *Sink) {
	t := New(Options{Sources: []SourceOptions{{Name: "a", StaleTime: staleTime}}, FirstID: firstID,
		WithdrawDelay: withdrawDelay, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return *now }})
	t.Disconnect()
	t.EndList()
	return t, t.Sink(0)
}

func route(prefix string, paths ...source.NextHop) []source.Route {
	return []source.Route{{Prefix: netip.MustParsePrefix(prefix), Paths: paths}}
}

func TestAWithdrawalWaitsForAnAnnouncementOfItsPrefix(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	sink.Apply("", route("10.0.0.0/8", via("192.0.2.1", "", 0)))
	table.Take(1000)
	sink.Apply("", route("10.0.0.0/8"))
	if b := table.Take(1000); b.Changes() != 0 || !b.Next.Equal(now.Add(withdrawDelay)) || !b.Drained {
		t.Errorf("%+v", b)
	}
	now = now.Add(withdrawDelay - 1)
	if b := table.Take(1000); b.Changes() != 0 {
		t.Errorf("%+v", b)
	}
	sink.Apply("", route("10.0.0.0/8", via("192.0.2.2", "", 0)))
	if b := table.Take(1000); b.Announced != 1 || b.Withdrawn != 0 {
		t.Errorf("%+v", b)
	}
	sink.Apply("", route("10.0.0.0/8"))
	now = now.Add(withdrawDelay)
	if b := table.Take(1000); b.Withdrawn != 1 || !b.Next.IsZero() {
		t.Errorf("%+v", b)
	}
}

func TestWhatASweepRemovesGoesAtOnce(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	sink.Begin("")
	sink.Apply("", route("10.0.0.0/8", via("192.0.2.1", "", 0)))
	table.Take(1000)
	sink.Begin("")
	sink.Complete("")
	if b := table.Take(1000); b.Withdrawn != 1 || !b.AllTold {
		t.Errorf("%+v", b)
	}
}

func TestTheStaleTimeOfASilentSourceBeginsWithTheFirstList(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, _ := newTable(&now)
	table = New(table.options)
	now = now.Add(10 * staleTime) // the server was away
	table.Tick()
	list := newServer(t)
	list.routes[netip.MustParsePrefix("10.0.0.0/8")] = 7
	list.list(table)
	table.Tick()
	if b := table.Take(1000); b.Changes() != 0 {
		t.Errorf("a source had no time to tell, and routes were withdrawn: %+v", b)
	}
	now = now.Add(staleTime)
	table.Tick()
	if b := table.Take(1000); b.Withdrawn != 1 {
		t.Errorf("%+v", b)
	}
}

func TestASessionThatComesAndGoesKeepsOnlyWhatItRepeats(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	sink.Begin("")
	sink.Apply("", append(route("10.0.0.0/8", via("192.0.2.1", "", 0)), route("10.1.0.0/16", via("192.0.2.1", "", 0))...))
	sink.Complete("")
	away := time.Duration(0)
	flap := func(down time.Duration) {
		sink.Lost("")
		now = now.Add(down)
		away += down
		table.Tick()
		sink.Begin("")
		sink.Apply("", route("10.0.0.0/8", via("192.0.2.1", "", 0)))
		now = now.Add(staleTime) // which does not count
		table.Tick()
	}
	for away+time.Second < staleTime {
		flap(time.Second)
		if n := table.Stats().Sources[0].Routes; n != 2 {
			t.Fatalf("%d routes after it was away for %s", n, away)
		}
	}
	flap(time.Second)
	if n := table.Stats().Sources[0].Routes; n != 1 {
		t.Errorf("%d routes, not the one that each session told", n)
	}
	for range 2 * maxEarlier {
		flap(time.Millisecond)
	}
	if n := len(table.sources[0].sessions[""].earlier); n > maxEarlier {
		t.Errorf("%d times are remembered", n)
	}
	sink.Complete("")
	if n := len(table.sources[0].sessions[""].earlier); n != 0 {
		t.Errorf("%d times are remembered of a session that told all", n)
	}
}

// Dynamic neighbours come by any address.
func TestASessionWhoseNameCameAndWentIsForgotten(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	sink.Lost("expected")
	for i := range 3 {
		sink.Begin(fmt.Sprint(i))
		sink.Apply(fmt.Sprint(i), route(fmt.Sprintf("1%d.0.0.0/8", i), via("192.0.2.1", "", 0)))
		sink.Lost(fmt.Sprint(i))
	}
	sink.Begin("expected")
	sink.Complete("expected")
	table.Tick()
	if s := table.Stats(); s.AllTold || s.Sources[0].Lost != 3 || s.Sources[0].Routes != 3 {
		t.Errorf("%+v", s)
	}
	now = now.Add(staleTime)
	table.Tick()
	if s := table.Stats(); !s.AllTold || s.Sources[0].Lost != 0 || s.Sources[0].Routes != 0 {
		t.Errorf("%+v", s)
	}
	// What is still told of it, without a beginning, does not stay for ever.
	sink.Apply("1", route("10.0.0.0/8", via("192.0.2.1", "", 0)))
	now = now.Add(staleTime - 1)
	table.Tick()
	if s := table.Stats().Sources[0]; s.Routes != 1 {
		t.Errorf("%+v", s)
	}
	now = now.Add(1)
	table.Tick()
	if s := table.Stats().Sources[0]; s.Routes != 0 || s.Lost != 0 {
		t.Errorf("%+v", s)
	}
	sink.Lost("expected")
	now = now.Add(staleTime)
	table.Tick()
	if s := table.Stats().Sources[0]; s.Lost != 1 {
		t.Errorf("%+v", s)
	}
}

func TestARouteThatIsRefusedIsCountedAndNotKept(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	for _, bad := range [][]source.NextHop{{{}}, {{ID: firstID}}, {{ID: 1}, {ID: 2}}} {
		sink.Apply("", route("10.0.0.0/8", via("192.0.2.1", "", 0)))
		sink.Apply("", route("10.0.0.0/8", bad...))
		sink.Apply("", route("10.0.0.1/8", via("192.0.2.1", "", 0)))
	}
	if s := table.Stats(); s.Sources[0].Refused != 6 || s.Sources[0].Routes != 0 || s.Prefixes != 0 {
		t.Errorf("%+v", s)
	}
}

// As long as nothing is taken, or no server is there: what comes and goes leaves nothing.
func TestMemoryIsThatOfTheRoutes(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	for _, disconnect := range []bool{false, true} {
		if disconnect {
			table.Disconnect()
		}
		for i := range 1000 {
			prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24).String()
			sink.Apply("", route(prefix, via("192.0.2.1", "", 0)))
			sink.Apply("", route(prefix))
		}
		if s := table.Stats(); s.Prefixes != 0 || s.Pending != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestWhatNoRouteNamesForTheGraceIsUnused(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, _ := newTable(&now)
	table.options.ObjectGrace = objectGrace
	table = New(table.options)
	server, sink := newServer(t), table.Sink(0)
	server.objects[7] = &planbv1.NextHop{Id: 7, Label: "of another writer"}
	server.objects[firstID+5] = &planbv1.NextHop{Id: firstID + 5, Label: "of an earlier run"}
	server.list(table)
	unused := func(objects, groups int) {
		t.Helper()
		o, g := table.Unused(10)
		if len(o) != objects || len(g) != groups {
			t.Errorf("%d next hops and %d groups, not %d and %d", len(o), len(g), objects, groups)
		}
		server.remove(o, g)
	}
	take := func() { server.apply(table.Take(1000), func(netip.Prefix) bool { return true }) }
	group := []source.NextHop{via("192.0.2.1", "", 0), via("192.0.2.2", "", 0)}
	sink.Apply("", route("10.0.0.0/8", group...))
	sink.Apply("", route("11.0.0.0/8", group[0]))
	take()
	now = now.Add(objectGrace - 1)
	unused(0, 0)
	now = now.Add(1)
	unused(1, 0) // of the earlier run; others are named
	sink.Apply("", route("10.0.0.0/8"))
	sink.Apply("", route("12.0.0.0/8", group...))
	now = now.Add(withdrawDelay)
	take()
	sink.Apply("", route("12.0.0.0/8", via("192.0.2.3", "", 0)))
	take()
	now = now.Add(objectGrace - 1)
	unused(0, 0)
	sink.Apply("", route("10.0.0.0/8", group...)) // named again in time
	take()
	now = now.Add(objectGrace)
	unused(0, 0)
	sink.Apply("", route("10.0.0.0/8"))
	now = now.Add(withdrawDelay)
	take()
	now = now.Add(objectGrace)
	table.Disconnect() // nothing while the list of the server is not complete
	unused(0, 0)
	server.list(table)
	unused(0, 0)
	now = now.Add(objectGrace)
	unused(0, 1)
	now = now.Add(objectGrace)
	unused(1, 0) // a member that no other group and no route names
	sink.Apply("", route("10.0.0.0/8", group...))
	take()
	if got := server.means(server.routes[netip.MustParsePrefix("10.0.0.0/8")]); got != "192.0.2.1  *1 192.0.2.2  *1" {
		t.Error(got)
	}
	if server.objects[7] == nil || len(server.objects) != 4 {
		t.Errorf("%v", server.objects)
	}
}

func TestTextOfANextHopIsWhatAServerTakes(t *testing.T) {
	for text, want := range map[string]string{
		"eth0": "eth0", "a\x1fb\n": "a?b?", "\xff": "?", "ééé": "éé", "\u009b1m": "?1m",
	} {
		if got := bounded(text, 5); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

func TestARouteThatIsKeptIsNeitherSweptNorChanged(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	keep := []source.Route{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Keep: true}}
	sink.Begin("")
	sink.Apply("", route("10.0.0.0/8", via("192.0.2.1", "", 0)))
	sink.Complete("")
	table.Take(1000)
	sink.Begin("")
	sink.Apply("", keep)
	sink.Complete("")
	if b := table.Take(1000); b.Changes() != 0 || table.Stats().Sources[0].Routes != 1 {
		t.Errorf("%+v", b)
	}
	// Nor one that only the server knows; it goes once it is not kept any more.
	server := newServer(t)
	server.routes[netip.MustParsePrefix("10.0.0.0/8")] = 7
	table = New(table.options)
	server.list(table)
	sink = table.Sink(0)
	for range 2 {
		sink.Begin("")
		sink.Apply("", keep)
		sink.Complete("")
		if b := table.Take(1000); b.Changes() != 0 || !b.AllTold {
			t.Errorf("%+v", b)
		}
		server.list(table)
	}
	sink.Begin("")
	sink.Complete("")
	if b := table.Take(1000); b.Withdrawn != 1 {
		t.Errorf("%+v", b)
	}
}

// Leftovers are of all sources: a small session beside a large one is not asked for all
// of them, and none is asked for ever for those of a source that is away.
func TestASessionAnswersForItsPartOfTheLeftovers(t *testing.T) {
	now := time.Unix(1e9, 0)
	options := Options{FirstID: firstID, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	for _, name := range []string{"large", "small", "away"} {
		options.Sources = append(options.Sources, SourceOptions{Name: name, StaleTime: staleTime})
	}
	table, server := New(options), newServer(t)
	var prefixes []netip.Prefix
	for i := range 100 {
		prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i)}), 16))
		server.routes[prefixes[i]] = 7
	}
	server.list(table)
	large, small := table.Sink(0), table.Sink(1)
	progress := func(sink *Sink, told, unrepeated int) {
		t.Helper()
		if a, b := sink.Progress(""); a != told || b != unrepeated {
			t.Errorf("%d told, %d not repeated; not %d, %d", a, b, told, unrepeated)
		}
	}
	progress(small, 0, 100)
	large.Begin("")
	small.Begin("")
	for _, prefix := range prefixes[:80] {
		large.Apply("", route(prefix.String(), source.NextHop{ID: 7}))
	}
	progress(large, 80, 20)
	progress(small, 0, 20) // as long as it tells nothing, all may be its own
	for _, prefix := range prefixes[70:90] {
		small.Apply("", route(prefix.String(), source.NextHop{ID: 7}))
	}
	progress(large, 80, 9) // 80 of 90 in 10, rounded up
	progress(small, 20, 3)
	now = now.Add(staleTime - 1)
	progress(small, 20, 3)
	now = now.Add(1)
	progress(small, 20, 0)
	large.Complete("")
	small.Complete("")
	table.Tick()
	if b := table.Take(1000); b.Withdrawn != 10 || !table.Stats().Settled {
		t.Errorf("%+v", b)
	}
}

func TestASessionThatHasToldAllWithdrawsWhileAnotherOneTells(t *testing.T) {
	now := time.Unix(1e9, 0)
	table := New(Options{Sources: []SourceOptions{{Name: "a", StaleTime: staleTime}, {Name: "b", StaleTime: staleTime}},
		FirstID: firstID, WithdrawDelay: withdrawDelay, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	server := newServer(t)
	prefixes := []string{"10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8", "13.0.0.0/8"}
	for _, prefix := range prefixes {
		server.routes[netip.MustParsePrefix(prefix)] = 7
	}
	server.list(table)
	a, b := table.Sink(0), table.Sink(1)
	b.Begin("") // and never ends that
	a.Begin("")
	for _, prefix := range prefixes[:3] {
		a.Apply("", route(prefix, source.NextHop{ID: 7}))
	}
	withdrawn := func(when string, count int) {
		t.Helper()
		now = now.Add(withdrawDelay)
		if batch := table.Take(1000); batch.Withdrawn != count {
			t.Errorf("%d are withdrawn %s, not %d", batch.Withdrawn, when, count)
		}
	}
	a.Apply("", route(prefixes[0]))
	withdrawn("while it tells all", 0)
	a.Complete("")
	withdrawn("when it has told all", 1)
	a.Apply("", route(prefixes[1]))
	withdrawn("by a word of it", 1)
	a.Begin("")
	a.Complete("")
	withdrawn("by a sweep", 1)
	b.Complete("")
	withdrawn("that no source claims, when all have told all", 1)
}

func TestWeightsOfOneNextHopAddUpToTheLargestOne(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	server := newServer(t)
	// 256 times 2^24-1, and 256: 2^32, the least sum that is 0.
	paths := slices.Repeat([]source.NextHop{via("192.0.2.1", "", 1<<24-1)}, 256)
	paths = append(paths, slices.Repeat([]source.NextHop{via("192.0.2.1", "", 1)}, 256)...)
	sink.Apply("", route("10.0.0.0/8", paths...))
	sink.Apply("", route("10.1.0.0/16", append(paths, via("192.0.2.2", "", 1))...))
	server.apply(table.Take(1000), nil)
	if got := server.means(server.routes[netip.MustParsePrefix("10.0.0.0/8")]); got != "192.0.2.1  " {
		t.Error(got)
	}
	want := fmt.Sprintf("192.0.2.1  *%d 192.0.2.2  *1", 1<<24-1)
	if got := server.means(server.routes[netip.MustParsePrefix("10.1.0.0/16")]); got != want {
		t.Error(got)
	}
}

func TestABatchHasNoMoreBytesThanAServerTakes(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, _ := newTable(&now)
	table.options.FirstID = 1 << 24
	table = New(table.options)
	table.EndList()
	const routes = 2000
	for i := range routes {
		var paths []source.NextHop
		for n := range maxMembers {
			paths = append(paths, via(fmt.Sprintf("2001:db8::%x", n), "", uint32(1+(i+n)%routes)))
		}
		table.Sink(0).Apply("", route(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), paths...))
	}
	taken := 0
	for taken < routes {
		b := table.Take(50_000)
		message := &planbv1.StreamUpdatesRequest{NextHops: b.NextHops, Groups: b.Groups, ChangesV4: b.ChangesV4}
		if size := proto.Size(message); size > maxBytes+128<<10 || b.Announced == 0 {
			t.Fatalf("%d bytes, %d routes", size, b.Announced)
		}
		taken += b.Announced
	}
}

func TestTakeKnownAddsNoRoute(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	for _, prefix := range []string{"10.0.0.0/8", "11.0.0.0/8"} {
		sink.Apply("", route(prefix, via("192.0.2.1", "", 0)))
	}
	table.Take(1000)
	sink.Apply("", route("10.0.0.0/8", via("192.0.2.2", "", 0)))
	sink.Apply("", route("11.0.0.0/8"))
	sink.Apply("", route("12.0.0.0/8", via("192.0.2.1", "", 0)))
	now = now.Add(withdrawDelay)
	if b := table.TakeKnown(1000); b.Announced != 1 || b.Withdrawn != 1 || b.Drained {
		t.Errorf("%+v", b)
	}
	if b := table.Take(1000); b.Announced != 1 || !b.Drained {
		t.Errorf("%+v", b)
	}
}

func TestASessionTellsFromBeginUntilItEndsThat(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	for name, end := range map[string]func(string){"complete": sink.Complete, "lost": sink.Lost, "forgotten": sink.Forget} {
		sink.Begin(name)
		if !table.Telling() {
			t.Errorf("%s: does not tell", name)
		}
		if end(name); table.Telling() {
			t.Errorf("%s: still tells", name)
		}
	}
}

func TestASweepOfTooManyRoutesWaits(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, _ := newTable(&now)
	table.options.SweepShare = 0.5
	table = New(table.options)
	server := newServer(t)
	prefix := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), 24)
	}
	for i := range 4 * sweepFree {
		server.routes[prefix(i)] = 7
	}
	server.list(table)
	sink := table.Sink(0)
	tell := func(count, held, withdrawn int) {
		t.Helper()
		sink.Begin("")
		for i := range count {
			sink.Apply("", []source.Route{{Prefix: prefix(i), Paths: []source.NextHop{{ID: 7}}}})
		}
		sink.Complete("")
		if b := table.Take(1 << 20); b.Withdrawn != withdrawn || table.Stats().Held != held {
			t.Errorf("%d told: %d withdrawn, %d held, not %d, %d", count, b.Withdrawn, table.Stats().Held, withdrawn, held)
		}
	}
	sweep := func(withdrawn int) {
		t.Helper()
		table.Sweep()
		if b := table.Take(1 << 20); b.Withdrawn != withdrawn || table.Stats().Held != 0 {
			t.Errorf("swept: %d withdrawn, %d held", b.Withdrawn, table.Stats().Held)
		}
	}
	tell(sweepFree, 3*sweepFree, 0) // of the server, and no source claims them
	table.Disconnect()
	table.Tick()
	server.list(table)
	if b := table.Take(1 << 20); b.Withdrawn != 0 || table.Stats().Held != 3*sweepFree {
		t.Errorf("connected again: %d withdrawn, %d held", b.Withdrawn, table.Stats().Held)
	}
	sink.Apply("", route(prefix(0).String())) // an ordinary withdrawal
	now = now.Add(withdrawDelay)
	if b := table.Take(1 << 20); b.Withdrawn != 1 || table.Stats().Held != 3*sweepFree {
		t.Errorf("one is withdrawn: %d withdrawn, %d held", b.Withdrawn, table.Stats().Held)
	}
	sweep(3 * sweepFree)
	tell(4*sweepFree, 0, 0)
	table.Take(1 << 20)
	tell(sweepFree, 3*sweepFree, 0)
	tell(4*sweepFree, 0, 0) // all are told again
	tell(sweepFree, 3*sweepFree, 0)
	sweep(3 * sweepFree)
	tell(1, 0, sweepFree-1) // few
	sweep(0)
}

func TestOthersHaveTheirTurnWhileASessionOfManyRoutesIsRemoved(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, sink := newTable(&now)
	const routes = 20 * sweepSlice
	tell := func(i int, id uint32) {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		sink.Apply("goes", []source.Route{{Prefix: prefix, Paths: []source.NextHop{{ID: id}}}})
	}
	for i := range routes {
		tell(i, 7)
	}
	for !table.Take(1 << 20).Drained {
	}
	removed := 0
	table.options.Now = func() time.Time { // with the lock held
		if removed++; removed%sweepSlice == 0 {
			time.Sleep(5 * time.Millisecond) // others come to wait for the lock
		}
		return now
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		sink.Forget("goes")
	}()
	told := 0
	for removing := true; removing; {
		select {
		case <-gone:
			removing = false
		default:
			if pending := table.Stats().Pending; 0 < pending && pending < routes {
				tell(told, 8) // by another session of this name
				told++
			}
		}
	}
	if told == 0 {
		t.Error("the lock was held all the time")
	}
	if stats := table.Stats(); stats.Sources[0].Routes != told || stats.Pending != routes {
		t.Errorf("%d routes of %d that were told meanwhile; %d changes", stats.Sources[0].Routes, told, stats.Pending)
	}
}
