// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
)

func TestTheHeapGrowsFreelyUpToItsRoomAndByAShareAbove(t *testing.T) {
	const room = 300 << 20
	for _, c := range []struct {
		live uint64 // MiB
		got  int
	}{
		{0, 200}, {1, 200}, {99, 200}, {100, 200}, {150, 100}, {200, 50}, {250, 42}, {9000, 42},
	} {
		if got := heapPercent(c.live<<20, room, leastPercent, mostPercent); got != c.got {
			t.Errorf("%d MiB in use: %d%%, not %d%%", c.live, got, c.got)
		}
	}
	// While it loads: to 300 MiB from whatever is used, and half of it the first time.
	for _, c := range []struct {
		live uint64 // MiB
		got  int
	}{
		{0, 3650}, {1, 7400}, {10, 2900}, {100, 200}, {150, 100}, {250, 50}, {9000, 50},
	} {
		if got := heapPercent(c.live<<20, room, leastLoadingPercent, math.MaxInt32); got != c.got {
			t.Errorf("%d MiB in use while it loads: %d%%, not %d%%", c.live, got, c.got)
		}
	}
}

func TestTheHeapIsCollectedMoreOftenOnceAllIsLoaded(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	var loaded atomic.Bool
	tuneHeap(16<<30, func() bool { return !loaded.Load() })
	if got := percent(); got <= mostPercent {
		t.Errorf("%d%% while it loads", got)
	}
	runtime.GC()
	if got := percent(); got <= mostPercent {
		t.Errorf("%d%% while it loads, after a collection", got)
	}
	loaded.Store(true)
	eventually(t, "all is loaded", func() bool {
		runtime.GC() // percent may undo what comes beside it
		return percent() == mostPercent
	})
}
