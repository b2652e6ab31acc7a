// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// By how many percent of what is used the heap grows until it is collected, at least: while
	// a table is loaded the collector takes more time than the rest, and later the memory
	// counts. With a third, changes wait 0.2 s for the collector of a large heap (p99, 5,000 a
	// second), but 0.03 s for that of a small one. While more than a million routes of BGP are
	// loaded, the collector takes half of the time if a large heap grows by half only.
	leastLoadingPercent      = 50
	leastLargeLoadingPercent = 150
	leastPercent             = 42
	leastSmallPercent        = 33
	smallHeap                = 200 << 20
	largeHeap                = 400 << 20
	// And at most, once all is loaded.
	mostPercent = 200
	// What Go takes for used before it has collected anything.
	leastLive = 4 << 20
)

// tuneHeap lets the heap grow up to `room` bytes for less work of the collector: at once
// while `loading`, which becomes false for good, and from the first collection after that
// with what is used. GOGC and GOMEMLIMIT in the environment count instead.
func tuneHeap(room uint64, loading func() bool) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	tune := func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(heapPercent(live[0].Value.Uint64(), room, loading()))
	}
	tune()
	afterEachCollection(tune)
}

// What it makes is collected with everything else that nothing uses.
func afterEachCollection(do func()) {
	runtime.AddCleanup(&struct{ _ *int }{}, func(struct{}) {
		do()
		afterEachCollection(do)
	}, struct{}{})
}

func heapPercent(live, room uint64, loading bool) int {
	least, most := leastPercent, mostPercent
	if loading {
		most = math.MaxInt32
	}
	switch {
	case live < smallHeap: // while it loads as well: the most memory is taken then
		least = leastSmallPercent
	case loading && live >= largeHeap:
		least = leastLargeLoadingPercent
	case loading:
		least = leastLoadingPercent
	}
	if live == 0 {
		// Go does not know yet how long a collection takes, and the heap grows by a fifth above
		// where the first one is due.
		room /= 2
	}
	return min(max(int(100*room/max(live, leastLive))-100, least), most)
}
