// SPDX-License-Identifier: Apache-2.0

// Package bmp is the source that routers tell what they know by the BGP Monitoring
// Protocol: a station (RFC 7854) that they connect to, which takes their Loc-RIB (RFC
// 9069), or what named peers told them.
package bmp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"
	"github.com/prometheus/client_golang/prometheus"

	"planb.dev/lookup/feed/bgproute"
	"planb.dev/lookup/feed/source"
)

// Which of a router's tables counts.
const (
	locRIB     = "loc-rib"
	prePolicy  = "pre-policy"
	postPolicy = "post-policy"
)

// config is the source's section of the configuration.
type config struct {
	// Where routers connect to.
	Listen string `yaml:"listen"`
	// The addresses of the routers. Of a prefix that several have the first counts.
	Routers []netip.Addr `yaml:"routers"`
	RIB     string       `yaml:"rib"`
	// For pre-policy and post-policy, the peers whose routes count. Of a prefix that
	// several have the first counts.
	Peers []netip.Addr `yaml:"peers"`
	// The route distinguisher of a VRF.
	Distinguisher string `yaml:"distinguisher"`
	// The Loc-RIB has several paths of a prefix. Without it the last one that was told
	// counts, which it is with routers that number the paths of a table of best ones.
	Multipath bool `yaml:"multipath"`
	// As of a BGP peer without End-of-RIB.
	Quiet time.Duration `yaml:"quiet"`
	Share float64       `yaml:"share"`

	bgproute.Attributes `yaml:",inline"`
}

type station struct {
	config
	source.Options
	distinguisher uint64

	messages, malformed, ignored, refused, nowhere, withdrawn, doubted, crowded prometheus.Counter
	connected, up                                                               prometheus.Gauge
}

// New makes the source.
func New(options source.Options) (source.Source, error) {
	s := &station{Options: options, config: config{
		Listen: "127.0.0.1:11019", RIB: locRIB, Quiet: 10 * time.Second, Share: 0.9}}
	if err := options.Decode(&s.config); err != nil {
		return nil, err
	}
	if _, err := net.ResolveTCPAddr("tcp", s.Listen); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := (source.Quiet{After: s.Quiet, Share: s.Share}).Check(); err != nil {
		return nil, err
	}
	if len(s.Routers) == 0 {
		return nil, errors.New("routers names no address: none could connect")
	}
	for i, router := range s.Routers {
		s.Routers[i] = router.Unmap()
	}
	// BMP names peers without a zone.
	for i, peer := range s.Peers {
		s.Peers[i] = peer.Unmap().WithZone("")
	}
	switch s.RIB {
	case locRIB:
		if len(s.Peers) > 0 {
			return nil, errors.New("peers is for rib: pre-policy or post-policy")
		}
	case prePolicy, postPolicy:
		if len(s.Peers) == 0 {
			return nil, fmt.Errorf("rib: %s needs peers, in the order in which they count", s.RIB)
		}
	default:
		return nil, fmt.Errorf("rib: %q is not loc-rib, pre-policy or post-policy", s.RIB)
	}
	if s.Distinguisher != "" {
		rd, err := bgp.ParseRouteDistinguisher(s.Distinguisher)
		if err != nil {
			return nil, fmt.Errorf("distinguisher: %w", err)
		}
		bytes, err := rd.Serialize()
		if err != nil || len(bytes) != 8 {
			return nil, fmt.Errorf("distinguisher: %q is none", s.Distinguisher)
		}
		s.distinguisher = binary.BigEndian.Uint64(bytes)
	}
	if err := s.Attributes.Start("bmp", options); err != nil {
		return nil, err
	}
	s.messages = options.Counter("bmp_messages_total", "Messages that routers sent.")
	s.malformed = options.Counter("bmp_malformed_total", "Messages that could not be read.")
	s.withdrawn = options.Counter("bmp_treated_as_withdrawn_total", "Routes that were withdrawn because what was announced of them could not be read.")
	s.doubted = options.Counter("bmp_doubted_peers_total", "Times that the routes of a peer became stale because a message of it could not be read.")
	s.ignored = options.Counter("bmp_ignored_total", "Messages of tables, peers and VRFs that do not count.")
	s.refused = options.Counter("bmp_sweeps_refused_total", "Times that a peer had told all or was quiet, with too few routes told again.")
	s.nowhere = options.Counter("bmp_paths_refused_total", "Paths of peers that name no next hop.")
	s.crowded = options.Counter("bmp_crowded_paths_total", bgproute.CrowdedHelp)
	s.connected = options.Gauge("bmp_connected", "Routers that are connected.")
	s.up = options.Gauge("bmp_peers", "Tables that are told: Loc-RIBs, or peers of routers.")
	return s, nil
}

// session is the name of what a message is about, and its place among those that count;
// false if it does not count.
func (s *station) session(router netip.Addr, header *bmp.BMPPeerHeader) (name string, rank int, counts bool) {
	rank = slices.Index(s.Routers, router)
	if header.PeerDistinguisher != s.distinguisher {
		return "", 0, false
	}
	if s.RIB == locRIB {
		return router.String(), rank, header.PeerType == bmp.BMP_PEER_TYPE_LOCAL_RIB
	}
	address := header.PeerAddress.Unmap() // some tell IPv4 with 16 bytes
	peer := slices.Index(s.Peers, address)
	if header.PeerType == bmp.BMP_PEER_TYPE_LOCAL_RIB || peer < 0 {
		return "", 0, false
	}
	return peerSession(router, address), rank*len(s.Peers) + peer, true
}

func peerSession(router, peer netip.Addr) string { return router.String() + " " + peer.String() }

// isOfRIB says that routes are of the table that counts. A peer goes up and down for all.
func (s *station) isOfRIB(header *bmp.BMPPeerHeader) bool {
	return s.RIB == locRIB || !header.IsAdjRIBOut() && header.IsPostPolicy() == (s.RIB == postPolicy)
}

// router is the address by which a router is named: with its zone, or without for all.
func (s *station) router(address netip.Addr) (netip.Addr, bool) {
	for _, router := range []netip.Addr{address, address.WithZone("")} {
		if slices.Contains(s.Routers, router) {
			return router, true
		}
	}
	return netip.Addr{}, false
}

// Run takes one connection of each router: a new one that says hello ends the one before
// it, which the router left half open.
func (s *station) Run(ctx context.Context, sink source.Sink) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	context.AfterFunc(ctx, func() { listener.Close() })
	t := newTable(s, sink)
	defer func() {
		cancel()
		running.Wait()
		t.quiet.Wait()
	}()
	connections := &connections{current: map[netip.Addr]*current{}}
	for {
		connection, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		address := connection.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		router, ok := s.router(address)
		if !ok || !connections.enter(router) {
			s.Log.Warn("a connection is refused: not of a router that is named, or one too many", "address", address.String())
			connection.Close()
			continue
		}
		running.Go(func() {
			defer connections.leave(router)
			stop := context.AfterFunc(ctx, func() { connection.Close() })
			defer stop()
			defer connection.Close()
			s.follow(t, connections, router, connection)
		})
	}
}

// connections are those of routers.
type connections struct {
	mu      sync.Mutex
	current map[netip.Addr]*current
}

type current struct {
	open       int
	connection net.Conn // that said hello last; nil if it ended
	ended      chan struct{}
}

const (
	// Of one router: one that is followed, and some that have not said hello.
	maxConnections = 4
	greetingTime   = time.Minute
	// A message is an update of at most 64 KiB, or two OPENs with some text.
	maxMessage = 1 << 20
)

func (c *connections) enter(router netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current[router] == nil {
		c.current[router] = &current{}
	}
	if c.current[router].open == maxConnections {
		return false
	}
	c.current[router].open++
	return true
}

func (c *connections) leave(router netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current[router].open--
}

// take makes a connection the router's, once the one before it has ended.
func (c *connections) take(router netip.Addr, connection net.Conn) (end func()) {
	for {
		c.mu.Lock()
		r := c.current[router]
		if r.connection == nil {
			r.connection, r.ended = connection, make(chan struct{})
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				r.connection = nil
				close(r.ended)
			}
		}
		last, ended := r.connection, r.ended
		c.mu.Unlock()
		last.Close()
		<-ended
	}
}

func (s *station) follow(t *table, connections *connections, router netip.Addr, connection net.Conn) {
	log := s.Log.With("router", router.String())
	reader := bufio.NewReaderSize(connection, 1<<16)
	connection.SetReadDeadline(time.Now().Add(greetingTime))
	head, err := reader.Peek(bmp.BMP_HEADER_SIZE)
	if err == nil {
		_, err = messageLength(head)
	}
	if err == nil && head[5] != bmp.BMP_MSG_INITIATION {
		err = fmt.Errorf("the first message is of type %d, not an initiation", head[5])
	}
	if err != nil {
		log.Warn("a connection speaks no BMP", "error", err)
		return
	}
	connection.SetReadDeadline(time.Time{})
	defer connections.take(router, connection)()
	log.Info("a router is connected")
	s.connected.Inc()
	defer s.connected.Dec()
	r := &follower{s: s, t: t, router: router, peers: map[peerKey]*peer{}, close: func() { connection.Close() }}
	log.Warn("a router's connection ended", "error", r.read(reader))
	r.lose()
}

// read takes messages until the connection ends.
func (f *follower) read(reader *bufio.Reader) error {
	buffer := make([]byte, 0, 1<<13)
	for {
		if !hasMessage(reader) {
			f.t.tell()
		}
		var err error
		if buffer, err = readMessage(reader, buffer); err == nil {
			err = f.take(buffer)
		}
		if err != nil {
			return err
		}
	}
}

// messageLength is what the head of a message says.
func messageLength(head []byte) (int, error) {
	length := binary.BigEndian.Uint32(head[1:])
	if head[0] != bmp.BMP_VERSION || length < bmp.BMP_HEADER_SIZE || length > maxMessage {
		return 0, fmt.Errorf("a message that starts with % x: not version 3 with at most %d bytes", head, maxMessage)
	}
	return int(length), nil
}

// hasMessage says that a message can be read without waiting for the router.
func hasMessage(reader *bufio.Reader) bool {
	if reader.Buffered() < bmp.BMP_HEADER_SIZE {
		return false
	}
	head, _ := reader.Peek(bmp.BMP_HEADER_SIZE)
	length, err := messageLength(head)
	return err == nil && reader.Buffered() >= length
}

// readMessage reads into the buffer, or into a larger one once the length is known to be
// that of a message.
func readMessage(reader *bufio.Reader, buffer []byte) ([]byte, error) {
	head, err := reader.Peek(bmp.BMP_HEADER_SIZE)
	if err != nil {
		return nil, err
	}
	length, err := messageLength(head)
	if err != nil {
		return nil, err
	}
	buffer = slices.Grow(buffer[:0], length)[:length]
	_, err = io.ReadFull(reader, buffer)
	return buffer, err
}
