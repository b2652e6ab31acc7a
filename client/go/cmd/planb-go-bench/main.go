// SPDX-License-Identifier: Apache-2.0

// Planb-go-bench measures lookups a second of one process, at several sizes of
// batches.
//
//	planb-go-bench [-seconds=3] [-in_flight=4] TARGET [BATCH...]
//
// The addresses are a million random ones in 2000::/3, as planbctl bench has.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"strconv"
	"time"

	planb "planb.dev/lookup/client/go"
)

func run(target string, batch, inFlight int, length time.Duration) (float64, error) {
	client, err := planb.Dial(target, planb.WithInFlight(inFlight))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	random := rand.New(rand.NewPCG(1, 1))
	rows := make([]byte, 16<<20)
	for i := range rows {
		rows[i] = byte(random.Uint32())
		if i%16 == 0 {
			rows[i] = rows[i]&0x1f | 0x20
		}
	}
	stream := client.NewStream(context.Background())
	defer stream.Close()
	if err := stream.Send(&planb.Batch{V6: rows[:16]}); err != nil {
		return 0, err
	}
	if _, err := stream.Receive(); err != nil {
		return 0, err
	}
	begin := time.Now()
	go func() {
		for at := 0; time.Since(begin) < length; at += 16 * batch {
			if at+16*batch > len(rows) {
				at = 0
			}
			if stream.Send(&planb.Batch{V6: rows[at : at+16*batch]}) != nil {
				return
			}
		}
		stream.CloseSend()
	}()
	answered := 0
	for {
		result, err := stream.Receive()
		if err != nil {
			break
		}
		if result.Err != nil {
			return 0, result.Err
		}
		answered += len(result.NextHops)
	}
	return float64(answered) / time.Since(begin).Seconds(), nil
}

func main() {
	seconds := flag.Float64("seconds", 3, "how long each size is measured")
	inFlight := flag.Int("in_flight", 4, "batches in flight")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: planb-go-bench [-seconds=3] [-in_flight=4] TARGET [BATCH...]")
	}
	sizes := flag.Args()[1:]
	if len(sizes) == 0 {
		sizes = []string{"4096", "16384", "65536"}
	}
	for _, text := range sizes {
		batch, err := strconv.Atoi(text)
		if err != nil || batch < 1 || batch > 1<<20 {
			log.Fatalf("%s is not a size of a batch, 1..%d", text, 1<<20)
		}
		rate, err := run(flag.Arg(0), batch, *inFlight, time.Duration(*seconds*float64(time.Second)))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d addresses a batch: %.1f M/s\n", batch, rate/1e6)
	}
}
