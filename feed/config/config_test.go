// SPDX-License-Identifier: Apache-2.0

package config

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"planb.dev/lookup/feed/source"
)

type options struct {
	Path string        `yaml:"path"`
	Poll time.Duration `yaml:"poll"`
}

// A kind that says what it read.
func kinds(read *options) map[string]Kind {
	return map[string]Kind{"test": {Distance: 17, New: func(o source.Options) (source.Source, error) {
		return nil, o.Decode(read)
	}}}
}

func TestDefaultsAreThoseOfTheKindAndOfTheFile(t *testing.T) {
	var read options
	c, err := Parse([]byte("stale_time: 70s\nlog_level: debug\nsources:\n"+
		"  - {name: a, kind: test, options: {path: /x, poll: 20ms}}\n"+
		"  - {name: b, kind: test, distance: 3, stale_time: 10s}\n"), kinds(&read))
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Sources[0], c.Sources[1]
	if *a.Distance != 17 || *a.StaleTime != 70*time.Second || *b.Distance != 3 || *b.StaleTime != 10*time.Second ||
		c.LogLevel != slog.LevelDebug || c.FirstID != 1<<24 || c.BatchDelay != 10*time.Millisecond {
		t.Errorf("%+v", c)
	}
	if _, err := a.New(slog.Default(), prometheus.NewRegistry()); err != nil || read != (options{"/x", 20 * time.Millisecond}) {
		t.Error(read, err)
	}
	if _, err := b.New(slog.Default(), prometheus.NewRegistry()); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeUsedIsRefusedWithItsPlace(t *testing.T) {
	const one = "sources: [{name: a, kind: test}]\n"
	for text, want := range map[string]string{
		"":                                  "sources: there is none",
		"sources: []":                       "sources: there is none",
		one + "metrics_address: 9465":       "metrics_address: ",
		one + "metrics_address: a:65536":    "metrics_address: ",
		one + "batch_dely: 1ms":             `[2:1] unknown field "batch_dely"`,
		one + "batch_delay: 51ms":           "batch_delay: 51ms is not in 0..50ms",
		one + "batch_delay: 51":             "batch_delay",
		one + "withdraw_delay: -1ms":        "withdraw_delay: -1ms is not in 0..1m0s",
		one + "withdraw_delay: 61s":         "withdraw_delay: 1m1s is not in 0..1m0s",
		one + "stale_time: 0s":              "stale_time: 0s is less than 10s",
		one + "stale_time: 9999ms":          "stale_time: 9.999s is less than 10s",
		one + "first_id: 0":                 "first_id",
		one + "first_id: -1":                "[2:11]",
		one + "log_level: loud":             "loud",
		one + "heap_mib: 1048577":           "heap_mib",
		one + "sweep_share: 0":              "sweep_share",
		one + "object_grace: 999ms":         "object_grace: 999ms is neither 0s nor at least 1s",
		one + one:                           "sources",
		"sources: [{kind: test}]":           "sources[0].name",
		"sources: [{name: 'a b'}]":          `"a b"`,
		"sources: [{name: a, kind: other}]": `sources[0].kind: "other"`,
		"sources: [{name: a, kind: test}, {name: a, kind: test}]":   `two "a"`,
		"sources: [{name: a, kind: test, distance: 256}]":           "256",
		"sources: [{name: a, kind: test, distanse: 1}]":             "distanse",
		"sources: [{name: a, kind: test, stale_time: 0s}]":          "sources[0].stale_time: 0s is less than 10s",
		"sources: [{name: a, kind: test}]\ntls: {cert: x, keys: y}": "keys",
	} {
		if c, err := Parse([]byte(text), kinds(&options{})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v %v, not %q", text, c, err, want)
		}
	}
	c, err := Parse([]byte("sources: [{name: a, kind: test, options: {pth: x}}]"), kinds(&options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sources[0].New(slog.Default(), prometheus.NewRegistry()); err == nil ||
		!strings.Contains(err.Error(), `source a: [1:43] unknown field "pth"`) {
		t.Error(err)
	}
	if _, err := (&TLS{Cert: "x"}).Load(); err == nil || !strings.Contains(err.Error(), "without the other") {
		t.Error(err)
	}
}
