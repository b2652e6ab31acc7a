// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"planb.dev/lookup/feed/source"
	"planb.dev/lookup/feed/source/sourcetest"
)

func tell(sink source.Sink, i int) {
	prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)
	sink.Apply("", []source.Route{{Prefix: prefix, Paths: []source.NextHop{{Label: "local"}}}})
}

// What was there before it has told again from the first route on. The clock is the test's.
func TestASessionThatGoesOnAddingRoutesHasNotToldAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := sourcetest.NewSink()
		tell(sink, 0)
		sink.Begin("")
		quiet, refused := source.Quiet{After: 10 * time.Second, Share: 0.9}, 0
		told := make(chan bool, 1)
		go func() {
			told <- quiet.Await(t.Context().Done(), sink, "", slog.New(slog.DiscardHandler), func() { refused++ })
		}()
		for i := range 100 {
			tell(sink, i)
			time.Sleep(quiet.After - time.Second)
			synctest.Wait()
			if len(told) > 0 {
				t.Fatalf("all is told after %d routes, and more came", i+1)
			}
		}
		time.Sleep(2 * quiet.After)
		synctest.Wait()
		if len(told) != 1 || !<-told || refused != 0 {
			t.Errorf("it was quiet: %d answers, and %d refusals of enough routes", len(told), refused)
		}
	})
}
