// SPDX-License-Identifier: Apache-2.0

// Command bart measures github.com/gaissmai/bart on a table and a trace that
// compare --dump=DIR wrote: routes.txt ("PREFIX NEXTHOP" lines), trace.bin
// (packed addresses) and answers.bin (little-endian next hops). It checks every
// answer first. Prints one line of CSV a metric, as compare does.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"time"

	"github.com/gaissmai/bart"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

type route struct {
	prefix  netip.Prefix
	nextHop uint32
}

func readRoutes(path string) []route {
	file := must(os.Open(path))
	defer file.Close()
	var routes []route
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var text string
		var r route
		must(fmt.Sscan(scanner.Text(), &text, &r.nextHop))
		r.prefix = must(netip.ParsePrefix(text))
		routes = append(routes, r)
	}
	return routes
}

func build(routes []route) *bart.Table[uint32] {
	table := new(bart.Table[uint32])
	for _, r := range routes {
		table.Insert(r.prefix, r.nextHop)
	}
	return table
}

func main() {
	dir := flag.String("dir", "", "what compare --dump wrote")
	repeats := flag.Int("repeats", 7, "timed passes over the trace")
	flag.Parse()
	runtime.GOMAXPROCS(2) // one for the lookups, one for the collector
	routes := readRoutes(filepath.Join(*dir, "routes.txt"))
	trace := must(os.ReadFile(filepath.Join(*dir, "trace.bin")))
	answers := must(os.ReadFile(filepath.Join(*dir, "answers.bin")))
	width := len(trace) / (len(answers) / 4)
	addresses := make([]netip.Addr, len(answers)/4)
	for i := range addresses {
		addresses[i], _ = netip.AddrFromSlice(trace[i*width : (i+1)*width])
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begin := time.Now()
	table := build(routes)
	built := time.Since(begin)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for i, address := range addresses {
		found, ok := table.Lookup(address)
		if !ok {
			found = 0
		}
		if expected := binary.LittleEndian.Uint32(answers[4*i:]); found != expected {
			log.Fatalf("WRONG: %v -> %d instead of %d", address, found, expected)
		}
	}
	var rates []float64
	next := make([]uint32, 4096)
	for range *repeats {
		begin := time.Now()
		for i, address := range addresses {
			next[i%len(next)], _ = table.Lookup(address)
		}
		rates = append(rates, float64(len(addresses))/time.Since(begin).Seconds()/1e6)
	}
	sort.Float64s(rates)
	var changes []float64
	for i := range 20000 {
		r := routes[(i*7919)%len(routes)]
		begin := time.Now()
		table.Insert(r.prefix, r.nextHop+1)
		changes = append(changes, float64(time.Since(begin).Nanoseconds())/1e3)
	}
	sort.Float64s(changes)
	bytes := float64(after.HeapAlloc - before.HeapAlloc)
	fmt.Printf("rate_mps,%g,%g,%g\n", rates[len(rates)/2], rates[0], rates[len(rates)-1])
	fmt.Printf("bytes_per_route,%g,,\n", bytes/float64(len(routes)))
	fmt.Printf("build_ms,%g,,\n", built.Seconds()*1e3)
	fmt.Printf("update1_p50_us,%g,,\n", changes[len(changes)/2])
	fmt.Printf("update1_p99_us,%g,,\n", changes[len(changes)*99/100])
}
