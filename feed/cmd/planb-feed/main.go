// SPDX-License-Identifier: Apache-2.0

// planb-feed keeps a table of a PlanB Lookup server equal to what sources of routes
// have: routing daemons, the kernel, files.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"planb.dev/lookup/feed/bgp"
	"planb.dev/lookup/feed/bmp"
	"planb.dev/lookup/feed/config"
	"planb.dev/lookup/feed/daemon"
	"planb.dev/lookup/feed/file"
	"planb.dev/lookup/feed/fpm"
	"planb.dev/lookup/feed/kernel"
)

// The kinds of sources, with the administrative distances that operators know.
var kinds = map[string]config.Kind{
	"bgp":    {New: bgp.New, Distance: 20, HeapMiB: 350},
	"bmp":    {New: bmp.New, Distance: 20},
	"file":   {New: file.New, Distance: 1},
	"fpm":    {New: fpm.New, Distance: 10},
	"kernel": {New: kernel.New, Distance: 5},
}

// Set by build.sh.
var version = "of no version"

func main() { os.Exit(run()) }

func run() int {
	path := flag.String("config", "/etc/planb/feed.yaml", "the configuration, a file in YAML")
	check := flag.Bool("check", false, "read the configuration, say what is wrong with it, and end")
	tell := flag.Bool("version", false, "print the version, and end")
	flag.Usage = func() {
		var names []string
		for name := range kinds {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprintf(flag.CommandLine.Output(), `planb-feed: keeps a table of a PlanB Lookup server equal to what sources of routes have.

Usage: planb-feed [--config=FILE] [--check]
       planb-feed --version

Kinds of sources: %s. It ends with 2 if the configuration cannot be used.

`, strings.Join(names, ", "))
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "planb-feed: %q is no flag\n", flag.Arg(0))
		return 2
	}
	if *tell {
		fmt.Println("planb-feed", version)
		return 0
	}
	c, err := config.Load(*path, kinds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "planb-feed:", err)
		return 2
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	d, err := daemon.New(c, log)
	if err != nil {
		fmt.Fprintln(os.Stderr, "planb-feed:", err)
		return 2
	}
	defer d.Close()
	if *check {
		fmt.Printf("%s: %d sources\n", *path, len(c.Sources))
		return 0
	}
	tuneHeap(uint64(c.HeapMiB)<<20, func() bool { return !d.AllTold() })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// Only the owner of the process can send it, and the pages may be open to whatever
	// scrapes them.
	sweep := make(chan os.Signal, 1)
	signal.Notify(sweep, syscall.SIGUSR1)
	go func() {
		for range sweep {
			d.Sweep()
		}
	}()
	// By default it would end the process, and with it the sessions of all sources.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	go func() {
		for range reload {
			log.Warn("SIGHUP changes nothing: the configuration counts at the next start")
		}
	}()
	var telling sync.WaitGroup
	err = d.Run(ctx, func(address net.Addr) {
		if address != nil {
			log.Info("pages are served", "address", address.String())
		}
		telling.Go(func() { tellSystemd(ctx, d, log) })
	})
	stop()
	telling.Wait() // the process would end before the manager is told so
	if err != nil {
		log.Error("planb-feed ends", "why", err)
		return 1
	}
	return 0
}

// tellSystemd tells a manager, if there is one, that the feed has started, and until ctx
// ends what it waits for. Started is not ready: a peer may be away for days, and a
// start that waited for it would be ended, with the sessions of all others.
func tellSystemd(ctx context.Context, d *daemon.Daemon, log *slog.Logger) {
	for told := ""; ; {
		status := d.NotReady()
		if status == "" {
			status = "ready"
		}
		if status != told {
			sent, err := systemd.SdNotify(false, systemd.SdNotifyReady+"\nSTATUS="+status)
			if err != nil {
				log.Error("systemd is not told", "why", err)
			}
			if !sent {
				return
			}
			told = status
		}
		select {
		case <-ctx.Done():
			_, _ = systemd.SdNotify(false, systemd.SdNotifyStopping)
			return
		case <-time.After(time.Second):
		}
	}
}
