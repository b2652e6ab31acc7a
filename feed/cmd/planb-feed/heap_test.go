// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
)

func TestTheHeapGrowsFreelyUpToItsRoomAndByAShareAbove(t *testing.T) {
	for _, c := range []struct {
		live, room   uint64 // MiB
		got          int
		whileItLoads int // to the room from whatever is used, and half of it the first time
	}{
		{0, 300, 200, 3650}, {1, 300, 200, 7400}, {10, 300, 200, 2900}, {99, 300, 200, 203},
		{100, 300, 200, 200}, {150, 300, 100, 100}, {200, 300, 50, 50}, {250, 300, 42, 50},
		{399, 300, 42, 50}, {400, 300, 42, 150}, {9000, 300, 42, 150}, {120, 100, 33, 33}, {199, 100, 33, 33}, {200, 100, 42, 50},
	} {
		if got := heapPercent(c.live<<20, c.room<<20, false); got != c.got {
			t.Errorf("%d MiB in use: %d%%, not %d%%", c.live, got, c.got)
		}
		if got := heapPercent(c.live<<20, c.room<<20, true); got != c.whileItLoads {
			t.Errorf("%d MiB in use while it loads: %d%%, not %d%%", c.live, got, c.whileItLoads)
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
