// SPDX-License-Identifier: Apache-2.0

// Package daemon runs planb-feed: sources, the table that merges them, the writer, and
// pages by HTTP.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	planb "planb.dev/lookup/client/go"
	"planb.dev/lookup/feed/config"
	"planb.dev/lookup/feed/rib"
	"planb.dev/lookup/feed/source"
	"planb.dev/lookup/feed/writer"
)

// After a source failed, and at most.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// Daemon is a feed that can run.
type Daemon struct {
	config   *config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	sources  []source.Source
	client   *planb.Client
	routes   *rib.Table
	writer   *writer.Writer
}

// New makes a feed of its configuration, and refuses one that it cannot use. It opens
// nothing but the files of TLS.
func New(c *config.Config, log *slog.Logger) (*Daemon, error) {
	d := &Daemon{config: c, log: log, registry: prometheus.NewRegistry()}
	d.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	options := rib.Options{FirstID: c.FirstID, WithdrawDelay: c.WithdrawDelay, SweepShare: c.SweepShare,
		ObjectGrace: c.ObjectGrace, Log: log}
	for i := range c.Sources {
		s := &c.Sources[i]
		made, err := s.New(log, d.registry)
		if err != nil {
			return nil, err
		}
		d.sources = append(d.sources, made)
		options.Sources = append(options.Sources, rib.SourceOptions{
			Name: s.Name, Distance: *s.Distance, StaleTime: *s.StaleTime})
	}
	var dial []planb.Option
	if c.TLS != nil {
		tls, err := c.TLS.Load()
		if err != nil {
			return nil, err
		}
		dial = append(dial, planb.WithTLS(tls))
	}
	var err error
	if d.client, err = planb.Dial(c.Server, dial...); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	d.routes = rib.New(options)
	m := newMetrics(d)
	d.registry.MustRegister(m)
	d.writer = writer.New(writer.Options{Client: d.client, Table: c.Table, CreateTable: c.CreateTable,
		Routes: d.routes, BatchDelay: c.BatchDelay, ObjectGrace: c.ObjectGrace, Log: log, Visible: m.visible})
	return d, nil
}

// Close ends the connection to the server.
func (d *Daemon) Close() { _ = d.client.Close() }

// Sweep withdraws the routes whose sweep was held.
func (d *Daemon) Sweep() { d.routes.Sweep() }

// Run feeds the server until ctx ends. `serving` is called once with the address of
// the pages; nil if there are none.
func (d *Daemon) Run(ctx context.Context, serving func(net.Addr)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var listening net.Addr
	if d.config.MetricsAddress != "" {
		listener, err := net.Listen("tcp", d.config.MetricsAddress)
		if err != nil {
			return fmt.Errorf("metrics_address: %w", err)
		}
		listening = listener.Addr()
		server := &http.Server{Handler: d.pages(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
		running.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				d.log.Error("pages are not served", "why", err)
			}
		})
		context.AfterFunc(ctx, func() { _ = server.Close() })
	}
	serving(listening)
	running.Go(func() {
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				d.routes.Tick()
			}
		}
	})
	// What the server has is known before a source tells anything: a source without an
	// end mark compares with it.
	start := sync.OnceFunc(func() {
		for i := range d.sources {
			running.Go(func() { d.supervise(ctx, i) })
		}
	})
	d.writer.Run(ctx, start)
	return nil
}

// Runs a source, again after each failure.
func (d *Daemon) supervise(ctx context.Context, i int) {
	sink, log := d.routes.Sink(i), d.log.With("source", d.config.Sources[i].Name)
	pause := firstPause
	for {
		began := time.Now()
		err := d.sources[i].Run(ctx, sink)
		if ctx.Err() != nil {
			return // the routes stay for the next run of the feed
		}
		sink.LostAll()
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		log.Error("the source failed; trying again", "why", err, "after", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// AllTold says that every source has told all, once.
func (d *Daemon) AllTold() bool { return d.routes.Stats().AllTold }

// NotReady says why the feed is not ready; nothing if it is.
func (d *Daemon) NotReady() string {
	switch s, t := d.writer.Stats(), d.routes.Stats(); {
	case s.Fenced:
		return "another writer has taken the table"
	case !s.Connected:
		return "the server is not followed"
	case !t.AllTold:
		return "not every source has told all"
	case !s.Ready:
		return "what the sources told is not visible yet"
	}
	return ""
}

func (d *Daemon) pages() http.Handler {
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(d.registry, promhttp.HandlerOpts{}))
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok")
	})
	pages.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		why := d.NotReady()
		if why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	return pages
}
