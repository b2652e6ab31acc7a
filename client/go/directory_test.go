// SPDX-License-Identifier: Apache-2.0

package planb

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"planb.dev/lookup/client/go/planbv1"
)

// The cases of client/next_hop_directory_test.cc.

func change(t *testing.T, client *Client, request *planbv1.UpdateNextHopsRequest) uint64 {
	t.Helper()
	response, err := client.Tables().UpdateNextHops(t.Context(), request)
	check(t, err)
	return response.Generation
}

func label(t *testing.T, client *Client, id uint32, text string) uint64 {
	t.Helper()
	return change(t, client, &planbv1.UpdateNextHopsRequest{Upserts: []*planbv1.NextHop{{Id: id, Label: text}}})
}

func followNextHops(t *testing.T, client *Client) *NextHopDirectory {
	t.Helper()
	directory, err := client.FollowNextHops(t.Context())
	check(t, err)
	t.Cleanup(directory.Close)
	return directory
}

func await(t *testing.T, directory *NextHopDirectory, generation uint64) {
	t.Helper()
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, directory.Wait(soon, generation))
}

func until(t *testing.T, met func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time")
		}
	}
}

func labelOf(directory *NextHopDirectory, id uint32) string {
	if found := directory.Read().NextHop(id); found != nil {
		return found.Label
	}
	return "none"
}

func TestADirectoryKnowsObjectsAndGroupsAndFollowsTheirChanges(t *testing.T) {
	client := connect(t, start(t))
	neighbor := &planbv1.NextHop{
		Id: 1, Gateway: netip.MustParseAddr("fe80::1").AsSlice(), Interface: "eth0", Weight: 1, Label: "transit"}
	group := &planbv1.NextHopGroup{Id: 5, Label: "both", Members: []*planbv1.NextHopGroup_Member{
		{NextHopId: 1, Weight: 3}, {NextHopId: 2, Weight: 1}, {NextHopId: 9, Weight: 1}}}
	change(t, client, &planbv1.UpdateNextHopsRequest{
		Upserts:      []*planbv1.NextHop{neighbor, {Id: 2, Label: "other"}},
		GroupUpserts: []*planbv1.NextHopGroup{group}})
	directory := followNextHops(t, client)
	before := directory.Read()
	if err := directory.State(); err != nil || before.Generation != 1 || before.Len() != 3 {
		t.Errorf("%v, generation %d, %d objects", err, before.Generation, before.Len())
	}
	if !proto.Equal(before.NextHop(1), neighbor) || !proto.Equal(before.Group(5), group) ||
		before.Group(1) != nil || before.NextHop(5) != nil || before.NextHop(9) != nil {
		t.Errorf("%v, %v", before.NextHop(1), before.Group(5))
	}
	await(t, directory, change(t, client, &planbv1.UpdateNextHopsRequest{
		DeleteGroupIds: []uint32{5}, DeleteIds: []uint32{2}, Upserts: []*planbv1.NextHop{{Id: 9, Label: "new"}}}))
	if labelOf(directory, 9) != "new" || labelOf(directory, 2) != "none" ||
		directory.Read().Group(5) != nil || labelOf(directory, 1) != "transit" {
		t.Error(directory.Read())
	}
	if before.NextHop(2).GetLabel() != "other" {
		t.Error("a snapshot has changed")
	}
}

func TestADirectoryReachesGenerationsThatChangeRoutesAlone(t *testing.T) {
	client := connect(t, start(t))
	label(t, client, 1, "one")
	directory := followNextHops(t, client)
	generation, err := client.Announce(t.Context(), map[netip.Prefix]uint32{netip.MustParsePrefix("2001:db8::/32"): 1})
	check(t, err)
	await(t, directory, generation)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := directory.Wait(short, generation+1); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestADirectoryKeepsItsAnswersWhileTheServerIsAway(t *testing.T) {
	s := start(t)
	client := connect(t, s)
	label(t, client, 1, "one")
	directory := followNextHops(t, client)
	s.kill()
	until(t, func() bool { return directory.State() != nil })
	var failure *Error
	if !errors.As(directory.State(), &failure) || failure.Code != codes.Unavailable || labelOf(directory, 1) != "one" {
		t.Error(directory.State(), directory.Read())
	}
	s.run()
	await(t, directory, label(t, connect(t, s), 2, "two"))
	if labelOf(directory, 1) != "one" || labelOf(directory, 2) != "two" || directory.State() != nil {
		t.Error(directory.State(), directory.Read())
	}
}

// Its generations begin again, and soon have the numbers of before.
func TestADirectoryIsThatOfAServerThatLostItsTable(t *testing.T) {
	s := start(t)
	client := connect(t, s)
	label(t, client, 1, "one")
	label(t, client, 2, "two")
	directory := followNextHops(t, client)
	s.kill()
	s.store = filepath.Join(s.folder, "another store")
	s.run()
	again := connect(t, s)
	label(t, again, 3, "three")
	label(t, again, 3, "four")
	until(t, func() bool { return labelOf(directory, 3) == "four" })
	if labelOf(directory, 1) != "none" || directory.Read().Generation != 2 {
		t.Error(directory.Read())
	}
}

func TestADirectoryReadsAGenerationAsAWhole(t *testing.T) {
	client := connect(t, start(t))
	both := func(n int) *planbv1.UpdateNextHopsRequest {
		text := fmt.Sprint(n)
		return &planbv1.UpdateNextHopsRequest{Upserts: []*planbv1.NextHop{{Id: 1, Label: text}, {Id: 2, Label: text}}}
	}
	change(t, client, both(0))
	directory := followNextHops(t, client)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); ; {
				now := directory.Read()
				if now.Generation < last || now.NextHop(1).Label != now.NextHop(2).Label {
					t.Errorf("%v after %d", now, last)
					return
				}
				last = now.Generation
				select {
				case <-stop:
					return
				default:
					runtime.Gosched() // The client's own goroutines are as many.
				}
			}
		})
	}
	var last uint64
	for n := range 200 {
		last = change(t, client, both(n+1))
	}
	await(t, directory, last)
	close(stop)
	readers.Wait()
	if labelOf(directory, 1) != "200" {
		t.Error(directory.Read())
	}
}

func TestADirectoryRefusesMoreObjectsThanItMayHave(t *testing.T) {
	s := start(t)
	client := connect(t, s)
	label(t, client, 1, "one")
	label(t, client, 2, "two")
	var failure *Error
	_, err := connect(t, s, WithMaxNextHops(1)).FollowNextHops(t.Context())
	if !errors.As(err, &failure) || failure.Code != codes.FailedPrecondition {
		t.Error(err)
	}
	directory := followNextHops(t, connect(t, s, WithMaxNextHops(2)))
	label(t, client, 3, "three")
	until(t, func() bool { return directory.State() != nil })
	if !strings.Contains(directory.State().Error(), "more than 2 next hops") ||
		labelOf(directory, 2) != "two" || labelOf(directory, 3) != "none" {
		t.Error(directory.State(), directory.Read())
	}
}

type refusing struct {
	planbv1.UnimplementedRouteTableServer
	err   error
	calls atomic.Int64
}

func (r *refusing) GetTable(context.Context, *planbv1.GetTableRequest) (*planbv1.Table, error) {
	r.calls.Add(1)
	return nil, r.err
}

func TestADirectoryAsksAgainWhenTheServerSaysSo(t *testing.T) {
	busy := &refusing{err: tooManyStreams(t, time.Minute)}
	client := serve(t, &fake{tables: busy})
	// Again if a busy machine needed that time for the first answer.
	for times := int64(1); ; times++ {
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		var failure *Error
		_, err := client.FollowNextHops(short)
		cancel()
		said := errors.As(err, &failure) && failure.Code == codes.ResourceExhausted
		if busy.calls.Load() > times || !said && times == 3 {
			t.Fatal(err, busy.calls.Load(), times)
		}
		if said {
			return
		}
	}
}

func TestADirectorySaysWhyThereIsNone(t *testing.T) {
	s := start(t)
	connect(t, s)
	red, err := Dial(s.target(), WithTable("red"))
	check(t, err)
	defer red.Close()
	if _, err := red.FollowNextHops(t.Context()); ReasonOf(err) != "TABLE_NOT_FOUND" {
		t.Error(err)
	}
	s.kill()
	// Again if a busy machine has not tried in this time.
	var failure *Error
	for times := 0; times < 3 && (failure == nil || failure.Code != codes.Unavailable); times++ {
		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err = red.FollowNextHops(short)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		errors.As(err, &failure)
	}
	if failure == nil || failure.Code != codes.Unavailable {
		t.Error(err)
	}
}
