// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"planb.dev/lookup/feed/source"
)

// Oversized counts the routes that are left out because of too many paths, and names them.
type Oversized struct {
	log   *slog.Logger
	gauge prometheus.Gauge
	named map[netip.Prefix]struct{}
}

// NewOversized makes the metric of a kind of source.
func NewOversized(kind string, options source.Options) *Oversized {
	return &Oversized{log: options.Log, gauge: options.Gauge(kind+"_oversized_routes",
		fmt.Sprintf("Routes that are left out because they have more than %d paths.", MaxHops))}
}

// Note takes what Changes found. A route is named once, also over a new table that has it
// when it is noted for the first time.
func (o *Oversized) Note(t *Table) {
	o.gauge.Set(float64(len(t.oversized)))
	anew := slices.DeleteFunc(t.outgrown, func(prefix netip.Prefix) bool {
		_, named := o.named[prefix]
		return named
	})
	t.outgrown = nil
	if len(anew) > 0 {
		const shown = 8
		o.log.Warn("routes have too many paths and are left out", "routes", len(anew), "most", MaxHops,
			"prefixes", fmt.Sprint(anew[:min(len(anew), shown)]))
	}
	if len(anew) > 0 || len(o.named) > len(t.oversized) {
		o.named = maps.Clone(t.oversized)
	}
}
