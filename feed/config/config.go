// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration of planb-feed: one YAML file, strictly.
package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/prometheus/client_golang/prometheus"

	"planb.dev/lookup/feed/source"
)

// A larger file is not read.
const maxFile = 1 << 20

// The most that a change may wait for others.
const maxBatchDelay = 50 * time.Millisecond

// The most that a withdrawal may wait. Until then a lookup is answered by a route that
// is gone.
const maxWithdrawDelay = time.Minute

// The least time that routes of a lost session stay. With less the feed would flush what
// the server has before a source could repeat it: a restart is a hole then.
const minStaleTime = 10 * time.Second

// Less would remove and describe again what comes and goes.
const minObjectGrace = time.Second

// The heap_mib of a configuration without one, and the most.
const (
	leastHeapMiB = 100
	maxHeapMiB   = 1 << 20
)

// Kind is a kind of source.
type Kind struct {
	New      source.New
	Distance uint8 // of sources that give none
	HeapMiB  uint  // of configurations that give none and have a source of the kind
}

// Config is the file.
type Config struct {
	Server         string        `yaml:"server"`
	Table          string        `yaml:"table"`
	CreateTable    bool          `yaml:"create_table"`
	TLS            *TLS          `yaml:"tls"`
	MetricsAddress string        `yaml:"metrics_address"`
	LogLevel       slog.Level    `yaml:"log_level"`
	BatchDelay     time.Duration `yaml:"batch_delay"`
	WithdrawDelay  time.Duration `yaml:"withdraw_delay"`
	StaleTime      time.Duration `yaml:"stale_time"`
	FirstID        uint32        `yaml:"first_id"`
	SweepShare     float64       `yaml:"sweep_share"`
	ObjectGrace    time.Duration `yaml:"object_grace"`
	// Up to here the heap grows for less work of the collector.
	HeapMiB uint     `yaml:"heap_mib"`
	Sources []Source `yaml:"sources"`
}

// TLS names files in PEM.
type TLS struct {
	CA         string `yaml:"ca"`
	Cert       string `yaml:"cert"`
	Key        string `yaml:"key"`
	ServerName string `yaml:"server_name"`
}

// Source is a source of routes.
type Source struct {
	Name      string         `yaml:"name"`
	Kind      string         `yaml:"kind"`
	Distance  *uint8         `yaml:"distance"`
	StaleTime *time.Duration `yaml:"stale_time"`
	Options   ast.Node       `yaml:"options"`

	kind Kind
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Load reads a file.
func Load(path string, kinds map[string]Kind) (*Config, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	c, err := Parse(text, kinds)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads the text of a file, with defaults for what it leaves out.
func Parse(text []byte, kinds map[string]Kind) (*Config, error) {
	c := &Config{
		Server: "unix:///run/planb/planb.sock", MetricsAddress: "127.0.0.1:9465",
		BatchDelay: 10 * time.Millisecond, WithdrawDelay: 50 * time.Millisecond,
		StaleTime: 5 * time.Minute, FirstID: 1 << 24, SweepShare: 0.5,
		ObjectGrace: time.Hour,
	}
	if err := yaml.UnmarshalWithOptions(text, c, yaml.Strict()); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(c.Sources) == 0 {
		return nil, errors.New("sources: there is none")
	}
	if c.MetricsAddress != "" {
		if _, port, err := net.SplitHostPort(c.MetricsAddress); err != nil {
			return nil, fmt.Errorf("metrics_address: %w", err)
		} else if _, err := net.LookupPort("tcp", port); err != nil {
			return nil, fmt.Errorf("metrics_address: %w", err)
		}
	}
	if c.BatchDelay < 0 || c.BatchDelay > maxBatchDelay {
		return nil, fmt.Errorf("batch_delay: %s is not in 0..%s", c.BatchDelay, maxBatchDelay)
	}
	if c.WithdrawDelay < 0 || c.WithdrawDelay > maxWithdrawDelay {
		return nil, fmt.Errorf("withdraw_delay: %s is not in 0..%s", c.WithdrawDelay, maxWithdrawDelay)
	}
	if c.StaleTime < minStaleTime {
		return nil, fmt.Errorf("stale_time: %s is less than %s", c.StaleTime, minStaleTime)
	}
	if c.FirstID < 1 || c.FirstID > 1<<31 {
		return nil, fmt.Errorf("first_id: %d is not in 1..%d", c.FirstID, 1<<31)
	}
	if !(c.SweepShare > 0 && c.SweepShare <= 1) {
		return nil, fmt.Errorf("sweep_share: %v is not above 0 and at most 1", c.SweepShare)
	}
	if c.ObjectGrace != 0 && c.ObjectGrace < minObjectGrace {
		return nil, fmt.Errorf("object_grace: %s is neither 0s nor at least %s", c.ObjectGrace, minObjectGrace)
	}
	if c.HeapMiB > maxHeapMiB {
		return nil, fmt.Errorf("heap_mib: %d is above %d", c.HeapMiB, maxHeapMiB)
	}
	heap := uint(leastHeapMiB)
	names := map[string]bool{}
	for i := range c.Sources {
		s := &c.Sources[i]
		kind, known := kinds[s.Kind]
		switch {
		case !nameForm.MatchString(s.Name):
			return nil, fmt.Errorf("sources[%d].name: %q is not 1..63 characters of [a-z0-9_-]", i, s.Name)
		case names[s.Name]:
			return nil, fmt.Errorf("sources[%d].name: there are two %q", i, s.Name)
		case !known:
			return nil, fmt.Errorf("sources[%d].kind: %q is no kind of source", i, s.Kind)
		}
		names[s.Name] = true
		s.kind = kind
		heap = max(heap, kind.HeapMiB)
		if s.Distance == nil {
			s.Distance = &kind.Distance
		}
		if s.StaleTime == nil {
			s.StaleTime = &c.StaleTime
		}
		if *s.StaleTime < minStaleTime {
			return nil, fmt.Errorf("sources[%d].stale_time: %s is less than %s", i, *s.StaleTime, minStaleTime)
		}
	}
	if c.HeapMiB == 0 {
		c.HeapMiB = heap
	}
	return c, nil
}

// New makes the source.
func (s *Source) New(log *slog.Logger, metrics prometheus.Registerer) (source.Source, error) {
	made, err := s.kind.New(source.Options{
		Name: s.Name,
		Decode: func(into any) error {
			if s.Options == nil {
				return nil
			}
			return yaml.NodeToValue(s.Options, into, yaml.Strict())
		},
		Log:     log.With("source", s.Name),
		Metrics: prometheus.WrapRegistererWith(prometheus.Labels{"source": s.Name}, metrics),
	})
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Name, err)
	}
	return made, nil
}

// Load reads the files.
func (t *TLS) Load() (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca: no certificate in %s", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("tls.cert and tls.key: one without the other")
	}
	if t.Cert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		// Read for each connection: it may have been renewed.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return c, nil
}
