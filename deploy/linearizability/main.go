// SPDX-License-Identifier: Apache-2.0

// The program linearizability lets clients change and look up tables at real
// servers that share a store in a real etcd, breaks both meanwhile, and has
// Porcupine, a checker of others, look for an order of the calls that explains
// every answer. See test.sh.
//
// What finds what: each of these was switched off in the server, and the run was
// wrong, here with --seed=1.
//
//	no-ops and validate_only ask the store                    faults
//	refusals ask the store                                    faults
//	a read of the store, not the server's own head, confirms  faults
//	an epoch of another server counts                         faults
//	an epoch is stored if nothing else changes                faults
//	initial routes expect generation 0                        routes
//	ids of requests are kept by time                          ids
//	another history of etcd is noticed                        restore
//	a table is compared with that history                     restore
//	a table that stopped writes no snapshot over the store    copies
//
// The last has three mends, each of which suffices: the position is that of what
// was applied; a table that stopped offers nothing; a snapshot is offered with the
// digest of its entry. Without all three what was acknowledged is lost, and the
// digest of the snapshot's record refuses the rest; without that too, other contents
// are served.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
)

var (
	program  = flag.String("server", "", "planb_server")
	library  = flag.String("clock", "", "libjumping_clock.so; empty: no clock jumps")
	seconds  = flag.Int("seconds", 60, "how long the run takes, about")
	seed     = flag.Uint64("seed", 0, "of the schedule; 0: a random one")
	out      = flag.String("out", "", "folder for histories that are wrong; default: a new one")
	writable = flag.Int("writable", servers, "to how many servers writes go; with one, its head is always the newest")
	keep     = flag.Bool("keep", false, "leave the histories that are right as well")
	recorded = flag.String("history", "", "only check this history, as a run has left it")
	scenario = flag.String("scenario", "", "only one: faults, ids, routes, restore or copies")
)

const (
	clientsOfTable = 3
	checkPatience  = time.Minute
)

// run is one run of the program.
type run struct {
	c       *cluster
	random  *rand.Rand
	nemesis *nemesis
	out     string

	checks  sync.WaitGroup
	checked chan bool // one at a time

	mu         sync.Mutex
	problems   []string
	histories  int
	keys       int
	operations map[string]int
	aside      map[string]int
}

func (r *run) problem(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, what)
	fmt.Println("PROBLEM:", what)
}

// dialAll connects to servers.
func (r *run) dialAll(of []int) ([]*grpc.ClientConn, error) {
	var connections []*grpc.ClientConn
	for _, server := range of {
		connection, err := dial(r.c.sockets[server])
		if err != nil {
			return nil, err
		}
		connections = append(connections, connection)
	}
	return connections, nil
}

// newClient has connections of its own to those servers.
func (r *run) newClient(t *table, number int, of []int) (*client, error) {
	connections, err := r.dialAll(of)
	return &client{number: number, t: t, connections: connections, up: r.nemesis.up,
		random: rand.New(rand.NewPCG(r.random.Uint64(), 0))}, err
}

func (c *client) close() {
	for _, connection := range c.connections {
		connection.Close()
	}
}

func everyServer() []int { return []int{0, 1, 2} }

// use lets clients of those servers use tables until ctx ends.
func (r *run) use(ctx context.Context, tables []*table, of []int) error {
	var all sync.WaitGroup
	for _, t := range tables {
		for range clientsOfTable {
			c, err := r.newClient(t, t.numbers, of)
			if err != nil {
				return err
			}
			t.numbers++
			all.Go(func() {
				defer c.close()
				c.run(ctx)
			})
		}
	}
	all.Wait()
	return nil
}

// settle waits until those servers show what was acknowledged, by lookups that
// are part of the history.
func (r *run) settle(t *table, of []int) error {
	c, err := r.newClient(t, t.numbers, of)
	if err != nil {
		return err
	}
	defer c.close()
	t.numbers++
	var reads [][]int
	if t.h.World.Apart {
		for key := range t.h.World.Prefixes {
			reads = append(reads, []int{key})
		}
	} else {
		var every []int
		for key := range t.h.World.Prefixes {
			every = append(every, key)
		}
		reads = append(reads, every)
	}
	deadline := time.Now().Add(patience)
	for server := range of {
		for _, keys := range reads {
			for !c.lookAt(server, t.accepted.Load(), keys) {
				if time.Now().After(deadline) {
					t.surprise(fmt.Sprintf("%s: server %d does not show generation %d", t.h.Table, server, t.accepted.Load()))
					return nil
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	return nil
}

// check has a history checked, in the background.
func (r *run) check(t *table) {
	r.nemesis.mu.Lock()
	t.h.Starts, t.h.Faults = slices.Clone(r.nemesis.starts), slices.Clone(r.nemesis.faults)
	r.nemesis.mu.Unlock()
	t.h.Records = t.records
	r.mu.Lock()
	r.histories++
	r.keys += len(t.h.World.Prefixes)
	for _, record := range t.h.Records {
		what := "writes"
		switch {
		case record.In.Kind == lookup:
			what = "lookups"
		case record.Out.Outcome == unknown:
			what = "unknown"
		case record.Out.Outcome == refused:
			what = "refused"
		}
		r.operations[what]++
		if record.In.Kind != lookup && record.Out.Outcome == done && !record.Out.Counts.any() {
			r.operations["without effect"]++
		}
	}
	for reason, count := range t.aside {
		r.aside[reason] += count
	}
	r.mu.Unlock()
	for _, surprise := range t.surprises {
		r.problem(surprise)
	}
	r.checks.Go(func() {
		<-r.checked
		defer func() { r.checked <- true }()
		began := time.Now()
		result, where, err := t.h.check(r.out, checkPatience)
		if *keep && err == nil {
			err = t.h.write(r.out)
		}
		took := time.Since(began).Round(time.Millisecond)
		switch {
		case err != nil:
			r.problem(fmt.Sprintf("%s: %v", t.h.Table, err))
		case result == porcupine.Illegal:
			r.problem(fmt.Sprintf("%s is not linearizable (%d calls, %v): %s", t.h.Table, len(t.h.Records), took, where))
		case result == porcupine.Unknown:
			r.problem(fmt.Sprintf("%s: not decided within %v: %s", t.h.Table, took, where))
		default:
			fmt.Printf("%s: linearizable, %d calls, checked in %v\n", t.h.Table, len(t.h.Records), took)
		}
	})
}

func (r *run) all() error {
	deadline := time.Now().Add(time.Duration(*seconds) * time.Second)
	for range servers {
		if _, err := r.c.addServer(*program, "planb"); err != nil {
			return err
		}
	}
	for server := range servers {
		if err := r.c.awaitServing(server); err != nil {
			return err
		}
	}
	wants := func(name string) bool { return *scenario == "" || *scenario == name }
	if wants("faults") {
		// The other scenarios take about 30 s.
		until := deadline.Add(-30 * time.Second)
		if *scenario != "" {
			until = deadline
		}
		length := min(20*time.Second, time.Until(until)/3)
		for round := 0; round == 0 || time.Until(until) > length; round++ {
			if err := r.faults(round, length); err != nil {
				return err
			}
		}
	}
	if wants("ids") {
		if err := r.ids(); err != nil {
			return err
		}
	}
	if wants("routes") {
		for _, epochs := range []bool{false, true} {
			if err := r.routes(epochs); err != nil {
				return err
			}
		}
	}
	if wants("restore") {
		if err := r.restore(); err != nil {
			return err
		}
	}
	if wants("copies") {
		if err := r.copies(); err != nil {
			return err
		}
	}
	r.checks.Wait()
	if *scenario == "" {
		for _, what := range []string{"writes", "lookups", "unknown", "refused", "without effect"} {
			if r.operations[what] < 10 {
				r.problem(fmt.Sprintf("too little happened: %s: %d", what, r.operations[what]))
			}
		}
	}
	return nil
}

func (r *run) summary() string {
	o := r.operations
	verdict := "linearizable"
	if len(r.problems) > 0 {
		verdict = fmt.Sprintf("NOT linearizable or not well: %d problems; see %s", len(r.problems), r.out)
	}
	strikes := 0
	var kinds []string
	for kind, count := range r.nemesis.strikes {
		strikes += count
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, count))
	}
	slices.Sort(kinds)
	var aside []string
	for reason, count := range r.aside {
		aside = append(aside, fmt.Sprintf("%s %d", reason, count))
	}
	slices.Sort(aside)
	return fmt.Sprintf("faults: %s\nrefused without a word of the table: %s\n"+
		"linearizability: seed %d: %d operations (%d writes, %d of them without effect, %d lookups), "+
		"%d of unknown outcome, %d refused, %d keys in %d histories, %d faults: %s",
		strings.Join(kinds, ", "), strings.Join(aside, ", "),
		*seed, o["writes"]+o["lookups"]+o["unknown"]+o["refused"], o["writes"], o["without effect"], o["lookups"],
		o["unknown"], o["refused"], r.keys, r.histories, strikes, verdict)
}

func main() {
	flag.Parse()
	if *recorded != "" {
		os.Exit(again(*recorded))
	}
	if *program == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: linearizability --server=PLANB_SERVER [flags]; see --help")
		os.Exit(2)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())%1_000_000 + 1
	}
	os.Exit(play())
}

// again checks a recorded history.
func again(path string) int {
	h, err := read(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "linearizability:", err)
		return 1
	}
	result, where, err := h.check(filepath.Dir(path), checkPatience)
	fmt.Println(h.Table, len(h.Records), "calls:", result, where, err)
	if result != porcupine.Ok {
		return 1
	}
	return 0
}

func play() int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "linearizability:", err)
		return 1
	}
	folder, err := os.MkdirTemp("", "planb_linearizability.")
	if err != nil {
		return fail(err)
	}
	r := &run{random: rand.New(rand.NewPCG(*seed, 0)), out: *out, operations: map[string]int{}, aside: map[string]int{},
		checked: make(chan bool, 1)}
	r.checked <- true
	if r.out == "" {
		r.out = filepath.Join(folder, "wrong")
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return fail(err)
	}
	fmt.Printf("seed %d, %d s, in %s\n", *seed, *seconds, folder)
	r.c, err = newCluster(folder, *library, r.problem)
	defer r.c.end()
	if err != nil {
		return fail(err)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		r.c.end()
		os.Exit(130)
	}()
	r.nemesis = newNemesis(r.c, rand.New(rand.NewPCG(*seed, 1)))
	if err := r.all(); err != nil {
		r.problem(err.Error())
	}
	fmt.Println(r.summary())
	if len(r.problems) > 0 {
		return 1
	}
	r.c.end()
	if *out == "" && !*keep {
		os.RemoveAll(folder)
	}
	return 0
}
