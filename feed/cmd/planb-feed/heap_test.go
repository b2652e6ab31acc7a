// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
)

func TestTheHeapGrowsFreelyUpToItsRoomAndByHalfAbove(t *testing.T) {
	const room = 300 << 20
	for _, c := range []struct {
		live      uint64 // MiB
		most, got int
	}{
		{0, mostPercent, 200}, {1, mostPercent, 200}, {99, mostPercent, 200}, {100, mostPercent, 200},
		{150, mostPercent, 100}, {200, mostPercent, 50}, {250, mostPercent, 50}, {9000, mostPercent, 50},
		// While it loads: to 300 MiB from whatever is used, and half of it the first time.
		{0, math.MaxInt32, 3650}, {1, math.MaxInt32, 7400}, {10, math.MaxInt32, 2900}, {100, math.MaxInt32, 200},
		{150, math.MaxInt32, 100}, {9000, math.MaxInt32, 50},
	} {
		if got := heapPercent(c.live<<20, room, c.most); got != c.got {
			t.Errorf("%d MiB in use, at most %d%%: %d%%, not %d%%", c.live, c.most, got, c.got)
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
	eventually(t, "all is loaded", func() bool { return percent() == mostPercent })
}
