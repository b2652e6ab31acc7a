// SPDX-License-Identifier: Apache-2.0

// Package fpm is the source that FRR's zebra connects to (zebra -M dplane_fpm_nl):
// netlink messages in frames, of the routes that zebra chose.
package fpm

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	nl "github.com/mdlayher/netlink"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/netlink"
	"planb.dev/lookup/feed/source"
)

// config is the source's section of the configuration.
type config struct {
	// Where zebra connects to.
	Listen string `yaml:"listen"`
	// The routing table; that of a VRF has a number of its own. Default: main.
	Table uint32 `yaml:"table"`
	// The protocols whose routes count. Default: all but kernel, which connected
	// routes are of, too, and redirect.
	Protocols []string `yaml:"protocols"`
	// The network namespace that zebra is in: where interfaces have their names.
	Namespace string `yaml:"namespace"`
	// zebra does not say when it told all. It did when no routes were added for
	// Quiet, and Share of what was there before was told again, and MinRoutes.
	Quiet     time.Duration `yaml:"quiet"`
	Share     float64       `yaml:"share"`
	MinRoutes int           `yaml:"min_routes"`
	// After this the connection is closed, so that zebra tells all again: what it
	// did not tell the end of goes then. 0: never.
	Audit time.Duration `yaml:"audit"`
}

type fpm struct {
	config
	source.Options
	rules netlink.Rules

	frames, malformed, refused prometheus.Counter
	connected, waiting, other  prometheus.Gauge
	oversized                  *netlink.Oversized
}

// New makes the source.
func New(options source.Options) (source.Source, error) {
	f := &fpm{Options: options, config: config{
		Listen: "127.0.0.1:2620", Table: unix.RT_TABLE_MAIN,
		Quiet: 10 * time.Second, Share: 0.9, MinRoutes: 1,
	}}
	if err := options.Decode(&f.config); err != nil {
		return nil, err
	}
	if _, err := net.ResolveTCPAddr("tcp", f.Listen); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := f.quiet().Check(); err != nil {
		return nil, err
	}
	if f.Audit != 0 && f.Audit < 3*f.Quiet {
		return nil, fmt.Errorf("audit is at least three times quiet, %v: no session would tell all before", 3*f.Quiet)
	}
	if f.Table == 0 {
		return nil, errors.New("table is not 0, which is no table")
	}
	protocols, err := netlink.ParseProtocols(f.Protocols)
	if err != nil {
		return nil, err
	}
	f.rules = netlink.Rules{Table: f.Table, Protocols: protocols, OnePerPrefix: true}
	f.frames = options.Counter("fpm_frames_total", "Frames that zebra sent.")
	f.malformed = options.Counter("fpm_malformed_total", "Messages that could not be read and were passed over.")
	f.refused = options.Counter("fpm_sweeps_refused_total", "Times that it was quiet before enough routes were told again.")
	f.connected = options.Gauge("fpm_connected", "1 while zebra is connected.")
	f.waiting = options.Gauge("fpm_waiting_routes", "Routes that name a next hop that is not known.")
	f.other = options.Gauge("fpm_unassigned_routes", "Messages of routes that named no table and were passed over.")
	f.oversized = netlink.NewOversized("fpm", options)
	return f, nil
}

func (f *fpm) quiet() source.Quiet {
	return source.Quiet{After: f.Quiet, Share: f.Share, MinRoutes: f.MinRoutes}
}

// Run takes one connection at a time: a new one with a frame ends the one before it, which
// zebra left half open.
func (f *fpm) Run(ctx context.Context, sink source.Sink) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return err
	}
	return f.serve(ctx, sink, listener)
}

func (f *fpm) serve(ctx context.Context, sink source.Sink, listener net.Listener) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { listener.Close() })
	sink.Lost("")
	greeted := make(chan greeting)
	failed := make(chan error, 1)
	running.Add(1)
	go func() {
		defer running.Done()
		failed <- f.accept(ctx, listener, greeted)
	}()
	endLast := func() {}
	defer func() { endLast() }()
	for {
		select {
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case g := <-greeted:
			endLast()
			done := make(chan struct{})
			go func() {
				defer close(done)
				f.follow(ctx, sink, g)
			}()
			endLast = func() {
				g.connection.Close()
				<-done
			}
		}
	}
}

// greeting is a connection whose first frame has begun.
type greeting struct {
	connection net.Conn
	reader     *bufio.Reader
}

const (
	// Anything may connect. zebra tells its routes at once.
	greetingTime = time.Minute
	maxGreetings = 16
)

// accept passes on the connections that greet, until the listener ends.
func (f *fpm) accept(ctx context.Context, listener net.Listener, greeted chan<- greeting) error {
	var running sync.WaitGroup
	defer running.Wait()
	room := make(chan struct{}, maxGreetings)
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		select {
		case room <- struct{}{}:
		default:
			connection.Close()
			continue
		}
		running.Add(1)
		go func() {
			defer running.Done()
			defer func() { <-room }()
			stop := context.AfterFunc(ctx, func() { connection.Close() })
			defer stop()
			connection.SetReadDeadline(time.Now().Add(greetingTime))
			g := greeting{connection, bufio.NewReaderSize(connection, 1<<20)}
			head, err := g.reader.Peek(headLength)
			if err == nil {
				_, err = frameLength(head)
			}
			if err != nil {
				f.Log.Warn("a connection is not zebra's", "address", connection.RemoteAddr().String(), "error", err)
				connection.Close()
				return
			}
			connection.SetReadDeadline(time.Time{})
			select {
			case greeted <- g:
			case <-ctx.Done():
				connection.Close()
			}
		}()
	}
}

// session is one connection.
type session struct {
	f         *fpm
	sink      source.Sink
	mu        sync.Mutex // of what follows
	table     *netlink.Table
	malformed error // the last
}

func (f *fpm) follow(ctx context.Context, sink source.Sink, g greeting) {
	connection := g.connection
	defer connection.Close()
	stop := context.AfterFunc(ctx, func() { connection.Close() })
	defer stop()
	f.Log.Info("zebra is connected", "address", connection.RemoteAddr().String())
	f.connected.Set(1)
	defer f.connected.Set(0)
	links := netlink.NewLinkNames(f.Namespace)
	s := &session{f: f, sink: sink, table: netlink.NewTable(f.rules, links.Name)}
	sink.Begin("")
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		if f.quiet().Await(done, sink, "", f.Log, f.refused.Inc) {
			sink.Complete("")
		}
	}()
	named := make(chan struct{})
	go func() {
		defer close(named)
		s.tellNames(done)
	}()
	if f.Audit > 0 {
		audit := time.AfterFunc(f.Audit, func() { connection.Close() })
		defer audit.Stop()
	}
	err := s.read(g.reader)
	close(done)
	<-finished
	<-named
	sink.Lost("")
	f.Log.Warn("zebra's connection ended", "error", err)
}

const headLength = 4

// frameLength is what the head of a frame says: two bytes of version and kind, and the
// length with the head.
func frameLength(head []byte) (int, error) {
	length := int(binary.BigEndian.Uint16(head[2:]))
	if head[0] != 1 || head[1] != 1 || length < len(head) {
		return 0, fmt.Errorf("a frame that starts with % x: not version 1 with netlink messages", head)
	}
	return length, nil
}

// read takes frames: a head, and netlink messages. A frame is one transaction.
func (s *session) read(reader io.Reader) error {
	var head [headLength]byte
	body := make([]byte, 1<<16)
	for {
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return err
		}
		length, err := frameLength(head[:])
		if err != nil {
			return err
		}
		frame := body[:length-len(head)]
		if _, err := io.ReadFull(reader, frame); err != nil {
			return err
		}
		s.f.frames.Inc()
		s.mu.Lock()
		if err = netlink.Split(frame, s.take); err == nil {
			s.tell()
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// tellNames tells routes anew whose interfaces had no name: FRR may know an interface
// before LinkNames asks again.
func (s *session) tellNames(done <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			s.mu.Lock()
			s.tell()
			s.mu.Unlock()
		}
	}
}

func (s *session) take(m nl.Message) error {
	message, err := netlink.Decode(m)
	if err != nil {
		s.f.malformed.Inc()
		if s.malformed == nil || s.malformed.Error() != err.Error() {
			s.f.Log.Warn("a message of zebra is passed over", "error", err)
		}
		s.malformed = err
	}
	switch message := message.(type) {
	case *netlink.Route:
		s.table.Route(message)
	case *netlink.NextHop:
		s.table.NextHop(message)
	}
	return nil
}

func (s *session) tell() {
	if routes := s.table.Changes(); len(routes) > 0 {
		s.sink.Apply("", routes)
	}
	s.f.oversized.Note(s.table)
	s.f.waiting.Set(float64(s.table.Waiting()))
	s.f.other.Set(float64(s.table.Untaken))
}
