// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"planb.dev/lookup/feed/source/sourcetest"
)

// Where the document of the metrics is.
const metricsDocument = "../../METRICS.md"

// What each kind of source needs to be one.
func optionsOfKinds(t *testing.T) map[string]string {
	folder := t.TempDir()
	gobgp, routes := filepath.Join(folder, "gobgp.yaml"), filepath.Join(folder, "routes")
	for file, text := range map[string]string{
		gobgp:  "global: {config: {as: 64500, router-id: 192.0.2.1, port: -1}}\n",
		routes: "10.0.0.0/8 7\n",
	} {
		sourcetest.Check(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return map[string]string{"bgp": "file: " + gobgp, "bmp": "listen: 127.0.0.1:0, routers: [127.0.0.1]",
		"file": "path: " + routes, "fpm": "listen: 127.0.0.1:0"}
}

// The rows of the document, made of a page of metrics.
func rowsOf(page string) []string {
	labels, types, helps := map[string]map[string]bool{}, map[string]string{}, map[string]string{}
	label := regexp.MustCompile(`[{,](\w+)="`)
	for line := range strings.Lines(page) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP planb_feed_"):
			helps[words[2]] = words[3]
		case strings.HasPrefix(line, "# TYPE planb_feed_"):
			types[words[2]] = words[3]
			labels[words[2]] = map[string]bool{}
		case strings.HasPrefix(line, "planb_feed_"):
			name, _, _ := strings.Cut(words[0], "{")
			if of := labels[name]; of != nil {
				for _, found := range label.FindAllStringSubmatch(line, -1) {
					of["`"+found[1]+"`"] = true
				}
			}
		}
	}
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(helps)) {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", name, types[name],
			strings.Join(slices.Sorted(maps.Keys(labels[name])), ", "), helps[name]))
	}
	return rows
}

func TestTheDocumentOfTheMetricsIsWhatIsServed(t *testing.T) {
	s := startServer(t, "--store=none")
	f := newFeed(t, s, 1, "")
	options, text := optionsOfKinds(t), "sources:\n"
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		text += fmt.Sprintf("  - {name: %s, kind: %s, options: {%s}}\n", kind, kind, options[kind])
	}
	config := filepath.Join(f.folder, "feed.yaml")
	head := fmt.Sprintf("server: %s\nmetrics_address: 127.0.0.1:0\n", s.target())
	sourcetest.Check(t, os.WriteFile(config, []byte(head+text), 0o600))
	f.run()
	var page string
	eventually(t, "a change and a dump of the kernel", func() bool {
		page = f.page("/metrics")
		return strings.Contains(page, "planb_feed_changes_total{") &&
			strings.Contains(page, "planb_feed_kernel_dumps_total{")
	})
	document, err := os.ReadFile(metricsDocument)
	sourcetest.Check(t, err)
	const heading = "| --- | --- | --- | --- |\n"
	before, has, _ := strings.Cut(string(document), heading)
	want := strings.Join(rowsOf(page), "\n") + "\n"
	if os.Getenv("PLANB_WRITE_METRICS") != "" {
		sourcetest.Check(t, os.WriteFile(metricsDocument, []byte(before+heading+want), 0o644))
	} else if has != want {
		t.Errorf("%s has\n%s\nand served is\n%s", metricsDocument, has, want)
	}
}
