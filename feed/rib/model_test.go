// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source"
)

const (
	firstID       = maxID - 13 // so few ids that hashes collide
	withdrawDelay = 50 * time.Millisecond
	staleTime     = 10 * time.Second
	objectGrace   = 5 * time.Second
)

func via(gateway, iface string, weight uint32) source.NextHop {
	return source.NextHop{Gateway: netip.MustParseAddr(gateway), Interface: iface, Weight: weight}
}

// Paths that a source may tell, and what the server then has, in the words of fakeServer.
var choices = []struct {
	paths []source.NextHop
	means string
}{
	{[]source.NextHop{via("fe80::1", "eth0", 0)}, "fe80::1 eth0 "},
	{[]source.NextHop{via("fe80::1%eth0", "", 9)}, "fe80::1 eth0 "},
	{[]source.NextHop{via("fe80::1", "eth1", 0)}, "fe80::1 eth1 "},
	{[]source.NextHop{via("192.0.2.1", "", 0)}, "192.0.2.1  "},
	{[]source.NextHop{{Interface: "eth1"}}, " eth1 "},
	{[]source.NextHop{{Label: "blackhole"}}, "  blackhole"},
	{[]source.NextHop{{ID: 7}}, "7"},
	{[]source.NextHop{via("192.0.2.1", "", 2), via("fe80::1", "eth0", 4)}, "192.0.2.1  *1 fe80::1 eth0 *2"},
	{[]source.NextHop{via("fe80::1", "eth0", 2), via("192.0.2.1", "", 1)}, "192.0.2.1  *1 fe80::1 eth0 *2"},
	{[]source.NextHop{via("fe80::1", "eth0", 0), via("192.0.2.1", "", 0)}, "192.0.2.1  *1 fe80::1 eth0 *1"},
	{[]source.NextHop{via("192.0.2.9", "", 0), via("192.0.2.9", "", 0)}, "192.0.2.9  "},
	{[]source.NextHop{from(via("192.0.2.1", "", 0), 7)}, "192.0.2.1  AS7"},
	{[]source.NextHop{from(via("192.0.2.1", "", 0), 9), from(via("192.0.2.1", "", 2), 7)}, "192.0.2.1  AS7*2 192.0.2.1  AS9*1"},
}

// The next hop of a route that comes from an AS.
func from(way source.NextHop, as uint32) source.NextHop {
	way.Attributes, _ = source.EncodeAttributes(&planbv1.Attributes{OriginAs: as})
	return way
}

// What a server does with batches; it keeps everything in maps.
type fakeServer struct {
	t       *testing.T
	objects map[uint32]*planbv1.NextHop
	groups  map[uint32]*planbv1.NextHopGroup
	routes  map[netip.Prefix]uint32
}

func newServer(t *testing.T) *fakeServer {
	return &fakeServer{t, map[uint32]*planbv1.NextHop{}, map[uint32]*planbv1.NextHopGroup{},
		map[netip.Prefix]uint32{}}
}

func (s *fakeServer) object(id uint32) string {
	o := s.objects[id]
	if o == nil {
		s.t.Fatalf("%d is not described", id)
	}
	gateway := ""
	if a, ok := netip.AddrFromSlice(o.Gateway); ok {
		gateway = a.String()
	}
	label := o.Label
	if o.Attributes != nil {
		label += fmt.Sprintf("AS%d", o.Attributes.OriginAs)
	}
	return strings.Join([]string{gateway, o.Interface, label}, " ")
}

// What a route to the id means.
func (s *fakeServer) means(id uint32) string {
	if id < firstID {
		return fmt.Sprint(id)
	}
	group := s.groups[id]
	if group == nil {
		return s.object(id)
	}
	var members []string
	for _, m := range group.Members {
		members = append(members, fmt.Sprintf("%s*%d", s.object(m.NextHopId), m.Weight))
	}
	slices.Sort(members)
	return strings.Join(members, " ")
}

// Applies a batch; `mayGo` tells whether a prefix may be withdrawn.
func (s *fakeServer) apply(b *Batch, mayGo func(netip.Prefix) bool) {
	for _, o := range b.NextHops {
		if s.objects[o.Id] != nil || s.groups[o.Id] != nil {
			s.t.Fatalf("id %d gets another meaning", o.Id)
		}
		s.objects[o.Id] = o
	}
	for _, g := range b.Groups {
		if s.objects[g.Id] != nil || s.groups[g.Id] != nil {
			s.t.Fatalf("id %d gets another meaning", g.Id)
		}
		s.groups[g.Id] = g
	}
	s.changes(b.ChangesV6, 16, mayGo)
	s.changes(b.ChangesV4, 4, mayGo)
}

func (s *fakeServer) changes(packed []byte, size int, mayGo func(netip.Prefix) bool) {
	for change := range slices.Chunk(packed, size+6) {
		address, _ := netip.AddrFromSlice(change[:size])
		prefix := netip.PrefixFrom(address, int(change[size]))
		id := binary.LittleEndian.Uint32(change[size+2:])
		switch planbv1.RouteUpdate_Op(change[size+1]) {
		case planbv1.RouteUpdate_OP_UPSERT:
			s.means(id)
			if s.routes[prefix] == id {
				s.t.Fatalf("%s was sent again", prefix)
			}
			s.routes[prefix] = id
		case planbv1.RouteUpdate_OP_DELETE:
			if !mayGo(prefix) {
				s.t.Fatalf("a hole: %s was withdrawn", prefix)
			}
			delete(s.routes, prefix)
		default:
			s.t.Fatalf("operation %d", change[size+1])
		}
	}
}

// Removes next hops and groups that nothing names.
func (s *fakeServer) remove(objects, groups []uint32) {
	for _, id := range append(slices.Clone(objects), groups...) {
		if id < firstID || s.objects[id] == nil && s.groups[id] == nil {
			s.t.Fatalf("%d is not the feed's, or not there", id)
		}
		for prefix, used := range s.routes {
			if used == id {
				s.t.Fatalf("%s names %d", prefix, id)
			}
		}
	}
	for _, id := range groups {
		delete(s.groups, id)
	}
	for _, id := range objects {
		for _, g := range s.groups {
			if slices.Contains(idsOf(g), id) {
				s.t.Fatalf("group %d names %d", g.Id, id)
			}
		}
		delete(s.objects, id)
	}
}

func (s *fakeServer) list(t *Table) {
	t.Disconnect()
	// As a server does: by id, in several messages.
	for _, id := range slices.Sorted(maps.Keys(s.objects)) {
		t.ListNextHops([]*planbv1.NextHop{s.objects[id]}, nil)
	}
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		t.ListNextHops(nil, []*planbv1.NextHopGroup{s.groups[id]})
	}
	for prefix, id := range s.routes {
		err := t.ListRoutes([]*planbv1.Route{{NextHopId: id, Prefix: &planbv1.Prefix{
			Address: prefix.Addr().AsSlice(), Length: uint32(prefix.Bits())}}})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	t.EndList()
}

// The trivial oracle: what each source says, in maps, and everything by going through
// all of them.
type oracle struct {
	sources  []*oracleSource
	leftover map[netip.Prefix]bool
	settled  bool
	online   bool // what the server has is known
}

type oracleSource struct {
	distance uint8
	started  time.Time
	sessions map[string]*oracleSession
	routes   map[netip.Prefix]oracleRoute
}

type oracleSession struct {
	told, stale, live bool
	expected          bool
	lost              time.Time
	lostFor           time.Duration // before that
	repeated          map[netip.Prefix]bool
	gone              map[netip.Prefix]bool // withdrawn before it told all
}

// How long it was lost in all.
func (o *oracleSession) away(now time.Time) time.Duration {
	if o.live {
		return o.lostFor
	}
	return o.lostFor + now.Sub(o.lost)
}

// Without a meaning: there is a route, but not yet what it says.
type oracleRoute struct {
	session, means string
	toldAt         time.Duration // what lostFor of the session was
}

func (o *oracleSource) session(name string) *oracleSession {
	if o.sessions[name] == nil {
		o.sessions[name] = &oracleSession{live: true, repeated: map[netip.Prefix]bool{}, gone: map[netip.Prefix]bool{}}
	}
	return o.sessions[name]
}

// What the server should have; "*": any answer.
func (o *oracle) expected() map[netip.Prefix]string {
	all := map[netip.Prefix]string{}
	if !o.settled {
		for prefix := range o.leftover {
			all[prefix] = "*"
		}
	}
	byDistance := slices.Clone(o.sources)
	slices.SortStableFunc(byDistance, func(a, b *oracleSource) int { return cmp.Compare(b.distance, a.distance) })
	// Of equal distance the first one in the configuration comes last here.
	for i := range byDistance {
		for j := i + 1; j < len(byDistance) && byDistance[j].distance == byDistance[i].distance; j++ {
			byDistance[i], byDistance[j] = byDistance[j], byDistance[i]
		}
	}
	for _, s := range byDistance {
		for prefix, route := range s.routes {
			if route.means != "" {
				all[prefix] = route.means
			} else if all[prefix] == "" {
				all[prefix] = "*"
			}
		}
	}
	return all
}

func (o *oracle) tick(now time.Time) {
	for _, s := range o.sources {
		for name, session := range s.sessions {
			if !session.live && now.Sub(session.lost) >= staleTime {
				session.stale = true
			}
			maps.DeleteFunc(s.routes, func(prefix netip.Prefix, r oracleRoute) bool {
				gone := r.session == name && session.away(now)-r.toldAt >= staleTime
				if gone {
					delete(o.leftover, prefix)
				}
				return gone
			})
			if session.stale && !session.expected {
				delete(s.sessions, name)
			}
		}
	}
	o.settle(now)
}

func (o *oracle) settle(now time.Time) {
	if !o.online {
		return
	}
	for _, s := range o.sources {
		if len(s.sessions) == 0 && now.Sub(s.started) < staleTime {
			return
		}
		for _, session := range s.sessions {
			if !session.told && !session.stale {
				return
			}
		}
	}
	o.settled = true
}

type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	server *fakeServer
	table  *Table
	oracle *oracle
}

func (w *world) prefix() netip.Prefix {
	n := byte(w.random.IntN(12))
	if w.random.IntN(2) == 0 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, n}), 16)
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{n}), 8*w.random.IntN(2)*min(1, int(n))+8*min(1, int(n)))
}

// A feed that starts beside the server as it is.
func (w *world) startFeed() {
	options := Options{FirstID: firstID, WithdrawDelay: withdrawDelay, ObjectGrace: objectGrace,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now }}
	w.oracle = &oracle{}
	for i, distance := range []uint8{20, 5, 20} {
		options.Sources = append(options.Sources,
			SourceOptions{Name: fmt.Sprint(i), Distance: distance, StaleTime: staleTime})
		w.oracle.sources = append(w.oracle.sources, &oracleSource{distance, w.now,
			map[string]*oracleSession{}, map[netip.Prefix]oracleRoute{}})
	}
	w.table = New(options)
	w.connect()
}

func (w *world) connect() {
	w.server.list(w.table)
	w.oracle.online = true
	w.oracle.leftover = map[netip.Prefix]bool{}
	for prefix := range w.server.routes {
		w.oracle.leftover[prefix] = true
	}
	w.oracle.settle(w.now)
}

func (w *world) apply(at int, name string) {
	s := w.oracle.sources[at]
	session := s.sessions[name]
	var routes []source.Route
	for range 1 + w.random.IntN(6) {
		prefix := w.prefix()
		if w.random.IntN(3) == 0 {
			routes = append(routes, source.Route{Prefix: prefix})
			if session != nil && s.routes[prefix].session == name && session.live {
				delete(s.routes, prefix)
				if session.told {
					delete(w.oracle.leftover, prefix)
				} else if w.oracle.online && w.oracle.leftover[prefix] {
					session.gone[prefix] = true
				}
			}
			continue
		}
		if session == nil { // it has not begun
			session = s.session(name)
			session.live, session.lost = false, w.now
		}
		if w.random.IntN(5) == 0 {
			routes = append(routes, source.Route{Prefix: prefix, Keep: true})
			s.routes[prefix] = oracleRoute{name, s.routes[prefix].means, session.lostFor}
			session.repeated[prefix] = true
			continue
		}
		choice := choices[w.random.IntN(len(choices))]
		routes = append(routes, source.Route{Prefix: prefix, Paths: choice.paths})
		s.routes[prefix] = oracleRoute{name, choice.means, session.lostFor}
		session.repeated[prefix] = true
	}
	w.table.Sink(at).Apply(name, routes)
}

func (w *world) step() {
	at := w.random.IntN(3)
	name := string(rune('a' + w.random.IntN(2)))
	s, sink := w.oracle.sources[at], w.table.Sink(at)
	switch w.random.IntN(20) {
	case 0, 1:
		session := s.session(name)
		session.lostFor = session.away(w.now)
		session.repeated, session.live, session.stale = map[netip.Prefix]bool{}, true, false
		sink.Begin(name)
	case 2, 3:
		session := s.session(name)
		session.told = true
		maps.DeleteFunc(s.routes, func(prefix netip.Prefix, r oracleRoute) bool {
			if r.session != name || session.repeated[prefix] {
				return false
			}
			session.gone[prefix] = true
			return true
		})
		for prefix := range session.gone {
			delete(w.oracle.leftover, prefix)
		}
		clear(session.gone)
		w.oracle.settle(w.now)
		sink.Complete(name)
	case 4:
		isNew := s.sessions[name] == nil
		if session := s.session(name); session.live {
			session.live, session.lost = false, w.now
			session.expected = session.expected || isNew
		}
		sink.Lost(name)
	case 5:
		if w.random.IntN(5) == 0 {
			if s.sessions[name] != nil {
				delete(s.sessions, name)
				maps.DeleteFunc(s.routes, func(prefix netip.Prefix, r oracleRoute) bool {
					if r.session == name {
						delete(w.oracle.leftover, prefix)
					}
					return r.session == name
				})
				w.oracle.settle(w.now)
			}
			sink.Forget(name)
		}
	case 6:
		w.now = w.now.Add(time.Duration(w.random.IntN(8000)) * time.Millisecond)
		w.oracle.tick(w.now)
		w.table.Tick()
	case 7: // the connection breaks
		w.table.Disconnect()
		w.oracle.online = false
		if w.random.IntN(4) == 0 {
			w.server = newServer(w.t) // and the server has forgotten everything
		}
	case 8:
		if w.random.IntN(10) == 0 {
			w.startFeed()
		} else if !w.oracle.online {
			w.connect()
		}
	case 9:
		w.server.remove(w.table.Unused(1 + w.random.IntN(3)))
	case 10:
		if w.random.IntN(3) == 0 {
			before := len(w.server.routes)
			w.receive(w.table.TakeKnown(routeCost))
			if len(w.server.routes) > before {
				w.t.Fatal("a new route")
			}
			return
		}
		w.take(max(1, routeCost+2-w.random.IntN(routeCost+4)))
	default:
		w.apply(at, name)
	}
}

func (w *world) take(budget int) *Batch {
	batch := w.table.Take(budget)
	if batch.Changes() > budget && (batch.Announced > 1 || budget >= routeCost) {
		w.t.Fatalf("%d changes, more than %d", batch.Changes(), budget)
	}
	w.receive(batch)
	return batch
}

func (w *world) receive(batch *Batch) {
	if !w.oracle.online && batch.Changes() > 0 {
		w.t.Fatal("changes of a table that is not connected")
	}
	expected := w.oracle.expected()
	w.server.apply(batch, func(prefix netip.Prefix) bool { return expected[prefix] == "" })
}

func (w *world) check() {
	if !w.oracle.online {
		w.connect()
	}
	for batch := w.take(1 << 20); batch.Changes() > 0 || !batch.Next.IsZero(); batch = w.take(1 << 20) {
		w.now = w.now.Add(withdrawDelay)
	}
	expected := w.oracle.expected()
	for prefix, id := range w.server.routes {
		if want := expected[prefix]; want != "*" && want != w.server.means(id) {
			w.t.Fatalf("%s: %q, not %q", prefix, w.server.means(id), want)
		}
	}
	for prefix, want := range expected {
		if _, is := w.server.routes[prefix]; !is && want != "*" {
			w.t.Fatalf("%s is not there", prefix)
		}
	}
	stats, told := w.table.Stats(), map[netip.Prefix]bool{}
	for _, s := range w.oracle.sources {
		for prefix := range s.routes {
			told[prefix] = true
		}
	}
	for i, s := range w.oracle.sources {
		if stats.Sources[i].Routes != len(s.routes) {
			w.t.Fatalf("source %d has %d routes, not %d", i, stats.Sources[i].Routes, len(s.routes))
		}
		for name, session := range s.sessions {
			own, fresh := 0, 0
			for prefix, r := range s.routes {
				if r.session == name {
					own++
					if session.repeated[prefix] {
						fresh++
					}
				}
			}
			// The part of a session in the leftovers is that in what was told.
			unclaimed := 0
			for prefix := range w.server.routes {
				if expected[prefix] == "*" && !told[prefix] {
					unclaimed++
				}
			}
			if fresh > 0 {
				unclaimed = int(math.Ceil(float64(unclaimed) * float64(fresh) / float64(len(told))))
			}
			if w.now.Sub(s.started) >= staleTime {
				unclaimed = 0
			}
			if told, rest := w.table.Sink(i).Progress(name); told != fresh || rest != own-fresh+unclaimed {
				w.t.Fatalf("progress of %d/%s: %d %d, not %d %d", i, name, told, rest, fresh, own-fresh+unclaimed)
			}
		}
	}
	if stats.Settled != w.oracle.settled || stats.Pending != 0 || stats.Prefixes != len(expected) {
		w.t.Fatalf("%+v, but settled is %v, and there are %d prefixes", stats, w.oracle.settled, len(expected))
	}
}

func TestTheServerHasWhatATrivialMergeHas(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0), server: newServer(t)}
			w.startFeed()
			for range 600 {
				w.step()
				if w.random.IntN(10) == 0 {
					w.check()
				}
			}
			w.check()
		})
	}
}
