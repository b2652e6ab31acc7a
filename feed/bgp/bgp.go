// SPDX-License-Identifier: Apache-2.0

// Package bgp is the source that speaks BGP, by GoBGP: its peers, policies, dynamic
// neighbours and the rest are what GoBGP's own configuration file says.
package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	bgpconfig "github.com/osrg/gobgp/v4/pkg/config"
	"github.com/osrg/gobgp/v4/pkg/config/oc"
	"github.com/osrg/gobgp/v4/pkg/server"
	"github.com/prometheus/client_golang/prometheus"

	"planb.dev/lookup/feed/bgproute"
	"planb.dev/lookup/feed/source"
)

// config is the source's section of the configuration.
type config struct {
	// GoBGP's configuration file, of a form that its name tells: .toml, .yaml, .json.
	File string `yaml:"file"`
	// Where the gobgp command connects to. Default: nowhere.
	GRPC string `yaml:"grpc"`
	// A peer that does not announce graceful restart sends no End-of-RIB. It told all
	// when no routes were added for Quiet, and Share of what was there before was told
	// again.
	Quiet time.Duration `yaml:"quiet"`
	Share float64       `yaml:"share"`

	bgproute.Attributes `yaml:",inline"`
}

type speaker struct {
	config
	source.Options

	established prometheus.Gauge
	lost        prometheus.Counter
	refused     prometheus.Counter
	nowhere     prometheus.Counter
	crowded     prometheus.Counter
}

// New makes the source. It reads GoBGP's file, and refuses what GoBGP refuses.
func New(options source.Options) (source.Source, error) {
	s := &speaker{Options: options, config: config{Quiet: 10 * time.Second, Share: 0.9}}
	if err := options.Decode(&s.config); err != nil {
		return nil, err
	}
	if err := (source.Quiet{After: s.Quiet, Share: s.Share}).Check(); err != nil {
		return nil, err
	}
	if _, err := s.read(); isAbsent(err) {
		options.Log.Warn("an unnumbered peer is not there yet", "error", err)
	} else if err != nil {
		return nil, err
	}
	s.established = options.Gauge("bgp_established_peers", "Peers whose session is established.")
	s.lost = options.Counter("bgp_lost_sessions_total", "Sessions that ended.")
	s.refused = options.Counter("bgp_sweeps_refused_total", "Times that a peer had told all or was quiet, with too few routes told again.")
	s.nowhere = options.Counter("bgp_paths_refused_total", "Paths of peers that name no next hop.")
	s.crowded = options.Counter("bgp_crowded_paths_total", bgproute.CrowdedHelp)
	if err := s.Attributes.Start("bgp", options); err != nil {
		return nil, err
	}
	return s, nil
}

// isAbsent says that GoBGP found no interface, or no neighbour on it, for a peer that the
// file names by its interface. It has no error of its own for that.
func isAbsent(err error) bool {
	var noInterface *net.OpError
	return err != nil && (errors.As(err, &noInterface) || strings.Contains(err.Error(), "link-local neighbor"))
}

func (s *speaker) read() (*oc.BgpConfigSet, error) {
	if s.File == "" {
		return nil, errors.New("file names no configuration of GoBGP")
	}
	set, err := bgpconfig.ReadConfigFile(s.File, "toml")
	if err != nil {
		return nil, fmt.Errorf("GoBGP's configuration %s: %w", s.File, err)
	}
	// GoBGP tells no best paths of these: all routes would go at End-of-RIB.
	if set.Global.RouteSelectionOptions.Config.DisableBestPathSelection {
		return nil, fmt.Errorf("GoBGP's configuration %s: disable-best-path-selection leaves no routes to tell", s.File)
	}
	// GoBGP takes what it does not know for accept-route, and would send what is not to be sent.
	policy := set.Global.ApplyPolicy.Config
	for _, of := range []oc.DefaultPolicyType{policy.DefaultImportPolicy, policy.DefaultExportPolicy} {
		if of != "" && of.Validate() != nil {
			return nil, fmt.Errorf("GoBGP's configuration %s: a default policy is accept-route or reject-route, not %q", s.File, of)
		}
	}
	for _, group := range set.PeerGroups {
		if group.RouteServer.Config.RouteServerClient {
			return nil, fmt.Errorf("GoBGP's configuration %s: peer group %s: routes of a route-server-client are in no table that is told",
				s.File, group.Config.PeerGroupName)
		}
	}
	for _, neighbor := range set.Neighbors {
		if neighbor.RouteServer.Config.RouteServerClient {
			return nil, fmt.Errorf("GoBGP's configuration %s: neighbor %s: routes of a route-server-client are in no table that is told",
				s.File, neighbor.State.NeighborAddress)
		}
	}
	for i := range set.Neighbors {
		hurry(&set.Neighbors[i].Timers.Config)
	}
	for i := range set.PeerGroups {
		hurry(&set.PeerGroups[i].Timers.Config)
	}
	if s.GRPC == "" && len(set.Vrfs) == 0 {
		leaveOut(set)
	}
	if s.GRPC == "" {
		deferSending(set)
	}
	return set, nil
}

// deferSending lets GoBGP begin as after a restart (RFC 4724) where it sends its peers no
// routes at all: what it would send it then goes through once, when all peers have told all,
// and not for each route that comes. That is a tenth of the time and a fifth of the garbage
// of a first load, most of it for a line of the log that is not written.
func deferSending(set *oc.BgpConfigSet) {
	policy := &set.Global.ApplyPolicy.Config
	if policy.DefaultExportPolicy != oc.DEFAULT_POLICY_TYPE_REJECT_ROUTE || len(policy.ExportPolicyList) > 0 {
		return
	}
	for i := range set.Neighbors {
		restart := &set.Neighbors[i].GracefulRestart
		restart.State.LocalRestarting = restart.Config.Enabled
	}
}

// leaveOut leaves out the families that no peer has, where the file names none: GoBGP makes
// tables of all that it knows, with thousands of maps each, which the collector goes through.
func leaveOut(set *oc.BgpConfigSet) {
	if len(set.Global.AfiSafis) != len(oc.AfiSafiTypeToIntMap) {
		return
	}
	used := map[oc.AfiSafiType]bool{oc.AFI_SAFI_TYPE_IPV4_UNICAST: true, oc.AFI_SAFI_TYPE_IPV6_UNICAST: true}
	use := func(families []oc.AfiSafi) {
		for _, family := range families {
			used[family.Config.AfiSafiName] = true
		}
	}
	for _, group := range set.PeerGroups {
		use(group.AfiSafis)
	}
	for _, neighbor := range set.Neighbors {
		use(neighbor.AfiSafis)
	}
	set.Global.AfiSafis = slices.DeleteFunc(set.Global.AfiSafis, func(family oc.AfiSafi) bool {
		return !used[family.Config.AfiSafiName]
	})
}

// hurry lets sessions come up within seconds where the file leaves GoBGP's defaults: both
// sides wait out the same half minute otherwise.
func hurry(timers *oc.TimersConfig) {
	const seconds = 5
	if timers.ConnectRetry == 0 || timers.ConnectRetry == oc.DEFAULT_CONNECT_RETRY {
		timers.ConnectRetry = seconds
	}
	if timers.IdleHoldTimeAfterReset == 0 || timers.IdleHoldTimeAfterReset == oc.DEFAULT_IDLE_HOLDTIME_AFTER_RESET {
		timers.IdleHoldTimeAfterReset = seconds
	}
}

// Run is a BGP speaker until ctx ends.
func (s *speaker) Run(ctx context.Context, sink source.Sink) error {
	set, err := s.read()
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	options := []server.ServerOption{server.LoggerOption(s.Log, level)}
	if s.GRPC != "" {
		options = append(options, server.GrpcListenAddress(s.GRPC))
	}
	gobgp := server.NewBgpServer(options...)
	go gobgp.Serve()
	w := newWatch(s, sink, set)
	w.hasPeer = func(address netip.Addr) (has bool) {
		err := gobgp.ListPeer(ctx, &api.ListPeerRequest{Address: address.String()}, func(*api.Peer) { has = true })
		return has || err != nil
	}
	program := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		// What is said when GoBGP stops is no loss of sessions. It withdraws route by route
		// inside itself: the end of the program does not wait for that.
		w.stop()
		if program.Err() == nil {
			gobgp.Stop()
		} else {
			go gobgp.Stop()
		}
	}()
	// One watch: events are in order only within one.
	err = gobgp.WatchEvent(ctx, server.WatchEventMessageCallbacks{
		OnBestPath:   func(paths []*apiutil.Path, _ time.Time) { w.best(paths) },
		OnPathUpdate: func(paths []*apiutil.Path, _ time.Time) { w.dropped(paths) },
		OnPathEor:    func(path *apiutil.Path, _ time.Time) { w.endOfRIB(path.PeerAddress, path.Family) },
		OnPeerUpdate: func(event *apiutil.WatchEventMessage_PeerEvent, _ time.Time) { w.peerEvent(event) },
	}, server.WatchBestPath(false), server.WatchAdjInWithdraw(), server.WatchEor(false), server.WatchPeer())
	if err != nil {
		return err
	}
	if _, err := bgpconfig.InitialConfig(ctx, gobgp, set, false); err != nil {
		return fmt.Errorf("GoBGP: %w", err)
	}
	<-ctx.Done()
	return nil
}
