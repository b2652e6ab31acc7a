// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	planb "planb.dev/lookup/client/go"
	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/rib"
	"planb.dev/lookup/feed/source"
)

// A server of one table of IPv4 that keeps everything in maps.
type server struct {
	planbv1.UnimplementedRouteTableServer

	mu      sync.Mutex
	epoch   uint64
	words   []uint64 // the epochs of writers that said that the table is complete
	credits int
	routes  map[netip.Prefix]uint32
	objects map[uint32]*planbv1.NextHop
	groups  map[uint32]*planbv1.NextHopGroup
	// Why a batch cannot be, by the reason of an error; empty if it can.
	refuse func(batch *planbv1.StreamUpdatesRequest, after map[netip.Prefix]uint32) string
	// Called before objects are removed.
	remove func()
}

func (s *server) GetTable(context.Context, *planbv1.GetTableRequest) (*planbv1.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &planbv1.Table{WriterEpoch: s.epoch}, nil
}

func (s *server) UpdateRoutes(_ context.Context, request *planbv1.UpdateRoutesRequest) (*planbv1.UpdateRoutesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = request.WriterEpoch
	if request.GetComplete() {
		s.words = append(s.words, s.epoch)
	}
	return &planbv1.UpdateRoutesResponse{}, nil
}

func (s *server) UpdateNextHops(_ context.Context, request *planbv1.UpdateNextHopsRequest) (*planbv1.UpdateNextHopsResponse, error) {
	s.remove()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range request.DeleteIds {
		delete(s.objects, id)
	}
	return &planbv1.UpdateNextHopsResponse{}, nil
}

func (s *server) ListNextHops(_ *planbv1.ListNextHopsRequest, stream grpc.ServerStreamingServer[planbv1.ListNextHopsResponse]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	byID := slices.SortedFunc(maps.Values(s.objects), func(a, b *planbv1.NextHop) int { return cmp.Compare(a.Id, b.Id) })
	return stream.Send(&planbv1.ListNextHopsResponse{NextHops: byID, Groups: slices.Collect(maps.Values(s.groups))})
}

func (s *server) ListRoutes(_ *planbv1.ListRoutesRequest, stream grpc.ServerStreamingServer[planbv1.ListRoutesResponse]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &planbv1.ListRoutesResponse{}
	for prefix, id := range s.routes {
		list.Routes = append(list.Routes, &planbv1.Route{NextHopId: id,
			Prefix: &planbv1.Prefix{Address: prefix.Addr().AsSlice(), Length: uint32(prefix.Bits())}})
	}
	return stream.Send(list)
}

func (s *server) StreamUpdates(stream grpc.BidiStreamingServer[planbv1.StreamUpdatesRequest, planbv1.StreamUpdatesResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&planbv1.StreamUpdatesResponse{Credits: uint64(s.credits)}); err != nil {
		return err
	}
	for {
		batch, err := stream.Recv()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if cost(batch) > s.credits {
			return status.Error(codes.ResourceExhausted, "CREDIT_EXCEEDED")
		}
		if err := stream.Send(s.apply(batch)); err != nil {
			return err
		}
	}
}

func cost(batch *planbv1.StreamUpdatesRequest) int {
	return 1 + len(batch.ChangesV4)/10 + len(batch.NextHops) + len(batch.Groups)
}

func (s *server) apply(batch *planbv1.StreamUpdatesRequest) *planbv1.StreamUpdatesResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := &planbv1.StreamUpdatesResponse{BatchId: batch.BatchId, Credits: uint64(cost(batch))}
	objects, groups, routes := maps.Clone(s.objects), maps.Clone(s.groups), maps.Clone(s.routes)
	for _, object := range batch.NextHops {
		objects[object.Id] = object
	}
	for _, group := range batch.Groups {
		groups[group.Id] = group
	}
	reason := ""
	for change := range slices.Chunk(batch.ChangesV4, 10) {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte(change[:4])), int(change[4]))
		id := binary.LittleEndian.Uint32(change[6:])
		if planbv1.RouteUpdate_Op(change[5]) == planbv1.RouteUpdate_OP_DELETE {
			delete(routes, prefix)
			continue
		}
		if batch.RequireNextHops && objects[id] == nil && groups[id] == nil {
			reason = "NEXT_HOP_NOT_FOUND"
		}
		routes[prefix] = id
	}
	if reason == "" && s.refuse != nil {
		reason = s.refuse(batch, routes)
	}
	if reason != "" {
		reply.Error = &planbv1.UpdateError{Code: 8, Reason: reason}
	} else {
		s.objects, s.groups, s.routes = objects, groups, routes
	}
	return reply
}

// What a route of the server means; empty if there is none.
func (s *server) means(prefix netip.Prefix) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, is := s.routes[prefix]
	if object := s.objects[id]; object != nil {
		return netip.AddrFrom4([4]byte(object.Gateway)).String()
	} else if !is {
		return ""
	}
	return fmt.Sprint(id)
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.routes)
}

type world struct {
	*server
	t      *testing.T
	table  *rib.Table
	sink   *rib.Sink
	writer *Writer
}

// A writer that follows a server, which is changed before.
func start(t *testing.T, options rib.Options, change func(*server)) *world {
	w := &world{t: t, server: &server{credits: 200_000, routes: map[netip.Prefix]uint32{},
		objects: map[uint32]*planbv1.NextHop{}, groups: map[uint32]*planbv1.NextHopGroup{}}}
	change(w.server)
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := grpc.NewServer()
	planbv1.RegisterRouteTableServer(served, w.server)
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(served.Stop)
	client, err := planb.Dial("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	options.Sources = []rib.SourceOptions{{Name: "a", StaleTime: time.Minute}}
	options.FirstID, options.Log = 1<<24, slog.New(slog.DiscardHandler)
	w.table = rib.New(options)
	w.sink = w.table.Sink(0)
	w.writer = New(Options{Client: client, Routes: w.table, BatchDelay: time.Millisecond,
		ObjectGrace: options.ObjectGrace, Log: options.Log, Visible: func(*rib.Batch, time.Time) {}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		w.writer.Run(ctx, func() {})
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = client.Close()
	})
	return w
}

func prefix(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
}

// Tells a route; without a gateway, a withdrawal.
func (w *world) tell(i int, gateway string) {
	route := source.Route{Prefix: prefix(i)}
	if gateway != "" {
		route.Paths = []source.NextHop{{Gateway: netip.MustParseAddr(gateway)}}
	}
	w.sink.Apply("", []source.Route{route})
}

func (w *world) eventually(what string, patience time.Duration, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

const patience = 30 * time.Second

func TestAWithdrawalThatWaitsDelaysNoAnnouncement(t *testing.T) {
	w := start(t, rib.Options{WithdrawDelay: time.Minute}, func(*server) {})
	w.tell(1, "192.0.2.1")
	w.eventually("the first route", patience, func() bool { return w.count() == 1 })
	w.tell(1, "")
	time.Sleep(100 * time.Millisecond) // the writer sleeps until the withdrawal is due
	w.tell(2, "192.0.2.1")
	w.eventually("the second route", patience, func() bool { return w.count() == 2 })
}

// Another client may delete an object that nothing uses, such as by "nexthop prune".
func TestANextHopThatWasDeletedIsDescribedAgain(t *testing.T) {
	w := start(t, rib.Options{}, func(*server) {})
	w.tell(1, "192.0.2.1")
	w.eventually("the route", patience, func() bool { return w.means(prefix(1)) == "192.0.2.1" })
	w.tell(1, "192.0.2.2")
	w.eventually("another next hop", patience, func() bool { return w.means(prefix(1)) == "192.0.2.2" })
	w.mu.Lock()
	maps.DeleteFunc(w.objects, func(id uint32, _ *planbv1.NextHop) bool { return id != w.routes[prefix(1)] })
	w.mu.Unlock()
	w.tell(1, "192.0.2.1")
	w.eventually("the first next hop again", patience, func() bool { return w.means(prefix(1)) == "192.0.2.1" })
	// An id of another describes what it likes, or nothing.
	w.sink.Apply("", []source.Route{{Prefix: prefix(2), Paths: []source.NextHop{{ID: 7}}}})
	w.eventually("an id that nothing describes", patience, func() bool { return w.means(prefix(2)) == "7" })
}

func TestUnusedObjectsGoAtOnceWithBatchesBetween(t *testing.T) {
	const calls, firstID, grace = 5, 1 << 24, 24 * time.Second // a look every three
	var w *world
	var seen []int // routes of the server at each call
	var later atomic.Int64
	first := make(chan time.Time, 1)
	options := rib.Options{ObjectGrace: grace, Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}
	w = start(t, options, func(s *server) {
		for i := range uint32(calls*maxUnused - 1) {
			s.objects[firstID+i] = &planbv1.NextHop{Id: firstID + i, Label: fmt.Sprint(i)}
		}
		s.remove = func() {
			seen = append(seen, s.count())
			if len(seen) == 1 {
				w.tell(1, "192.0.2.1")
				first <- time.Now()
			}
		}
	})
	w.eventually("the list", patience, func() bool { return w.writer.Stats().Connected })
	later.Store(int64(grace))
	began := <-first
	w.eventually("all unused ones have gone", patience, func() bool { return w.writer.Stats().Unused == calls*maxUnused-1 })
	if took := time.Since(began); took > grace/8 {
		t.Errorf("all unused ones have gone after %s", took)
	}
	if len(seen) != calls || seen[0] != 0 || seen[calls-1] != 1 {
		t.Errorf("routes at each call: %v", seen)
	}
}

func TestATableWhoseEpochIsTheLastOneIsNotTaken(t *testing.T) {
	w := start(t, rib.Options{}, func(s *server) { s.epoch = math.MaxUint64 })
	w.tell(1, "192.0.2.1")
	time.Sleep(200 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoch != math.MaxUint64 || len(w.routes) != 0 || w.writer.Stats().Fenced {
		t.Errorf("%d, %d routes", w.epoch, len(w.routes))
	}
}

func TestATableIsCompleteOnceAllIsToldAndAgainOnEachConnection(t *testing.T) {
	w := start(t, rib.Options{}, func(*server) {})
	said := func() []uint64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(w.words)
	}
	w.tell(1, "192.0.2.1")
	w.eventually("the route", patience, func() bool { return w.count() == 1 })
	if len(said()) != 0 || w.writer.Stats().Ready {
		t.Fatalf("said by %v, though the source has more to tell", said())
	}
	w.sink.Complete("")
	w.eventually("complete", patience, func() bool { return len(said()) == 1 })
	w.mu.Lock()
	refused := false
	w.refuse = func(*planbv1.StreamUpdatesRequest, map[netip.Prefix]uint32) string {
		if refused {
			return ""
		}
		refused = true
		return "STORE_FULL" // which ends the stream
	}
	w.mu.Unlock()
	w.tell(2, "192.0.2.1")
	w.eventually("the second route", patience, func() bool { return w.count() == 2 })
	w.eventually("complete again", patience, func() bool { return len(said()) == 2 })
	if words := said(); words[0] >= words[1] || !w.writer.Stats().Ready {
		t.Errorf("said by %v", words)
	}
}

func TestAServerThatIsFullGetsWhatFits(t *testing.T) {
	const room, all = 10, 40
	w := start(t, rib.Options{}, func(s *server) {
		s.refuse = func(_ *planbv1.StreamUpdatesRequest, after map[netip.Prefix]uint32) string {
			if len(after) > room && len(after) > len(s.routes) {
				return "TABLE_FULL"
			}
			return ""
		}
	})
	for i := range all {
		w.tell(i, "192.0.2.1")
	}
	w.eventually("as many as there is room for", patience, func() bool { return w.count() == room })
	w.sink.Complete("")
	there := func(gateway string) (is []int) {
		for i := range all {
			if w.means(prefix(i)) == gateway {
				is = append(is, i)
			}
		}
		return is
	}
	for i := range all {
		w.tell(i, "192.0.2.2")
	}
	w.eventually("all that are there change", patience, func() bool { return len(there("192.0.2.2")) == room })
	gone := there("192.0.2.2")
	for _, i := range gone {
		w.tell(i, "")
	}
	w.eventually("others have their room", patience, func() bool {
		now := there("192.0.2.2")
		return len(now) == room && !slices.ContainsFunc(now, func(i int) bool { return slices.Contains(gone, i) })
	})
}

func TestARouteThatAServerRefusesHoldsNoOtherUp(t *testing.T) {
	const all = 100
	w := start(t, rib.Options{}, func(s *server) {
		s.refuse = func(_ *planbv1.StreamUpdatesRequest, after map[netip.Prefix]uint32) string {
			if _, is := after[prefix(3)]; is {
				return "REFUSED"
			}
			return ""
		}
	})
	for i := range all {
		w.tell(i, "192.0.2.1")
	}
	w.eventually("all others", patience, func() bool { return w.count() == all-1 })
	w.tell(3, "")
	w.tell(5, "192.0.2.2")
	w.eventually("the last change", patience, func() bool { return w.means(prefix(5)) == "192.0.2.2" })
}

func TestBatchesFitWhatAServerTakes(t *testing.T) {
	for name, change := range map[string]func(*server){
		"credits": func(s *server) { s.credits = 300 },
		"changes": func(s *server) {
			s.refuse = func(batch *planbv1.StreamUpdatesRequest, _ map[netip.Prefix]uint32) string {
				if cost(batch) > 6 {
					return "TOO_MANY_UPDATES"
				}
				return ""
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const all = 2000
			w := start(t, rib.Options{}, change)
			w.mu.Lock()
			for i := range all {
				w.tell(i, "192.0.2.1")
			}
			w.mu.Unlock()
			w.eventually("all", patience, func() bool { return w.count() == all })
		})
	}
}
