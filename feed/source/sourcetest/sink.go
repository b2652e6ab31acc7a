// SPDX-License-Identifier: Apache-2.0

// Package sourcetest has what the tests of sources share: a sink that keeps what it is
// told in the plainest way, network namespaces and daemons.
package sourcetest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	"planb.dev/lookup/feed/source"
)

// Check ends the test if there is an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Sink has the routes that the core would bring to the server, if its batches were
// empty at once and stale times never ended.
type Sink struct {
	mu               sync.Mutex
	routes           map[netip.Prefix]owned
	sessions         map[string]string // begun, complete, lost
	events           []string
	withdrawn, calls int
}

type owned struct {
	session string
	paths   []source.NextHop
	told    bool
}

// NewSink returns a sink that knows no session.
func NewSink() *Sink {
	return &Sink{routes: map[netip.Prefix]owned{}, sessions: map[string]string{}}
}

func (s *Sink) enter(session, state string) {
	s.sessions[session] = state
	s.events = append(s.events, strings.TrimSpace(state+" "+session))
}

func (s *Sink) Begin(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(session, "begun")
	for prefix, r := range s.routes {
		if r.session == session {
			r.told = false
			s.routes[prefix] = r
		}
	}
}

func (s *Sink) Apply(session string, routes []source.Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for _, r := range routes {
		if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() {
			panic(fmt.Sprintf("a prefix that is not valid: %v", r.Prefix))
		}
		if old, ok := s.routes[r.Prefix]; r.Keep {
			if ok {
				s.routes[r.Prefix] = owned{session, old.paths, true}
			}
		} else if len(r.Paths) > 0 {
			s.routes[r.Prefix] = owned{session, slices.Clone(r.Paths), true}
		} else if old, ok := s.routes[r.Prefix]; ok && old.session == session && s.sessions[session] != "lost" {
			delete(s.routes, r.Prefix)
			s.withdrawn++
		}
	}
}

func (s *Sink) Complete(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(session, "complete")
	maps.DeleteFunc(s.routes, func(_ netip.Prefix, r owned) bool {
		gone := r.session == session && !r.told
		if gone {
			s.withdrawn++
		}
		return gone
	})
}

func (s *Sink) Lost(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(session, "lost")
}

func (s *Sink) Forget(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(session, "forgotten")
	maps.DeleteFunc(s.routes, func(_ netip.Prefix, r owned) bool { return r.session == session })
}

func (s *Sink) Progress(session string) (told, unrepeated int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.routes {
		if r.session == session {
			if r.told {
				told++
			} else {
				unrepeated++
			}
		}
	}
	return told, unrepeated
}

// Len is the number of routes.
func (s *Sink) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.routes)
}

// Calls counts those of Apply.
func (s *Sink) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Withdrawn counts the routes that were there and went.
func (s *Sink) Withdrawn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withdrawn
}

// State is what the session was told last.
func (s *Sink) State(session string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[session]
}

// Events are the states of all sessions in the order in which they came.
func (s *Sink) Events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Paths are those of a prefix.
func (s *Sink) Paths(prefix string) []source.NextHop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes[netip.MustParsePrefix(prefix)].paths
}

// Text says a route as "gateway%interface*weight ..." in order; "" if there is none.
func (s *Sink) Text(prefix string) string {
	var ways []string
	for _, way := range s.Paths(prefix) {
		text := way.Label
		if way.Gateway.IsValid() {
			text += way.Gateway.String()
		}
		if way.Interface != "" {
			text += "%" + way.Interface
		}
		if way.Weight > 1 {
			text += fmt.Sprintf("*%d", way.Weight)
		}
		ways = append(ways, text)
	}
	slices.Sort(ways)
	return strings.Join(ways, " ")
}

// Prefixes are all that have a route.
func (s *Sink) Prefixes() []netip.Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.routes), netip.Prefix.Compare)
}

// Patience is within which what a test waits for comes, also on a machine that does much
// else.
const Patience = time.Minute

// Eventually waits until a condition holds, and ends the test if it does not.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// Options make a source of a section of configuration.
func Options(t testing.TB, section string) source.Options {
	log := io.Discard
	if testing.Verbose() {
		log = t.Output()
	}
	return source.Options{
		Name: "test",
		Decode: func(into any) error {
			if section == "" {
				return nil
			}
			return yaml.UnmarshalWithOptions([]byte(section), into, yaml.Strict())
		},
		Log:     slog.New(slog.NewTextHandler(log, nil)),
		Metrics: prometheus.NewRegistry(),
	}
}

// Run runs a source until the test ends or `stop` is called, which waits for its end.
func Run(t testing.TB, new source.New, section string, sink source.Sink) (stop func()) {
	t.Helper()
	s, err := new(Options(t, section))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, sink) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the source ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
