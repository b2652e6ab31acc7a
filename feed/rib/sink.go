// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"fmt"
	"sync"

	"planb.dev/lookup/feed/source"
)

// Sink is what one source of a table calls.
type Sink struct {
	table *Table
	from  *feeder
}

// Sink returns what source `index` of the options calls.
func (t *Table) Sink(index int) *Sink { return &Sink{t, t.sources[index]} }

// REQUIRES: the lock is held.
func (s *Sink) session(name string) *session {
	found := s.from.sessions[name]
	if found == nil {
		found = &session{source: s.from, expected: name == ""}
		s.from.sessions[name] = found
	}
	return found
}

// Begin is source.Sink's.
func (s *Sink) Begin(name string) {
	s.table.locked(func() { s.session(name).begin(s.table.options.Now()) })
}

type change struct {
	key  source.Key
	set  pathSet
	keep bool
}

// A table that is told makes as many of them as routes, for a moment each.
var changesRoom = sync.Pool{New: func() any { return new([]change) }}

// Apply is source.Sink's.
func (s *Sink) Apply(name string, routes []source.Route) {
	room := changesRoom.Get().(*[]change)
	changes := (*room)[:0]
	defer func() {
		clear(changes) // what it names may go
		*room = changes
		changesRoom.Put(room)
	}()
	refused, why := 0, error(nil)
	sets := map[source.NextHop]pathSet{} // of one path: many routes have the same
	for _, route := range routes {
		k, err := keyOf(route.Prefix)
		if err != nil {
			refused, why = refused+1, err
			continue
		}
		if route.Keep {
			changes = append(changes, change{key: k, keep: true})
			continue
		}
		set, known := pathSet{}, false
		if len(route.Paths) == 1 {
			set, known = sets[route.Paths[0]]
		}
		if !known {
			set, err = canonical(route.Paths, s.table.options.FirstID)
			if err != nil { // a withdrawal: what the route was before is no longer true
				refused, why = refused+1, fmt.Errorf("%s: %w", route.Prefix, err)
			} else if len(route.Paths) == 1 {
				sets[route.Paths[0]] = set
			}
		}
		changes = append(changes, change{key: k, set: set})
	}
	if refused > 0 {
		s.table.options.Log.Warn("routes were refused", "source", s.from.Name, "session", name,
			"routes", refused, "last", why)
	}
	s.table.locked(func() {
		s.from.stats.Refused += uint64(refused)
		session := s.from.sessions[name]
		for _, c := range changes {
			announces := c.keep || c.set != (pathSet{})
			if session == nil {
				if !announces {
					continue
				}
				session = s.session(name)
				if !session.expected { // it was forgotten, and has not begun since
					session.lost = s.table.options.Now()
				}
			}
			if announces {
				s.table.set(session, c.key, c.set)
				continue
			}
			e := s.table.entries[c.key]
			if e == nil || !session.lost.IsZero() {
				continue
			}
			for at, claim := range e.claims {
				if claim.session == session {
					session.withdraws(c.key, e)
					s.table.remove(c.key, e, at, false)
					break
				}
			}
		}
	})
}

// withdraws notes that it withdraws a route, which a leftover outlives until the session has
// told all.
func (s *session) withdraws(k source.Key, e *entry) {
	switch {
	case s.told:
		e.leftover = false
	case e.leftover && s.gone == nil:
		s.gone = map[source.Key]struct{}{k: {}}
	case e.leftover:
		s.gone[k] = struct{}{}
	}
}

// Complete is source.Sink's.
func (s *Sink) Complete(name string) {
	s.table.locked(func() {
		session := s.session(name)
		session.told, session.begun = true, false
		session.lostFor, session.earlier = 0, nil
		for k := range session.gone {
			if e := s.table.entries[k]; e != nil && e.leftover {
				e.leftover = false
				s.table.touch(k, e, true)
			}
		}
		session.gone = nil
		count := 0
		if stale := session.routes - session.fresh; s.table.waits(stale, session.routes) {
			session.held = true
			s.table.options.Log.Error("a session did not repeat too many routes: they wait for a sweep by hand",
				"source", s.from.Name, "session", name, "routes", stale, "of", session.routes)
		} else {
			count = s.table.sweep(session, session.mark)
		}
		s.from.stats.Swept += uint64(count)
		s.table.options.Log.Info("a session has told all", "source", s.from.Name, "session", name,
			"routes", session.routes, "swept", count)
		s.table.settle(s.table.options.Now())
	})
}

// Lost is source.Sink's.
func (s *Sink) Lost(name string) {
	s.table.locked(func() { s.lose(name) })
}

func (s *Sink) lose(name string) {
	isNew := s.from.sessions[name] == nil
	if session := s.session(name); session.lost.IsZero() {
		session.lost, session.begun, session.held = s.table.options.Now(), false, false
		session.expected = session.expected || isNew
		s.table.options.Log.Warn("a session is lost", "source", s.from.Name, "session", name,
			"routes", session.routes, "stale_time", s.from.StaleTime.String())
	}
}

// LostAll says that all sessions of the source ended.
func (s *Sink) LostAll() {
	s.table.locked(func() {
		for name := range s.from.sessions {
			s.lose(name)
		}
	})
}

// Forget is source.Sink's.
func (s *Sink) Forget(name string) {
	s.table.locked(func() {
		if session := s.from.sessions[name]; session != nil {
			delete(s.from.sessions, name) // first: what is told meanwhile is of another one
			s.table.sweep(session, session.mark+1)
			s.table.settle(s.table.options.Now())
		}
	})
}

// Progress is source.Sink's.
func (s *Sink) Progress(name string) (told, unrepeated int) {
	t := s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if session := s.from.sessions[name]; session != nil {
		told, unrepeated = session.fresh, session.routes-session.fresh
	}
	if t.settled || t.listed && t.options.Now().Sub(s.from.started) >= s.from.StaleTime {
		return told, unrepeated
	}
	claimed, leftovers := 0, 0
	for _, e := range t.entries {
		if len(e.claims) > 0 {
			claimed++
		} else if e.leftover {
			leftovers++
		}
	}
	if told > 0 {
		leftovers = (leftovers*told + claimed - 1) / claimed
	}
	return told, unrepeated + leftovers
}
