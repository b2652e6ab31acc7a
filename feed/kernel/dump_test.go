// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"sync/atomic"
	"testing"

	"planb.dev/lookup/feed/source"
	"planb.dev/lookup/feed/source/sourcetest"
)

// largest remembers the most routes of one call.
type largest struct {
	*sourcetest.Sink
	routes atomic.Int64
}

func (l *largest) Apply(session string, routes []source.Route) {
	l.routes.Store(max(l.routes.Load(), int64(len(routes))))
	l.Sink.Apply(session, routes)
}

// The core keeps what one call tells beside the table until it is in there.
func TestADumpIsToldInParts(t *testing.T) {
	if !sourcetest.InNamespace(t) {
		return
	}
	lines := []string{"addr add 192.0.2.1/24 dev v0"}
	for i := range 2*source.MaxApply + 1 {
		lines = append(lines, fmt.Sprintf("route add 10.%d.%d.0/24 via 192.0.2.2", i/256, i%256))
	}
	batch(t, lines)
	made, err := New(sourcetest.Options(t, ""))
	sourcetest.Check(t, err)
	sink := &largest{Sink: sourcetest.NewSink()}
	go func() { _ = made.Run(t.Context(), sink) }()
	sourcetest.Eventually(t, "the dump", func() bool { return sink.State("") == "complete" })
	if sink.Len() != 2*source.MaxApply+1 || sink.routes.Load() > source.MaxApply {
		t.Errorf("%d routes, %d of one call", sink.Len(), sink.routes.Load())
	}
}
