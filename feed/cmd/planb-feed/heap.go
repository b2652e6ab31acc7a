// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// By how many percent of what is used the heap grows until it is collected, at least
	// and while it is small. A table that is loaded is otherwise gone through again each
	// time that it is half as large again, which takes more time than the rest.
	leastPercent = 50
	mostPercent  = 200
)

// tuneHeap lets the heap grow up to `room` bytes for less work of the collector. GOGC and
// GOMEMLIMIT in the environment count instead.
func tuneHeap(room uint64) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(heapPercent(live[0].Value.Uint64(), room))
	// Collected with everything else that nothing uses.
	runtime.AddCleanup(&struct{ _ *int }{}, tuneHeap, room)
}

func heapPercent(live, room uint64) int {
	if live == 0 {
		return mostPercent
	}
	return min(max(int(100*room/live)-100, leastPercent), mostPercent)
}
