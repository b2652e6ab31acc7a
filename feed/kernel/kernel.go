// SPDX-License-Identifier: Apache-2.0

// Package kernel is the source of a routing table of Linux: of this host or of a network
// namespace, the main table or that of a VRF.
package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	nl "github.com/mdlayher/netlink"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"planb.dev/lookup/feed/netlink"
	"planb.dev/lookup/feed/source"
)

// config is the source's section of the configuration.
type config struct {
	// The routing table; that of a VRF is the number that its device was made with.
	Table uint32 `yaml:"table"`
	// A name of `ip netns`, or the path of a file. Default: that of this process.
	Namespace string `yaml:"namespace"`
	// The protocols whose routes count. Default: all but kernel and redirect.
	Protocols []string `yaml:"protocols"`
	// The kernel's memory for messages that were not read yet.
	ReceiveBuffer int `yaml:"receive_buffer"`
}

type kernel struct {
	config
	source.Options
	rules netlink.Rules

	dumps     *prometheus.CounterVec
	malformed prometheus.Counter
	oversized *netlink.Oversized
}

// New makes the source.
func New(options source.Options) (source.Source, error) {
	k := &kernel{Options: options, config: config{Table: unix.RT_TABLE_MAIN, ReceiveBuffer: 64 << 20}}
	if err := options.Decode(&k.config); err != nil {
		return nil, err
	}
	protocols, err := netlink.ParseProtocols(k.Protocols)
	if err != nil {
		return nil, err
	}
	if k.Table == 0 || k.ReceiveBuffer < 1<<16 || k.ReceiveBuffer > 1<<30 {
		return nil, errors.New("table is not 0, and receive_buffer is from 64 KiB to 1 GiB")
	}
	k.rules = netlink.Rules{Table: k.Table, Protocols: protocols}
	k.dumps = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "planb_feed_kernel_dumps_total",
		Help: "Times that the table was read whole, by reason."}, []string{"reason"})
	options.Metrics.MustRegister(k.dumps)
	k.malformed = options.Counter("kernel_malformed_total", "Messages that could not be read and were passed over.")
	k.oversized = netlink.NewOversized("kernel", options)
	return k, nil
}

// Why the table is read whole.
const (
	atStart       = "start"
	overrun       = "overrun"       // messages were lost
	interrupted   = "interrupted"   // the table changed under the dump
	silent        = "silent"        // of what changed, the kernel tells not all
	contradiction = "contradiction" // messages were missed
)

// Run dumps the table and follows it, again and again when something was missed.
func (k *kernel) Run(ctx context.Context, sink source.Sink) error {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if k.Namespace != "" {
		known, err := os.Stat(netlink.NamespaceFile(k.Namespace))
		if err != nil {
			return err
		}
		ticker := time.NewTicker(namespaceTime)
		defer ticker.Stop()
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				if now, err := os.Stat(netlink.NamespaceFile(k.Namespace)); err != nil {
					cancel(err)
				} else if !os.SameFile(known, now) {
					cancel(fmt.Errorf("%w: %s", errOtherNamespace, k.Namespace))
				}
			}
		}()
	}
	events, err := netlink.Dial(k.Namespace, false)
	if err != nil {
		return err
	}
	defer events.Close()
	requests, err := netlink.Dial(k.Namespace, true)
	if err != nil {
		return err
	}
	defer requests.Close()
	if err := k.prepare(events); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		events.SetReadDeadline(past)
		requests.SetReadDeadline(past)
	})
	defer stop()
	f := &follower{k: k, sink: sink, events: events, requests: requests, reason: atStart}
	err = f.run(ctx)
	if outer.Err() != nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// The sockets stay in a namespace that was deleted, where nothing changes any more.
const namespaceTime = 2 * time.Second

var errOtherNamespace = errors.New("the namespace is another one now")

// Groups of what changes routes: links, addresses, routes, next hops.
var groups = []uint32{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
	unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NEXTHOP}

func (k *kernel) prepare(events *nl.Conn) error {
	raw, err := events.SyscallConn()
	if err != nil {
		return err
	}
	var forced error
	if err := raw.Control(func(fd uintptr) {
		forced = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, k.ReceiveBuffer)
	}); err != nil {
		return err
	}
	if forced != nil {
		// Without CAP_NET_ADMIN the limit is net.core.rmem_max: overruns cost dumps.
		k.Log.Warn("the receive buffer stays small", "error", forced)
		if err := events.SetReadBuffer(k.ReceiveBuffer); err != nil {
			return err
		}
	}
	if err := k.filter(events); err != nil {
		return err
	}
	for _, group := range groups {
		if err := events.JoinGroup(group); err != nil {
			// Kernels before 5.3 have no next-hop objects.
			if group == unix.RTNLGRP_NEXTHOP {
				continue
			}
			return fmt.Errorf("netlink group %d: %w", group, err)
		}
	}
	return nil
}

// filter lets the kernel drop routes of other tables. A table above 255 is in an
// attribute, and the message says RT_TABLE_COMPAT.
func (k *kernel) filter(events *nl.Conn) error {
	table := k.Table
	if table > 255 {
		table = unix.RT_TABLE_COMPAT
	}
	// Lengths and types are in the order of this machine, and BPF reads those of the
	// network.
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: networkOrder(unix.RTM_NEWROUTE), SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: networkOrder(unix.RTM_DELROUTE), SkipTrue: 2},
		bpf.LoadAbsolute{Off: unix.NLMSG_HDRLEN + 4, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: table, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 20},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	return events.SetBPF(program)
}

// follower is one run.
type follower struct {
	k                *kernel
	sink             source.Sink
	events, requests *nl.Conn
	table            *netlink.Table
	links            map[uint32]*netlink.Link
	missed           bool   // the dump is not whole
	reason           string // why a dump is needed; "" if it is not
	due              time.Time
	notBefore        time.Time // dumps take a small share of the time
}

const (
	// Changes of links come in numbers: one dump for all.
	settle = 100 * time.Millisecond
	// The longest that a message waits for those behind it.
	linger = 5 * time.Millisecond
)

// What comes during a dump is read for so long.
var backlog = time.Second

func (f *follower) run(ctx context.Context) error {
	for ctx.Err() == nil {
		start := time.Now()
		whole, err := f.dump(ctx)
		if err != nil {
			return err
		}
		f.notBefore = time.Now().Add(5 * time.Since(start))
		if !whole {
			f.reason = ""
			f.need(interrupted)
		}
		if err := f.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) need(reason string) {
	if f.reason == "" {
		f.due = time.Now().Add(settle)
		if f.due.Before(f.notBefore) {
			f.due = f.notBefore
		}
	}
	// An overrun says that a dump is not whole, a contradiction in one may say nothing.
	if f.reason == "" || f.reason == contradiction || reason == overrun {
		f.reason = reason
	}
}

// dump reads links, next hops and routes, and then what came meanwhile: whole says that
// what was not read is not there.
func (f *follower) dump(ctx context.Context) (whole bool, err error) {
	f.k.dumps.WithLabelValues(f.reason).Inc()
	f.k.Log.Info("reading the table", "table", f.k.Table, "reason", f.reason)
	f.reason = ""
	f.links = map[uint32]*netlink.Link{}
	f.table = netlink.NewTable(f.k.rules, func(index uint32) string {
		if link := f.links[index]; link != nil {
			return link.Name
		}
		return ""
	})
	f.sink.Begin("")
	f.missed = false
	for _, request := range []struct {
		kind uint16
		data []byte
	}{
		{unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg)},
		{unix.RTM_GETNEXTHOP, make([]byte, unix.SizeofNhmsg)},
		{unix.RTM_GETROUTE, f.routeRequest(unix.AF_INET)},
		{unix.RTM_GETROUTE, f.routeRequest(unix.AF_INET6)},
	} {
		if err := netlink.Dump(f.requests, request.kind, request.data, f.takeDumped); err != nil {
			if request.kind == unix.RTM_GETNEXTHOP && errors.Is(err, unix.EOPNOTSUPP) {
				continue
			}
			// The table of a VRF is not there before its first route.
			if request.kind == unix.RTM_GETROUTE && errors.Is(err, unix.ENOENT) {
				continue
			}
			return false, err
		}
	}
	// What came since the start is told with the dump, which has some of it already:
	// so it may seem to contradict. An overrun is seen when the socket is read.
	drained, err := f.drain(ctx)
	if err != nil {
		return false, err
	}
	f.tell()
	if f.missed || !drained || f.reason == overrun {
		return false, nil
	}
	if f.reason == contradiction && f.table.Doubts == 0 {
		f.reason = ""
	} else if f.table.Doubts > 0 {
		f.need(contradiction)
	}
	f.sink.Complete("")
	return true, nil
}

func (f *follower) routeRequest(family uint8) []byte {
	encoder := nl.NewAttributeEncoder()
	encoder.Uint32(unix.RTA_TABLE, f.k.Table)
	attributes, _ := encoder.Encode() // numbers have no errors
	head := make([]byte, unix.SizeofRtMsg)
	head[0] = family
	return append(head, attributes...)
}

// drain takes the events that are there already: false if there is no end of them.
func (f *follower) drain(ctx context.Context) (bool, error) {
	for end := time.Now().Add(backlog); time.Now().Before(end); {
		err := f.receive(ctx, time.Now().Add(time.Millisecond))
		if ctx.Err() != nil {
			return false, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}

// follow takes events until the table must be read whole again.
func (f *follower) follow(ctx context.Context) error {
	for {
		var until time.Time
		if f.reason != "" {
			if until = f.due; !time.Now().Before(until) {
				return nil
			}
		}
		err := f.receive(ctx, until)
		// Those behind it are the same transaction for all that can be known.
		for end := time.Now().Add(linger); err == nil && time.Now().Before(end); {
			err = f.receive(ctx, time.Now().Add(time.Millisecond))
		}
		f.tell()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// receive takes the messages of one read. An overrun is no error: it needs a dump.
func (f *follower) receive(ctx context.Context, until time.Time) error {
	if err := f.events.SetReadDeadline(until); err != nil {
		return err
	}
	// The end of ctx has set a deadline, maybe before this one.
	if ctx.Err() != nil {
		return os.ErrDeadlineExceeded
	}
	for m, err := range f.events.ReceiveIter() {
		if errors.Is(err, unix.ENOBUFS) {
			f.need(overrun)
			return nil
		}
		if err != nil {
			return err
		}
		f.take(m)
	}
	return nil
}

func (f *follower) takeDumped(m nl.Message) {
	f.missed = f.missed || m.Header.Flags&nl.DumpInterrupted != 0
	m.Header.Flags |= nl.Append // a dump is in the order in which routes count
	f.take(m)
}

func (f *follower) take(m nl.Message) {
	if m.Header.Type == unix.RTM_DELADDR {
		// Routes of IPv4 that have it as their source go with it, and with the last one of a
		// link all by that link.
		f.need(silent)
		return
	}
	message, err := netlink.Decode(m)
	if err != nil {
		f.missed = true
		f.k.malformed.Inc()
		f.k.Log.Warn("a message of the kernel is passed over", "error", err)
		return
	}
	switch message := message.(type) {
	case *netlink.Route:
		if !f.table.Route(message) {
			f.need(contradiction)
		}
	case *netlink.NextHop:
		if !f.table.NextHop(message) {
			f.need(silent)
		}
	case *netlink.Link:
		f.link(message)
	}
}

// link notes a link. The routes of IPv4 of one that goes down, those by next-hop objects of
// one that loses its carrier, and the names of those that had another, change without a
// message.
func (f *follower) link(link *netlink.Link) {
	old := f.links[link.Index]
	if old != nil && (link.Delete || old.Name != link.Name || old.Up != link.Up ||
		old.Carrier && !link.Carrier) {
		f.need(silent)
	}
	if link.Delete {
		delete(f.links, link.Index)
	} else {
		f.links[link.Index] = link
	}
}

func (f *follower) tell() {
	source.ApplyAll(f.sink, "", f.table.Changes())
	f.k.oversized.Note(f.table)
}

func networkOrder(value uint16) uint32 {
	return uint32(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, value)))
}
