// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// nemesis breaks servers, members and what is between them, one thing at a time.
// All is well between two strikes.
type nemesis struct {
	c      *cluster
	random *rand.Rand
	ctx    context.Context // of run
	down   [servers]atomic.Bool

	mu      sync.Mutex
	starts  []span
	faults  []span
	strikes map[string]int
}

func newNemesis(c *cluster, random *rand.Rand) *nemesis {
	return &nemesis{c: c, random: random, strikes: map[string]int{}}
}

func (n *nemesis) up(server int) bool { return !n.down[server].Load() }

func (n *nemesis) below(d time.Duration) time.Duration {
	return time.Duration(n.random.Int64N(int64(d)))
}

func (n *nemesis) count(what string) {
	n.mu.Lock()
	n.strikes[what]++
	n.mu.Unlock()
}

// run strikes until ctx ends.
func (n *nemesis) run(ctx context.Context) error {
	n.ctx = ctx
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(300*time.Millisecond + n.below(1200*time.Millisecond)):
		}
		if err := n.strike(); err != nil {
			return err
		}
	}
}

// sleep ends early when the run does.
func (n *nemesis) sleep(d time.Duration) {
	select {
	case <-n.ctx.Done():
	case <-time.After(d):
	}
}

// away does something to a server that keeps it from the store.
func (n *nemesis) away(server int, length time.Duration, begin, end func()) {
	from := now()
	begin()
	n.sleep(length)
	end()
	n.mu.Lock()
	n.faults = append(n.faults, span{server, from, now()})
	n.mu.Unlock()
}

func (n *nemesis) strike() error {
	server, member := n.random.IntN(servers), n.random.IntN(members)
	wires := n.c.wires[server]
	set := func(held bool, delay time.Duration) {
		for _, w := range wires {
			w.set(held, delay)
		}
	}
	switch kind := n.random.IntN(100); {
	case kind < 20:
		n.count("kill server")
		return n.restart(server, syscall.SIGKILL)
	case kind < 25:
		n.count("end server")
		return n.restart(server, syscall.SIGTERM)
	case kind < 38:
		n.count("pause server")
		n.away(server, n.below(2*time.Second),
			func() { n.c.servers[server].signal(syscall.SIGSTOP) },
			func() { n.c.servers[server].signal(syscall.SIGCONT) })
	case kind < 41:
		// It knows that etcd is gone, and its batches are undecided or refused.
		n.count("cut server off for long")
		n.away(server, 7*time.Second+n.below(7*time.Second), func() { set(true, 0) }, func() { set(false, 0) })
	case kind < 56:
		n.count("cut server off")
		n.away(server, n.below(3*time.Second), func() { set(true, 0) }, func() { set(false, 0) })
	case kind < 61:
		n.count("break connections")
		for _, w := range wires {
			w.breakAll()
		}
	case kind < 74:
		n.count("slow server's links")
		delay := 5*time.Millisecond + n.below(150*time.Millisecond)
		set(false, delay)
		time.Sleep(n.below(3 * time.Second))
		set(false, 0)
	case kind < 80:
		n.count("cut one link")
		wires[member].set(true, 0)
		time.Sleep(n.below(3 * time.Second))
		wires[member].set(false, 0)
	case kind < 90:
		n.count("kill member")
		n.c.etcd[member].end(syscall.SIGKILL)
		time.Sleep(n.below(time.Second))
		return n.c.etcd[member].start()
	case kind < 96:
		n.count("pause member")
		n.c.etcd[member].signal(syscall.SIGSTOP)
		time.Sleep(n.below(2500 * time.Millisecond))
		n.c.etcd[member].signal(syscall.SIGCONT)
	default:
		n.compact(server)
	}
	return nil
}

func (n *nemesis) restart(server int, signal syscall.Signal) error {
	n.down[server].Store(true)
	n.c.servers[server].end(signal)
	time.Sleep(n.below(300 * time.Millisecond))
	n.mu.Lock()
	n.starts = append(n.starts, span{Server: server, Begin: now()})
	n.mu.Unlock()
	if err := n.c.servers[server].start(); err != nil {
		return err
	}
	err := n.c.awaitServing(server)
	n.down[server].Store(false)
	return err
}

// compact lets etcd forget what a server has not watched yet.
func (n *nemesis) compact(server int) {
	n.count("compact")
	n.away(server, n.below(time.Second),
		func() { n.c.servers[server].signal(syscall.SIGSTOP) },
		func() {
			text, _ := n.c.ctl(strings.Join(n.c.client[:], ","), "get", "none", "--write-out=json")
			if _, after, found := strings.Cut(text, `"revision":`); found {
				digits := strings.TrimRight(strings.SplitN(after, ",", 2)[0], "}\n ")
				if _, err := strconv.Atoi(digits); err == nil {
					n.c.ctl(strings.Join(n.c.client[:], ","), "compact", digits)
				}
			}
			n.c.servers[server].signal(syscall.SIGCONT)
		})
}
