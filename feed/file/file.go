// SPDX-License-Identifier: Apache-2.0

// Package file is a source of routes that reads a file, and again when it changes.
//
// A line of a file is a prefix and its next hops, one after the other:
//
//	2001:db8::/32 7                                      # an id of the server
//	2001:db8:1::/48 via fe80::1 dev eth0
//	10.0.0.0/8 via 192.0.2.1 weight 2 via 192.0.2.2      # shared 2:1
//	192.0.2.0/24 dev eth1
//	198.51.100.0/24 blackhole                            # or unreachable, prohibit
//	203.0.113.0/24 via 192.0.2.1 path 64500,{64501,64502} community 64500:1 tag site=fra
//
// A # at the start of a word begins a comment, unless the word is the name of an
// interface.
//
// A file whose first line is a header with the column "prefix" is CSV; the others are
// "id", "gateway", "interface", "weight", "label", "as", "path", "community", "extended", "local_pref",
// "med" and "tag". Rows of one prefix are the next hops of one route.
//
// Every other form is planbctl's to read: `planbctl convert` makes CSV of it.
package file

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"planb.dev/lookup/feed/source"
)

const (
	maxLine = 64 << 10
	// The most next hops that a server takes for one route.
	maxPaths = 256
	// A file that changed so shortly before may change again with the same time.
	settled = 100 * time.Millisecond
	// One that could not be read, and is as it was, is read again so much later.
	retry = 10 * time.Second
)

type config struct {
	Path       string        `yaml:"path"`
	Poll       time.Duration `yaml:"poll"`
	MaxRoutes  int           `yaml:"max_routes"`
	AllowEmpty bool          `yaml:"allow_empty"`
	// The program planbctl, which reads the file; empty: it is text or CSV.
	Convert string `yaml:"convert"`
	// What of a path of MRT planbctl takes.
	Attributes string `yaml:"attributes"`
}

type file struct {
	config
	log *slog.Logger
}

// New is a source.New.
func New(o source.Options) (source.Source, error) {
	f := &file{config{Poll: time.Second, MaxRoutes: 4_000_000, Attributes: "gateway"}, o.Log}
	if err := o.Decode(&f.config); err != nil {
		return nil, err
	}
	switch {
	case f.Path == "":
		return nil, errors.New("options.path: there is none")
	case f.Poll < 10*time.Millisecond:
		return nil, fmt.Errorf("options.poll: %s is less than 10ms", f.Poll)
	case f.MaxRoutes < 1:
		return nil, fmt.Errorf("options.max_routes: %d is less than 1", f.MaxRoutes)
	case !slices.Contains([]string{"gateway", "origin", "full"}, f.Attributes):
		return nil, fmt.Errorf("options.attributes: %q is not gateway, origin or full", f.Attributes)
	}
	if f.Convert != "" {
		if _, err := exec.LookPath(f.Convert); err != nil {
			return nil, fmt.Errorf("options.convert: %w", err)
		}
	}
	return f, nil
}

// What tells that a file has changed.
type identity struct {
	device, inode uint64
	size          int64
	changed       time.Time
}

func (f *file) identify() (identity, error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		return identity{}, err
	}
	id := identity{size: info.Size(), changed: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		id.device, id.inode = uint64(sys.Dev), sys.Ino
	}
	return id, nil
}

// Run is source.Source's. A file that cannot be read changes nothing. One that is gone
// is a lost session.
func (f *file) Run(ctx context.Context, sink source.Sink) error {
	var read, failed identity // what was read last, and what could not be
	var tried time.Time       // when that was
	last := ""                // the last error
	for {
		at := time.Now()
		now, err := f.identify()
		if err == nil && now != read && (now != failed || time.Since(tried) > retry) {
			isSettled := at.Sub(now.changed).Abs() > settled
			var routes []source.Route
			if routes, err = f.read(ctx); err != nil {
				if failed = (identity{}); isSettled {
					failed, tried = now, time.Now()
				}
			} else {
				// A file that is being written has not been read whole.
				if again, _ := f.identify(); again == now {
					tell(sink, routes)
					last = ""
					if isSettled {
						read = now
					}
				}
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			sink.Lost("")
			read = identity{}
		}
		if err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			f.log.Error("the file is not taken; its former routes stay", "why", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.Poll):
		}
	}
}

func tell(sink source.Sink, routes []source.Route) {
	sink.Begin("")
	source.ApplyAll(sink, "", routes)
	sink.Complete("")
}

func (f *file) read(ctx context.Context) ([]source.Route, error) {
	// The open of a pipe would wait for its other end.
	opened, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	if info, err := opened.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", f.Path)
	}
	var routes []source.Route
	if f.Convert == "" {
		routes, err = parse(ctx, opened, f.MaxRoutes)
	} else {
		routes, err = f.convert(ctx, opened)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%w", f.Path, err)
	}
	if len(routes) == 0 && !f.AllowEmpty {
		return nil, fmt.Errorf("%s gives no route, and allow_empty is not set", f.Path)
	}
	return routes, nil
}

// The first bytes of what a program says.
type firstBytes struct{ bytes.Buffer }

func (b *firstBytes) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, 4096-b.Len()))])
	return len(p), nil
}

// Reads a file by planbctl. It gets the open file: one that takes its place meanwhile is read
// next.
func (f *file) convert(ctx context.Context, from *os.File) ([]source.Route, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var said firstBytes
	command := exec.CommandContext(ctx, f.Convert, "convert", "--strict", "--allow_empty", "--attributes="+f.Attributes, "-")
	command.Stdin, command.Stderr = from, &said
	rows, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// A child of it may hold the pipes.
	command.WaitDelay = time.Second
	defer context.AfterFunc(ctx, func() { _ = rows.Close() })()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf(" %v", err) // that the program is gone says nothing of the file
	}
	routes, err := parseCSV(ctx, rows, f.MaxRoutes)
	if err != nil {
		cancel()
	}
	failed := command.Wait()
	text := strings.TrimSpace(said.String())
	switch {
	case failed != nil && text != "" && command.ProcessState.Exited():
		return nil, fmt.Errorf(" %s: %s", f.Convert, text)
	case err == nil && failed != nil:
		return nil, fmt.Errorf(" %s: %v", f.Convert, failed)
	case err == nil && text != "":
		f.log.Warn("some of the file does not count", "why", text)
	}
	return routes, err
}

// Reads a file, plain or of gzip. An error begins with the line's number.
func parse(ctx context.Context, from io.Reader, maxRoutes int) ([]source.Route, error) {
	text := bufio.NewReaderSize(from, maxLine)
	if magic, _ := text.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(text)
		if err != nil {
			return nil, fmt.Errorf(" %w", err)
		}
		text = bufio.NewReaderSize(unpacked, maxLine)
	}
	head, _ := text.Peek(4096)
	first, _, _ := strings.Cut(string(head), "\n")
	if slices.Contains(strings.Split(strings.TrimSpace(first), ","), "prefix") {
		return parseCSV(ctx, text, maxRoutes)
	}
	return parseText(ctx, text, maxRoutes)
}

func parseText(ctx context.Context, text io.Reader, maxRoutes int) ([]source.Route, error) {
	var routes []source.Route
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLine)
	number := 1
	for ; lines.Scan(); number++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		words := withoutComment(strings.Fields(lines.Text()))
		if len(words) == 0 {
			continue
		}
		prefix, err := parsePrefix(words[0])
		if err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		paths, err := parsePaths(words[1:])
		if err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		if routes = append(routes, source.Route{Prefix: prefix, Paths: paths}); len(routes) > maxRoutes {
			return nil, fmt.Errorf("%d: more than %d routes (max_routes)", number, maxRoutes)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%d: %w", number, err)
	}
	return routes, nil
}

// The words before a comment, which starts anywhere in a prefix and an id, and else at
// the start of a word: names of interfaces and tags have a # too, and what follows dev may
// begin with it.
func withoutComment(words []string) []string {
	name := false
	for i, word := range words {
		at := strings.IndexByte(word, '#')
		if i < 2 && at > 0 {
			return append(words[:i:i], word[:at])
		}
		if at == 0 && !name {
			return words[:i]
		}
		name = i%2 == 1 && (word == "dev" || word == "interface")
	}
	return words
}

// Reads a prefix without host bits; an address is one of its full length.
func parsePrefix(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("%q is no prefix", text)
	}
	if prefix != prefix.Masked() {
		return prefix, fmt.Errorf("%s has host bits set", text)
	}
	return prefix, nil
}

func parsePaths(words []string) ([]source.NextHop, error) {
	switch {
	case len(words) == 0:
		return nil, errors.New("no next hop")
	case len(words) == 1 && slices.Contains([]string{"blackhole", "unreachable", "prohibit"}, words[0]):
		return []source.NextHop{{Label: words[0]}}, nil
	case len(words) == 1:
		id, err := parseID(words[0])
		return []source.NextHop{{ID: id}}, err
	case len(words)%2 != 0:
		return nil, fmt.Errorf("%q has no value", words[len(words)-1])
	}
	var paths []source.NextHop
	for i := 0; i < len(words); i += 2 {
		word, value := words[i], words[i+1]
		// A path begins with its gateway, or with its interface if it has none.
		if word == "via" || word == "dev" && (i == 0 || paths[len(paths)-1].Interface != "") {
			paths = append(paths, source.NextHop{})
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("%q before a gateway or an interface", word)
		}
		if err := setField(&paths[len(paths)-1], word, value); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

func parseID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%q is no id of a next hop", text)
	}
	return uint32(id), nil
}

func setField(path *source.NextHop, field, value string) (err error) {
	switch field {
	case "via", "gateway":
		if path.Gateway, err = netip.ParseAddr(value); err != nil {
			return fmt.Errorf("%q is no gateway", value)
		}
	case "dev", "interface":
		path.Interface = value
	case "weight":
		weight, err := strconv.ParseUint(value, 10, 32)
		if err != nil || weight == 0 {
			return fmt.Errorf("%q is no weight", value)
		}
		path.Weight = uint32(weight)
	case "label":
		path.Label = value
	case "id":
		path.ID, err = parseID(value)
		return err
	case "as", "path", "community", "extended", "local_pref", "med", "tag":
		path.Attributes, err = addAttribute(path.Attributes, field, value)
		return err
	default:
		return fmt.Errorf("%q is not known", field)
	}
	return nil
}

// Ends a row that is too long: one quote makes a row of the rest of a file.
type limited struct {
	from io.Reader
	left int
}

func (l *limited) Read(into []byte) (int, error) {
	if l.left == 0 {
		return 0, fmt.Errorf("a row of more than %d bytes", maxLine)
	}
	n, err := l.from.Read(into[:min(len(into), l.left)])
	l.left -= n
	return n, err
}

func parseCSV(ctx context.Context, text io.Reader, maxRoutes int) ([]source.Route, error) {
	var routes []source.Route
	places := map[netip.Prefix]int{}
	row := &limited{text, maxLine}
	rows := csv.NewReader(row)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf(" %w", err)
	}
	header = slices.Clone(header)
	for ctx.Err() == nil {
		row.left = maxLine
		fields, err := rows.Read()
		if err == io.EOF {
			return routes, nil
		} else if err != nil {
			return nil, fmt.Errorf(" %w", err)
		}
		line, _ := rows.FieldPos(0)
		var prefix netip.Prefix
		var path source.NextHop
		for i, field := range header {
			if field == "prefix" {
				prefix, err = parsePrefix(fields[i])
			} else if fields[i] != "" {
				err = setField(&path, field, fields[i])
			}
			if err != nil {
				return nil, fmt.Errorf("%d: %w", line, err)
			}
		}
		place, known := places[prefix]
		if !known {
			if len(routes) == maxRoutes {
				return nil, fmt.Errorf("%d: more than %d routes (max_routes)", line, maxRoutes)
			}
			place = len(routes)
			places[prefix] = place
			routes = append(routes, source.Route{Prefix: prefix})
		}
		if len(routes[place].Paths) == maxPaths {
			return nil, fmt.Errorf("%d: more than %d next hops of %s", line, maxPaths, prefix)
		}
		routes[place].Paths = append(routes[place].Paths, path)
	}
	return nil, ctx.Err()
}
