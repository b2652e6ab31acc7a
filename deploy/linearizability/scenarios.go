// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"planb.dev/lookup/client/go/planbv1"
)

// insistOn repeats a call of the control plane until it succeeds, or is refused
// for `already` after an attempt that may have succeeded.
func insistOn(already string, call func(context.Context) error) error {
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := call(ctx)
		cancel()
		if err == nil || already != "" && reasonOf(err) == already {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// create makes a table and waits until every server has it.
func (r *run) create(t *table) error {
	connections, err := r.dialAll(everyServer())
	if err != nil {
		return err
	}
	err = insistOn("TABLE_EXISTS", func(ctx context.Context) error {
		_, err := planbv1.NewRouteTableClient(connections[0]).CreateTable(ctx, &planbv1.CreateTableRequest{Table: t.h.Table})
		return err
	})
	for _, connection := range connections {
		if err == nil {
			err = insistOn("", func(ctx context.Context) error {
				state, err := planbv1.NewRouteTableClient(connection).GetTable(ctx, &planbv1.GetTableRequest{Table: t.h.Table})
				if err == nil {
					t.h.Generation = state.AcceptedGeneration
				}
				return err
			})
		}
		connection.Close()
	}
	t.accepted.Store(t.h.Generation)
	return err
}

func (r *run) remove(tables []*table) error {
	connection, err := dial(r.c.sockets[0])
	if err != nil {
		return err
	}
	defer connection.Close()
	for _, t := range tables {
		if err := insistOn("TABLE_NOT_FOUND", func(ctx context.Context) error {
			_, err := planbv1.NewRouteTableClient(connection).DeleteTable(ctx, &planbv1.DeleteTableRequest{Table: t.h.Table})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// faults is a round: tables of their own, each with clients of its own, and
// everything else breaks.
//
// Replacements, expected generations and epochs are about a whole table. So the
// tables with few, hot keys are checked as a whole; that is quick, since nearly
// every answer names its generation. In the table with many keys each call is
// about one, and each key is checked apart, without trust in generations. Calls
// whose outcome stays unknown can happen at any later time, which is what makes
// checking slow: a round ends them with its tables.
func (r *run) faults(round int, length time.Duration) error {
	var tables []*table
	for name, w := range map[string]world{"two": nested(2), "three": nested(3), "five": nested(5), "many": apart(64)} {
		tables = append(tables, newTable(fmt.Sprintf("round-%d-%s", round, name), w))
	}
	slices.SortFunc(tables, func(a, b *table) int { return strings.Compare(a.h.Table, b.h.Table) })
	for _, t := range tables {
		if err := r.create(t); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	struck := make(chan error, 1)
	go func() { struck <- r.nemesis.run(ctx) }()
	if err := r.use(ctx, tables, everyServer()); err != nil {
		return err
	}
	if err := <-struck; err != nil {
		return err
	}
	for _, t := range tables {
		if err := r.settle(t, everyServer()); err != nil {
			return err
		}
		r.check(t)
	}
	return r.remove(tables)
}

// ids lets other named requests push a named one out of the window that a server
// counts, and repeats it within the time after which a client no longer does.
func (r *run) ids() error {
	const horizon = 8 * time.Second
	// The smallest window: 1,000.
	flags := []string{"--max_lists=4", "--max_watchers=8", "--max_replacements=4", "--max_update_streams=1",
		"--update_credits=2000", "--max_replicated_calls=4", "--max_control_calls=100"}
	var own []int
	for range 2 {
		server, err := r.c.addServer(*program, "ids", flags...)
		if err != nil {
			return err
		}
		own = append(own, server)
	}
	for _, server := range own {
		if err := r.c.awaitServing(server); err != nil {
			return err
		}
	}
	t := newTable("default", nested(3))
	first, err := r.newClient(t, 0, own)
	if err != nil {
		return err
	}
	defer first.close()
	named := func(id string, key int, nextHop uint32) input {
		return input{Kind: update, ID: id, Changes: []change{{planbv1.RouteUpdate_OP_UPSERT, key, nextHop}}}
	}
	began := time.Now()
	first.write(0, named("r", 0, 5))
	first.write(0, named("r", 0, 5)) // if the deadline came first
	first.write(0, named("", 0, 6))
	var all sync.WaitGroup
	for i := range 40 {
		c, err := r.newClient(t, i+1, own)
		if err != nil {
			return err
		}
		all.Go(func() {
			defer c.close()
			for j := 0; j < 30 && time.Since(began) < horizon; j++ {
				c.write(j%2, named(c.newID(), 2, 1000+t.value.Add(1)))
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took < horizon {
		first.write(1, named("r", 0, 5))
	} else {
		fmt.Printf("ids: this machine is too slow to tell (%v)\n", took)
	}
	for server := range own {
		first.lookAt(server, t.accepted.Load(), []int{0, 1, 2})
	}
	t.h.Table = "ids"
	r.check(t)
	for _, server := range own {
		r.c.servers[server].end(syscall.SIGKILL)
	}
	return nil
}

// routes starts a server with a file of routes for a table that is empty then,
// and lets it read the file once the table is not: nothing of the file may be
// seen, and the server serves. With epochs, its writer is also an old one.
func (r *run) routes(epochs bool) error {
	name := fmt.Sprintf("routes-epochs-%v", epochs)
	first, err := r.c.addServer(*program, name)
	if err != nil {
		return err
	}
	if err := r.c.awaitServing(first); err != nil {
		return err
	}
	pipe := filepath.Join(r.c.folder, name)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return err
	}
	late, err := r.c.addServer(*program, name, "--routes="+pipe)
	if err != nil {
		return err
	}
	var file *os.File
	for deadline := time.Now().Add(patience); file == nil; time.Sleep(10 * time.Millisecond) {
		// This fails until the server reads.
		if file, err = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err != nil && time.Now().After(deadline) {
			return fmt.Errorf("server %d does not read its file: %v", late, err)
		}
	}
	t := newTable("default", nested(3))
	t.calm = !epochs
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := r.use(ctx, []*table{t}, []int{first}); err != nil {
		return err
	}
	for key, prefix := range t.h.World.Prefixes {
		fmt.Fprintf(file, "%s %d\n", prefix, 900_000+key)
	}
	file.Close()
	if err := r.c.awaitServing(late); err != nil {
		r.problem(err.Error())
		return nil
	}
	if err := r.settle(t, []int{first, late}); err != nil {
		return err
	}
	t.h.Table = name
	r.check(t)
	for _, server := range []int{first, late} {
		r.c.servers[server].end(syscall.SIGKILL)
	}
	return nil
}

// list returns what a server has of a table.
func list(connection *grpc.ClientConn, t *table) ([]uint32, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	stream, err := planbv1.NewRouteTableClient(connection).ListRoutes(ctx, &planbv1.ListRoutesRequest{Table: t.h.Table})
	if err != nil {
		return nil, err
	}
	routes := make([]uint32, len(t.h.World.Prefixes))
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return routes, nil
		}
		if err != nil {
			return nil, err
		}
		for _, route := range chunk.Routes {
			address, _ := netip.AddrFromSlice(route.Prefix.Address)
			text := netip.PrefixFrom(address, int(route.Prefix.Length)).String()
			if key := slices.Index(t.h.World.Prefixes, text); key >= 0 {
				routes[key] = route.NextHopId
			}
		}
	}
}

// restore puts etcd back from a snapshot below servers that run. What was
// acknowledged after the snapshot is gone, which its operator has chosen. Each
// server must notice: it has what the snapshot has, or it says loudly that it has
// not. From then on the table is linearizable again, with the contents of the
// snapshot as its start.
func (r *run) restore() error {
	const notice = 30 * time.Second
	before := newTable("before-restore", nested(3))
	if err := r.create(before); err != nil {
		return err
	}
	connections, err := r.dialAll(everyServer())
	if err != nil {
		return err
	}
	use := func(t *table, length time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), length)
		defer cancel()
		if err := r.use(ctx, []*table{t}, everyServer()); err != nil {
			return err
		}
		return r.settle(t, everyServer())
	}
	if err := use(before, 1500*time.Millisecond); err != nil {
		return err
	}
	saved, err := list(connections[0], before)
	if err != nil {
		return err
	}
	// All members have what is acknowledged once they are asked for it.
	snapshot := filepath.Join(r.c.folder, "snapshot")
	if text, err := r.c.ctl(r.c.client[0], "get", "probe"); err != nil {
		return fmt.Errorf("%v: %s", err, text)
	}
	if text, err := r.c.ctl(r.c.client[0], "snapshot", "save", snapshot); err != nil {
		return fmt.Errorf("%v: %s", err, text)
	}
	// The lost part ends with other contents.
	if err := use(before, 1500*time.Millisecond); err != nil {
		return err
	}
	last, err := r.newClient(before, before.numbers, everyServer())
	if err != nil {
		return err
	}
	last.epoch = before.epoch.Load()
	last.insist(input{Kind: update, Epoch: last.epoch, ID: "last",
		Changes: []change{{planbv1.RouteUpdate_OP_UPSERT, 0, 999_999}}})
	last.close()
	if err := r.settle(before, everyServer()); err != nil {
		return err
	}
	r.check(before)
	for server := range servers {
		r.c.servers[server].mayExit()
	}
	for _, member := range r.c.etcd {
		member.end(syscall.SIGKILL)
	}
	for i := range r.c.etcd {
		command := exec.Command("etcdctl", "snapshot", "restore", snapshot, fmt.Sprintf("--name=m%d", i),
			"--data-dir="+r.c.data(i, "two"), "--initial-cluster="+r.c.initial(), "--initial-cluster-token=two",
			"--initial-advertise-peer-urls=http://"+r.c.peer[i])
		command.Env = append(command.Environ(), "ETCDCTL_API=3")
		if text, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %s", err, text)
		}
		r.c.etcd[i] = r.c.member(i, "two")
		if err := r.c.etcd[i].start(); err != nil {
			return err
		}
	}
	if err := r.c.awaitEtcd(); err != nil {
		return err
	}
	r.nemesis.count("restore etcd")
	silent, until := false, time.Now().Add(notice)
	for server, connection := range connections {
		how := ""
		for how == "" && time.Now().Before(until) {
			time.Sleep(100 * time.Millisecond)
			how = r.noticed(server, connection, before, saved)
		}
		if how == "" {
			silent = true
			r.problem(fmt.Sprintf("restore: server %d serves what the store no longer has, and does not say so", server))
			continue
		}
		fmt.Printf("restore: server %d %s\n", server, how)
	}
	// Begun anew, a server has what the store has.
	for server := range servers {
		if err := r.nemesis.restart(server, syscall.SIGTERM); err != nil {
			return err
		}
	}
	if silent {
		return nil
	}
	after := newTable("before-restore", nested(3))
	after.numbers = 100 // other request ids
	after.h.Routes = saved
	err = insistOn("", func(ctx context.Context) error {
		state, err := planbv1.NewRouteTableClient(connections[0]).GetTable(ctx, &planbv1.GetTableRequest{Table: after.h.Table})
		if err == nil {
			after.h.Generation, after.h.Epoch = state.AcceptedGeneration, state.WriterEpoch
		}
		return err
	})
	if err != nil {
		return err
	}
	after.accepted.Store(after.h.Generation)
	after.epoch.Store(after.h.Epoch)
	if err := use(after, 2*time.Second); err != nil {
		return err
	}
	after.h.Table = "after-restore"
	r.check(after)
	return nil
}

// noticed says how a server shows that it knows that the store is another one;
// "" if it does not.
func (r *run) noticed(server int, connection *grpc.ClientConn, t *table, saved []uint32) string {
	if !r.c.servers[server].running() {
		return "has ended"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, err := planbv1.NewRouteTableClient(connection).UpdateRoutes(ctx, &planbv1.UpdateRoutesRequest{
		Table: t.h.Table, WriterEpoch: t.epoch.Load(), Updates: []*planbv1.RouteUpdate{{
			Op: planbv1.RouteUpdate_OP_UPSERT, Prefix: &planbv1.Prefix{Text: "192.0.2.0/24"},
			NextHopId: 1 + rand.Uint32N(1000)}}, ValidateOnly: true})
	if status.Code(err) == codes.DataLoss {
		return "refuses updates: " + reasonOf(err)
	}
	routes, listed := list(connection, t)
	if err == nil && listed == nil && slices.Equal(routes, saved) {
		return "has the contents of the snapshot"
	}
	return ""
}

// putBack sets all keys below a prefix to what `etcdctl get --write-out=json`
// has said.
func (r *run) putBack(prefix, saved string) error {
	var dump struct {
		Kvs []struct{ Key, Value []byte }
	}
	if err := json.Unmarshal([]byte(saved), &dump); err != nil {
		return err
	}
	if text, err := r.c.ctl(r.c.client[0], "del", "--prefix", prefix); err != nil {
		return fmt.Errorf("%v: %s", err, text)
	}
	for _, kv := range dump.Kvs {
		if strings.HasPrefix(string(kv.Key), prefix+"replicas/") {
			continue
		}
		command := exec.Command("etcdctl", "--endpoints="+r.c.client[0], "put", string(kv.Key))
		command.Env = append(command.Environ(), "ETCDCTL_API=3")
		command.Stdin = bytes.NewReader(kv.Value)
		if text, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %s", err, text)
		}
	}
	return nil
}

// fill replaces a table by its first keys, with that next hop, and so many
// routes beside.
func fill(connection *grpc.ClientConn, t *table, nextHop, routes uint32) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := planbv1.NewRouteTableClient(connection).ReplaceRoutes(ctx)
	if err != nil {
		return 0, err
	}
	request := &planbv1.ReplaceRoutesRequest{Table: t.h.Table, Ack: planbv1.Ack_ACK_ACCEPTED}
	for _, prefix := range t.h.World.Prefixes {
		request.Routes = append(request.Routes, &planbv1.Route{Prefix: &planbv1.Prefix{Text: prefix}, NextHopId: nextHop})
	}
	for i := range routes {
		address := make([]byte, 16)
		address[0] = 0x24
		binary.BigEndian.PutUint32(address[2:], i)
		request.Routes = append(request.Routes, &planbv1.Route{Prefix: &planbv1.Prefix{Address: address, Length: 48}, NextHopId: nextHop})
		if len(request.Routes) == 20_000 {
			if stream.Send(request) != nil {
				break // CloseAndRecv says why
			}
			request = &planbv1.ReplaceRoutesRequest{}
		}
	}
	request.Commit = true
	_ = stream.Send(request)
	reply, err := stream.CloseAndRecv()
	return reply.GetGeneration(), err
}

// copies starts a server with a copy of its own from a history that the store
// does not have: it was put back, and another server has acknowledged other
// contents at the same generation since, in an entry after which a snapshot is
// due. The server must refuse updates, and change nothing of the store.
func (r *run) copies() error {
	const prefix, routes = "copies", 1_800_000
	first, err := r.c.addServer(*program, prefix)
	if err != nil {
		return err
	}
	late, err := r.c.addServer(*program, prefix, "--cache="+filepath.Join(r.c.folder, prefix))
	if err != nil {
		return err
	}
	own := []int{first, late}
	for _, server := range own {
		if err := r.c.awaitServing(server); err != nil {
			return err
		}
	}
	t := newTable("default", nested(2))
	connections, err := r.dialAll(own)
	if err != nil {
		return err
	}
	set := func(nextHop uint32) (uint64, error) { return fill(connections[0], t, nextHop, 0) }
	if _, err := set(1); err != nil {
		return err
	}
	saved, err := r.c.ctl(r.c.client[0], "get", "--prefix", prefix+"/", "--write-out=json")
	if err != nil {
		return fmt.Errorf("%v: %s", err, saved)
	}
	if _, err := set(2); err != nil {
		return err
	}
	lost, err := set(3)
	if err != nil {
		return err
	}
	// What a server answers by a lookup of the keys.
	look := func(server int, generation uint64) ([]uint32, error) {
		var nextHops []uint32
		return nextHops, insistOn("", func(ctx context.Context) error {
			request := &planbv1.LookupRequest{MinGeneration: generation}
			for _, probe := range t.h.World.Probes {
				request.Addresses = append(request.Addresses, &planbv1.Address{Form: &planbv1.Address_Text{Text: probe}})
			}
			reply, err := planbv1.NewRouteLookupClient(connections[server]).Lookup(ctx, request)
			nextHops = nil
			for _, result := range reply.GetResults() {
				nextHops = append(nextHops, result.NextHopId)
			}
			return err
		})
	}
	if _, err := look(1, lost); err != nil {
		return err
	}
	r.c.servers[late].end(syscall.SIGTERM) // which writes the copy
	r.c.servers[first].end(syscall.SIGKILL)
	if err := r.putBack(prefix+"/", saved); err != nil {
		return err
	}
	r.nemesis.count("put keys back")
	for _, w := range r.c.wires[late] {
		w.set(true, 0)
	}
	for _, server := range own {
		if err := r.c.servers[server].start(); err != nil {
			return err
		}
	}
	for _, server := range own {
		if err := r.c.awaitServing(server); err != nil {
			return err
		}
	}
	if _, err := set(4); err != nil {
		return err
	}
	last, err := fill(connections[0], t, 5, routes)
	r.c.servers[first].end(syscall.SIGKILL) // before it writes the snapshot
	if err != nil {
		return err
	}
	if last != lost {
		return fmt.Errorf("copies: generation %d is not %d", last, lost)
	}
	text, err := r.c.ctl(r.c.client[0], "get", "--prefix", prefix+"/state/snapshots/", "--keys-only")
	if err != nil {
		return fmt.Errorf("%v: %s", err, text)
	}
	if strings.TrimSpace(text) != "" {
		fmt.Println("copies: this machine is too slow to tell: the first server wrote a snapshot")
	}
	for _, w := range r.c.wires[late] {
		w.set(false, 0)
	}
	refusal := ""
	for until := time.Now().Add(patience); refusal == "" && time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		_, err := planbv1.NewRouteTableClient(connections[1]).UpdateRoutes(ctx, &planbv1.UpdateRoutesRequest{
			Updates: []*planbv1.RouteUpdate{{Op: planbv1.RouteUpdate_OP_DELETE,
				Prefix: &planbv1.Prefix{Text: t.h.World.Prefixes[0]}}}, ValidateOnly: true})
		cancel()
		if status.Code(err) == codes.DataLoss {
			refusal = reasonOf(err)
		}
	}
	if refusal == "" {
		r.problem(fmt.Sprintf("copies: server %d serves what the store does not have, and does not say so", late))
	}
	time.Sleep(2 * time.Second) // for what it might write
	r.c.servers[late].end(syscall.SIGKILL)
	if err := r.c.servers[first].start(); err != nil {
		return err
	}
	if err := r.c.awaitServing(first); err != nil {
		r.problem(fmt.Sprintf("copies: what was acknowledged cannot be read any more: %v", err))
		return nil
	}
	if nextHops, err := look(0, last); err != nil || !slices.Equal(nextHops, []uint32{5, 5}) {
		r.problem(fmt.Sprintf("copies: next hops %v at generation %d are not those that were acknowledged, 5: %v", nextHops, last, err))
		return nil
	}
	r.c.servers[first].end(syscall.SIGKILL)
	fmt.Printf("copies: server %d refuses updates: %s; what was acknowledged is there\n", late, refusal)
	return nil
}
