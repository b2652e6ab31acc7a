// SPDX-License-Identifier: Apache-2.0

// Package rib merges what sources tell, and knows what the server lacks of it.
//
// A Table has the routes of all sources; of several for one prefix the source with
// the lowest distance counts. It takes no call to the server: a writer lists what
// the server has (Disconnect, List, EndList) and then takes batches of what differs
// (Take). Its memory is that of the routes, however long the server is away.
package rib

import (
	"cmp"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source"
)

// SourceOptions is how the routes of a source count.
type SourceOptions struct {
	Name     string
	Distance uint8 // the lowest is preferred; of equal ones, the source named first
	// How long routes of a lost session stay.
	StaleTime time.Duration
}

// Options of a Table.
type Options struct {
	Sources []SourceOptions
	FirstID uint32 // of what the feed describes; lower ids are for others
	// A withdrawal waits so long for an announcement of the same prefix.
	WithdrawDelay time.Duration
	// A sweep of more than this part of the routes of a session, or of the table, waits for
	// Sweep if they are at least sweepFree. 0: none waits.
	SweepShare float64
	// What the feed described and no route names for so long is Unused. 0: nothing is.
	ObjectGrace time.Duration
	Log         *slog.Logger
	Now         func() time.Time // for tests; default time.Now
}

// Table is safe for concurrent use.
type Table struct {
	options Options
	wake    chan struct{}

	mu      sync.Mutex
	sources []*feeder // as in the options
	entries map[source.Key]*entry
	// Prefixes that may differ from what the server has, and since when, in
	// nanoseconds. Only while connected.
	dirty     map[source.Key]int64
	connected bool
	listed    bool // once; sources tell nothing before
	ids       ids
	// Every session of every source has told all, or its routes are stale for too
	// long: what no source claimed was withdrawn. Stays true.
	settled bool
	// Every source has told all. Stays true.
	allTold bool
	// Routes that no source claimed, which wait for Sweep before the table settles.
	unclaimed int
	swept     bool
}

// A sweep of fewer routes never waits.
const sweepFree = 1000

type feeder struct {
	SourceOptions
	rank     int
	started  time.Time // when it could tell
	sessions map[string]*session
	stats    SourceStats
}

type session struct {
	source *feeder
	mark   uint32 // of routes that were told since Begin
	routes int
	fresh  int // of these, with the mark
	told   bool
	// Its name is of the configuration: it is waited for, also when it is lost.
	expected bool
	begun    bool      // and has not told all since
	held     bool      // what it did not repeat waits for Sweep
	lost     time.Time // zero while it lives
	stale    bool      // lost for too long
	// How long it was lost before that, and when which routes were told, since it told all:
	// a session that begins again and again keeps nothing that it never repeats.
	lostFor time.Duration
	earlier []told
	// Leftovers that it told and withdrew before it had told all.
	gone map[source.Key]struct{}
}

// Routes with marks up to `mark` were told when their session had been lost for so long.
type told struct {
	mark    uint32
	lostFor time.Duration
}

// The most of them that a session keeps; beyond, the oldest ones are younger than they are.
const maxEarlier = 1024

func (s *session) begin(now time.Time) {
	if s.routes == 0 {
		s.lostFor, s.earlier = 0, nil
	} else if !s.lost.IsZero() {
		s.earlier = append(s.earlier, told{s.mark, s.lostFor})
		if len(s.earlier) > maxEarlier {
			s.earlier = slices.Delete(s.earlier, 0, 1)
		}
		s.lostFor += now.Sub(s.lost)
	}
	s.mark++
	s.fresh = 0
	s.begun, s.held = true, false
	s.lost, s.stale = time.Time{}, false
}

// expired says below which mark routes have been lost for too long. They are asked for once.
func (s *session) expired(now time.Time, limit time.Duration) (below uint32) {
	lostFor := s.lostFor
	if !s.lost.IsZero() {
		lostFor += now.Sub(s.lost)
		if now.Sub(s.lost) >= limit {
			return s.mark + 1
		}
	}
	for len(s.earlier) > 0 && lostFor-s.earlier[0].lostFor >= limit {
		below, s.earlier = s.earlier[0].mark+1, s.earlier[1:]
	}
	return below
}

// What a source says of a prefix.
type claim struct {
	set     pathSet // zero: that there is a route, but not yet what it says
	session *session
	mark    uint32
}

type entry struct {
	claims []claim // one a source, the best first
	sent   uint32  // the id that the server has once it has all batches; 0: no route
	// The server had the route before all sources have told all: it may be of one that
	// is yet to tell it. Not any more once a session withdrew it that has told all, or that
	// was lost for too long: the answer is known to be false then.
	leftover bool
}

// Most prefixes have one claim: it lies beside the entry, and is no more to collect.
func newEntry() *entry {
	e := &struct {
		entry
		first [1]claim
	}{}
	e.claims = e.first[:0]
	return &e.entry
}

// The set that the server should have; the zero set if no claim has one.
func (e *entry) best() pathSet {
	for i := range e.claims {
		if e.claims[i].set != (pathSet{}) {
			return e.claims[i].set
		}
	}
	return pathSet{}
}

// New returns a table that is not connected.
func New(options Options) *Table {
	if options.Now == nil {
		options.Now = time.Now
	}
	t := &Table{options: options, wake: make(chan struct{}, 1),
		entries: map[source.Key]*entry{}, dirty: map[source.Key]int64{}, ids: ids{first: options.FirstID, now: options.Now}}
	t.ids.reset()
	for _, o := range options.Sources {
		t.sources = append(t.sources, &feeder{SourceOptions: o, sessions: map[string]*session{}})
	}
	byDistance := slices.Clone(t.sources)
	slices.SortStableFunc(byDistance, func(a, b *feeder) int { return cmp.Compare(a.Distance, b.Distance) })
	for rank, f := range byDistance {
		f.rank = rank
	}
	return t
}

// Wake has an element after something changed.
func (t *Table) Wake() <-chan struct{} { return t.wake }

// Calls change with the lock held, but for turns of others in a sweep, and wakes the writer.
func (t *Table) locked(change func()) {
	t.mu.Lock()
	change()
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Notes that the best route of a prefix may have changed. A withdrawal waits for an
// announcement, unless it is decided: nothing of the prefix is on the way.
func (t *Table) touch(k source.Key, e *entry, decided bool) {
	if len(e.claims) == 0 && e.sent == 0 {
		delete(t.entries, k)
		delete(t.dirty, k)
		return
	}
	if !t.connected {
		return
	}
	switch {
	case e.best() != pathSet{}:
		if _, is := t.dirty[k]; !is {
			t.dirty[k] = t.options.Now().UnixNano()
		}
	case len(e.claims) > 0, e.leftover && !t.settled:
		delete(t.dirty, k) // whatever the server has stays: sources are yet to tell
	default:
		t.dirty[k] = t.options.Now().UnixNano()
		if decided {
			t.dirty[k] -= int64(t.options.WithdrawDelay)
		}
	}
}

// Sets what a session says of a prefix. The zero set is no other one than the source
// has, if it has one.
func (t *Table) set(s *session, k source.Key, set pathSet) {
	e := t.entries[k]
	if e == nil {
		e = newEntry()
		t.entries[k] = e
	}
	at, found := slices.BinarySearchFunc(e.claims, s.source.rank,
		func(c claim, rank int) int { return cmp.Compare(c.session.source.rank, rank) })
	s.routes++
	s.fresh++
	unclaimed, before := len(e.claims) == 0, e.best()
	if !found {
		e.claims = slices.Insert(e.claims, at, claim{})
	} else {
		e.claims[at].release()
		if set == (pathSet{}) {
			set = e.claims[at].set
		}
	}
	e.claims[at] = claim{set, s, s.mark}
	if unclaimed || e.best() != before {
		t.touch(k, e, false)
	}
}

func (c *claim) release() {
	c.session.routes--
	if c.mark == c.session.mark {
		c.session.fresh--
	}
}

func (t *Table) remove(k source.Key, e *entry, at int, decided bool) {
	before := e.best()
	e.claims[at].release()
	e.claims = slices.Delete(e.claims, at, at+1)
	if len(e.claims) == 0 || e.best() != before {
		t.touch(k, e, decided)
	}
}

// A sweep looks at so many prefixes before it lets others have the lock.
const sweepSlice = 4096

// Removes the routes of a session with marks below one: that of the session are those that
// were not repeated. The lock is not held all the time: what is told meanwhile counts.
func (t *Table) sweep(s *session, below uint32) int {
	count, seen := 0, 0
	if s.routes == 0 || below == 0 || below <= s.mark && s.routes == s.fresh {
		return 0
	}
	for k, e := range t.entries {
		if seen++; seen%sweepSlice == 0 {
			t.mu.Unlock()
			t.mu.Lock()
			if e = t.entries[k]; e == nil {
				continue
			}
		}
		at := slices.IndexFunc(e.claims, func(c claim) bool { return c.session == s })
		if at >= 0 && e.claims[at].mark < below {
			e.leftover = false
			t.remove(k, e, at, true)
			count++
		}
	}
	return count
}

func (t *Table) waits(count, all int) bool {
	return t.options.SweepShare > 0 && count >= sweepFree && float64(count) > t.options.SweepShare*float64(all)
}

// Sweep withdraws what waits for it.
func (t *Table) Sweep() {
	t.locked(func() {
		count := 0
		for _, f := range t.sources {
			for _, s := range f.sessions {
				if s.held {
					s.held = false
					swept := t.sweep(s, s.mark)
					f.stats.Swept += uint64(swept)
					count += swept
				}
			}
		}
		t.options.Log.Warn("swept by hand", "routes", count, "unclaimed", t.unclaimed)
		if t.unclaimed > 0 {
			t.swept = true
			t.settle(t.options.Now())
		}
	})
}

// Finds out whether every source has told all, or will not.
func (t *Table) settle(now time.Time) {
	if !t.listed {
		return
	}
	told, settled := true, true
	for _, f := range t.sources {
		if len(f.sessions) == 0 {
			told = false
			settled = settled && now.Sub(f.started) >= f.StaleTime
		}
		for _, s := range f.sessions {
			told = told && s.told
			settled = settled && (s.told || s.stale)
		}
	}
	t.allTold = t.allTold || told
	// What the server has is known only while it is connected.
	if t.settled || !settled || !t.connected {
		return
	}
	count := 0
	for _, e := range t.entries {
		if len(e.claims) > 0 {
			e.leftover = false // its source told it, and may withdraw it while others wait
		} else if e.leftover {
			count++
		}
	}
	if t.waits(count, len(t.entries)) && !t.swept {
		if t.unclaimed == 0 {
			t.options.Log.Error("too many routes would be withdrawn that no source claimed: they wait for a sweep by hand",
				"routes", count, "of", len(t.entries))
		}
		t.unclaimed = count
		return
	}
	t.settled, t.unclaimed = true, 0
	for k, e := range t.entries {
		if e.leftover {
			e.leftover = false
			t.touch(k, e, true)
		}
	}
	t.options.Log.Info("all sources have told all, or are stale", "told_all", told,
		"routes", len(t.entries), "withdrawn", count)
}

// Telling says that a session tells all its routes now.
func (t *Table) Telling() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.sources {
		for _, s := range f.sessions {
			if s.begun {
				return true
			}
		}
	}
	return false
}

// Tick removes what is stale for too long; call it every second or so.
func (t *Table) Tick() {
	t.locked(func() {
		now := t.options.Now()
		for _, f := range t.sources {
			for name, s := range f.sessions {
				below := s.expired(now, f.StaleTime)
				if below > s.mark {
					s.stale = true
					if !s.expected {
						delete(f.sessions, name) // before the sweep, as Forget does
					}
				}
				count := t.sweep(s, below)
				f.stats.Expired += uint64(count)
				if count > 0 {
					t.options.Log.Warn("routes of a session that was lost were withdrawn", "source", f.Name,
						"session", name, "routes", count, "stale_time", f.StaleTime.String())
				}
			}
		}
		t.settle(now)
	})
}

// Disconnect forgets what the server has. Call it before a list.
func (t *Table) Disconnect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connected = false
	clear(t.dirty)
	t.ids.reset()
	for k, e := range t.entries {
		e.sent, e.leftover = 0, false
		t.touch(k, e, true)
	}
}

// ListNextHops takes objects and groups that the server has, all before the routes.
func (t *Table) ListNextHops(objects []*planbv1.NextHop, groups []*planbv1.NextHopGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ids.list(objects, groups)
}

// ListRoutes takes routes that the server has.
func (t *Table) ListRoutes(routes []*planbv1.Route) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, route := range routes {
		address, _ := netip.AddrFromSlice(route.GetPrefix().GetAddress())
		k, err := keyOf(netip.PrefixFrom(address, int(route.GetPrefix().GetLength())))
		if err != nil {
			return err
		}
		e := t.entries[k]
		if e == nil {
			e = newEntry()
			t.entries[k] = e
		}
		e.sent, e.leftover = route.NextHopId, !t.settled
		t.ids.use(route.NextHopId)
		t.ids.count(route.NextHopId, 1)
	}
	return nil
}

// EndList says that the server has what was listed, and that batches can be taken.
func (t *Table) EndList() {
	t.locked(func() {
		t.connected = true
		if !t.listed {
			t.listed = true
			for _, f := range t.sources {
				f.started = t.options.Now()
			}
		}
		for k, e := range t.entries {
			t.touch(k, e, true)
		}
		t.settle(t.options.Now())
	})
}

// Batch is what the server lacks.
type Batch struct {
	NextHops  []*planbv1.NextHop
	Groups    []*planbv1.NextHopGroup
	ChangesV6 []byte // packed
	ChangesV4 []byte
	Announced int
	Withdrawn int
	GivenIDs  bool // a route is to an id that something else describes, or nothing

	Since   time.Time // the oldest of the changes
	Drained bool      // nothing was left but withdrawals that wait
	AllTold bool      // and this is all that sources told when they had told all
	// When a withdrawal that waits is due; zero if none waits.
	Next time.Time

	objectBytes int // of next hops and groups, about
}

func (b *Batch) bytes() int { return b.objectBytes + len(b.ChangesV6) + len(b.ChangesV4) }

// Changes counts what the server counts.
func (b *Batch) Changes() int {
	return b.Announced + b.Withdrawn + len(b.NextHops) + len(b.Groups)
}

// The most changes that one route makes: a group with its members.
const routeCost = maxMembers + 2

// A batch gets no more routes from so many bytes on: a group of many members has three
// thousand, and a server takes 16 MiB in one message.
const maxBytes = 4 << 20

// Take returns at most `budget` changes, or one route with its group if that has more,
// in no order: for each prefix what it is now, whatever it was between. The server has
// them, says the table from then on, until it is disconnected.
func (t *Table) Take(budget int) *Batch { return t.take(budget, false) }

// TakeKnown is Take for prefixes that the server has a route of: withdrawals, and
// changes that need no more room for routes.
func (t *Table) TakeKnown(budget int) *Batch { return t.take(budget, true) }

func (t *Table) take(budget int, known bool) *Batch {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &Batch{Drained: true, AllTold: t.allTold}
	now := t.options.Now().UnixNano()
	oldest, next := now, int64(0)
	for k, since := range t.dirty {
		e := t.entries[k]
		if due := since + int64(t.options.WithdrawDelay); len(e.claims) == 0 && due > now {
			if next == 0 || due < next {
				next = due
			}
			continue
		}
		if known && e.sent == 0 {
			b.Drained = false
			continue
		}
		if b.Changes() > 0 && (b.Changes()+routeCost > budget || b.bytes() >= maxBytes) {
			b.Drained = false
			break
		}
		id, op, best := uint32(0), planbv1.RouteUpdate_OP_DELETE, e.best()
		if best != (pathSet{}) {
			id, op = t.ids.resolve(best, b), planbv1.RouteUpdate_OP_UPSERT
		}
		delete(t.dirty, k)
		if id == e.sent {
			continue
		}
		b.ChangesV6, b.ChangesV4 = appendChange(k, b.ChangesV6, b.ChangesV4, byte(op), id)
		oldest = min(oldest, since)
		t.ids.count(id, 1)
		t.ids.count(e.sent, -1)
		e.sent = id
		if id == 0 {
			b.Withdrawn++
			delete(t.entries, k)
		} else {
			b.Announced++
			b.GivenIDs = b.GivenIDs || strings.HasPrefix(best.Value(), givenID)
		}
	}
	b.Since = time.Unix(0, oldest)
	if next != 0 {
		b.Next = time.Unix(0, next)
	}
	return b
}

// SourceStats is the state of a source.
type SourceStats struct {
	Name      string
	Routes    int
	Stale     int    // of lost sessions, or not repeated since Begin
	Refused   uint64 // routes that are none
	Swept     uint64 // routes that a session did not repeat
	Expired   uint64 // routes whose session was lost for too long
	Following int    // sessions that have told all
	Telling   int
	Lost      int
}

// Stats is the state of a table.
type Stats struct {
	Sources  []SourceStats
	Prefixes int
	Pending  int // prefixes that may differ from what the server has
	Held     int // routes that wait for Sweep
	AllTold  bool
	Settled  bool
}

// Stats returns the state now.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := Stats{Prefixes: len(t.entries), Pending: len(t.dirty), Held: t.unclaimed, AllTold: t.allTold, Settled: t.settled}
	for _, f := range t.sources {
		s := f.stats
		s.Name = f.Name
		for _, session := range f.sessions {
			s.Routes += session.routes
			if session.held {
				all.Held += session.routes - session.fresh
			}
			switch {
			case !session.lost.IsZero():
				s.Lost++
				s.Stale += session.routes
			case session.told:
				s.Following++
				s.Stale += session.routes - session.fresh
			default:
				s.Telling++
				s.Stale += session.routes - session.fresh
			}
		}
		all.Sources = append(all.Sources, s)
	}
	return all
}

var _ source.Sink = (*Sink)(nil)
