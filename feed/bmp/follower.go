// SPDX-License-Identifier: Apache-2.0

package bmp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/bmp"

	"planb.dev/lookup/feed/bgproute"
	"planb.dev/lookup/feed/source"
)

// follower takes the messages of one connection.
type follower struct {
	s         *station
	t         *table
	router    netip.Addr
	peers     map[peerKey]*peer
	malformed string      // the last error
	close     func()      // ends the connection
	redial    *time.Timer // calls it; nil while nothing is in doubt
}

// peerKey is what a router calls a peer within a connection. Less would not do: the
// address of a Loc-RIB is always 0, VRFs have the same addresses, and a peer may come
// back as another before its end is told.
type peerKey struct {
	kind          uint8
	distinguisher uint64
	address       netip.Addr
	as            uint32
	id            netip.Addr
}

func keyOf(h *bmp.BMPPeerHeader) peerKey {
	return peerKey{h.PeerType, h.PeerDistinguisher, h.PeerAddress, h.PeerAS, h.PeerBGPID}
}

var errTerminated = errors.New("the router ends it")

// After this a router with a peer in doubt has to tell all again.
var redialTime = time.Minute

// take takes a message. An error ends the connection.
func (f *follower) take(data []byte) error {
	f.s.messages.Inc()
	var options []*bgp.MarshallingOption
	message, err := bmp.ParseBMPMessageWithOptions(data, func(h bmp.BMPPeerHeader) []*bgp.MarshallingOption {
		if p := f.peers[keyOf(&h)]; p != nil {
			options = []*bgp.MarshallingOption{{AddPath: p.addPath, Use2ByteAS: h.PeerType != bmp.BMP_PEER_TYPE_LOCAL_RIB &&
				h.Flags&bmp.BMP_PEER_FLAG_TWO_AS != 0, ExtendedMessage: true}}
		}
		return options
	})
	// A message that failed may be there in part. Only routes have errors that leave some.
	if message == nil || err != nil && message.Header.Type != bmp.BMP_MSG_ROUTE_MONITORING {
		f.passOver(err)
		return f.unread(data)
	}
	switch body := message.Body.(type) {
	case *bmp.BMPTermination:
		return errTerminated
	case *bmp.BMPPeerUpNotification:
		f.peerUp(&message.PeerHeader, body)
	case *bmp.BMPPeerDownNotification:
		// Of that peer only.
		if p := f.peers[keyOf(&message.PeerHeader)]; p != nil {
			delete(f.peers, keyOf(&message.PeerHeader))
			f.t.lose(p)
		}
	case *bmp.BMPRouteMonitoring:
		p := f.peers[keyOf(&message.PeerHeader)]
		if p == nil || !f.s.isOfRIB(&message.PeerHeader) {
			f.s.ignored.Inc()
			return nil
		}
		f.update(p, body.BGPUpdate, err, data[bmp.BMP_HEADER_SIZE+bmp.BMP_PEER_HEADER_SIZE:], options)
	}
	return nil
}

// unread takes a message that could not be read. What it says of a peer is in doubt then.
func (f *follower) unread(data []byte) error {
	switch data[5] {
	case bmp.BMP_MSG_ROUTE_MONITORING, bmp.BMP_MSG_PEER_UP_NOTIFICATION, bmp.BMP_MSG_PEER_DOWN_NOTIFICATION:
	default:
		return nil
	}
	var header bmp.BMPPeerHeader
	if err := header.DecodeFromBytes(data[bmp.BMP_HEADER_SIZE:]); err != nil {
		return fmt.Errorf("a message of a peer that it does not name: %w", err)
	}
	if session, _, counts := f.s.session(f.router, &header); counts {
		f.doubt(session)
	}
	return nil
}

// doubt ends the peer of a session: which of its routes are true is not known, so they are
// stale from here on. Only the router can tell them again, to a connection that is new.
func (f *follower) doubt(session string) {
	f.s.doubted.Inc()
	f.s.Log.Error("a message of a peer cannot be read: its routes are stale, and are asked for again",
		"router", f.router.String(), "session", session, "after", redialTime.String())
	for key, p := range f.peers {
		if p.session == session {
			delete(f.peers, key)
			f.t.lose(p)
		}
	}
	if f.redial == nil && f.close != nil {
		f.redial = time.AfterFunc(redialTime, f.close)
	}
}

func (f *follower) passOver(err error) {
	f.s.malformed.Inc()
	if err.Error() != f.malformed {
		f.malformed = err.Error()
		f.s.Log.Warn("a message of a router is passed over", "router", f.router.String(), "error", err)
	}
}

// lose ends all peers.
func (f *follower) lose() {
	if f.redial != nil {
		f.redial.Stop()
	}
	var peers []*peer
	for _, p := range f.peers {
		peers = append(peers, p)
	}
	clear(f.peers)
	f.t.lose(peers...)
}

func (f *follower) peerUp(header *bmp.BMPPeerHeader, body *bmp.BMPPeerUpNotification) {
	session, rank, counts := f.s.session(f.router, header)
	sent, ok := body.SentOpenMsg.Body.(*bgp.BGPOpen)
	received, too := body.ReceivedOpenMsg.Body.(*bgp.BGPOpen)
	if !counts {
		f.s.ignored.Inc()
		return
	} else if !ok || !too {
		f.passOver(errors.New("a peer is up without two messages OPEN"))
		f.doubt(session)
		return
	}
	// The one that had the session before, maybe by another key.
	for key, p := range f.peers {
		if p.session == session {
			delete(f.peers, key)
			f.t.lose(p)
		}
	}
	local, remote := capabilities(sent), capabilities(received)
	p := &peer{session: session, rank: rank, as: header.PeerAS, addPath: map[bgp.Family]bgp.BGPAddPathMode{}}
	isLocRIB := header.PeerType == bmp.BMP_PEER_TYPE_LOCAL_RIB
	for _, family := range bgproute.Families {
		mine, others := addPath(local, family), addPath(remote, family)
		// The router takes numbered paths that its peer sends. A Loc-RIB has two OPENs that
		// the router made up to say so.
		if mine&bgp.BGP_ADD_PATH_RECEIVE != 0 && others&bgp.BGP_ADD_PATH_SEND != 0 || isLocRIB && mine != 0 && others != 0 {
			p.addPath[family] = bgp.BGP_ADD_PATH_RECEIVE
		}
	}
	p.multipath = f.s.Multipath || !isLocRIB
	p.pending = bgproute.Negotiated(local, remote)
	if isLocRIB && !namesFamilies(local) {
		p.pending = append([]bgp.Family(nil), bgproute.Families...)
	}
	f.peers[keyOf(header)] = p
	f.t.begin(p)
}

func capabilities(open *bgp.BGPOpen) (result []bgp.ParameterCapabilityInterface) {
	for _, parameter := range open.OptParams {
		if c, ok := parameter.(*bgp.OptionParameterCapability); ok {
			result = append(result, c.Capability...)
		}
	}
	return result
}

func namesFamilies(capabilities []bgp.ParameterCapabilityInterface) bool {
	return slices.ContainsFunc(capabilities, func(c bgp.ParameterCapabilityInterface) bool {
		_, ok := c.(*bgp.CapMultiProtocol)
		return ok
	})
}

func addPath(capabilities []bgp.ParameterCapabilityInterface, family bgp.Family) (mode bgp.BGPAddPathMode) {
	for _, c := range capabilities {
		if c, ok := c.(*bgp.CapAddPath); ok {
			for _, tuple := range c.Tuples {
				if tuple.Family == family {
					mode |= tuple.Mode
				}
			}
		}
	}
	return mode
}

// update takes routes; data is the message of BGP. By RFC 7606 an error of an attribute is
// that of the attribute, or withdraws the routes, whose names can be read; and without these
// the session is in doubt.
func (f *follower) update(p *peer, message *bgp.BGPMessage, failed error, data []byte, options []*bgp.MarshallingOption) {
	var update *bgp.BGPUpdate
	if message != nil {
		update, _ = message.Body.(*bgp.BGPUpdate)
	}
	if failed == nil && (update == nil || hasSeveral(update)) {
		failed = errors.New("routes that are no message UPDATE, or have an attribute of routes twice")
	}
	withdraw := false
	if failed != nil {
		f.passOver(failed)
		var known *bgp.MessageError
		if update == nil || !errors.As(failed, &known) || known.ErrorHandling != bgp.ERROR_HANDLING_ATTRIBUTE_DISCARD {
			var err error
			if update, err = bgproute.Named(data, options...); err != nil || hasSeveral(update) {
				f.doubt(p.session)
				return
			}
			withdraw = true
		}
	}
	if end, family := update.IsEndOfRib(); end {
		if failed == nil {
			f.t.endOfRIB(p, family)
		}
		return
	}
	// Beside MP_REACH_NLRI the next hop of the others is their own.
	var others, reached *source.NextHop
	if !withdraw {
		if len(update.NLRI) > 0 {
			others = f.way(p, slices.DeleteFunc(slices.Clone(update.PathAttributes), isReach))
		}
		if slices.ContainsFunc(update.PathAttributes, isReach) {
			reached = f.way(p, update.PathAttributes)
		}
	}
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	stale := bgproute.IsLongStale(update.PathAttributes)
	announce := func(family bgp.Family, nlris []bgp.PathNLRI, way *source.NextHop) {
		if withdraw {
			f.s.withdrawn.Add(float64(len(nlris)))
		} else if way == nil {
			f.s.nowhere.Add(float64(len(nlris)))
		}
		f.t.change(p, family, nlris, way, stale, true)
	}
	f.t.change(p, bgp.RF_IPv4_UC, update.WithdrawnRoutes, nil, false, false)
	announce(bgp.RF_IPv4_UC, update.NLRI, others)
	for _, attribute := range update.PathAttributes {
		switch attribute := attribute.(type) {
		case *bgp.PathAttributeMpUnreachNLRI:
			f.t.change(p, bgp.NewFamily(attribute.AFI, attribute.SAFI), attribute.Value, nil, false, false)
		case *bgp.PathAttributeMpReachNLRI:
			announce(bgp.NewFamily(attribute.AFI, attribute.SAFI), attribute.Value, reached)
		}
	}
	f.t.flushIfLarge()
}

// hasSeveral says that an attribute that names routes is there more than once: which one
// counts is not known.
func hasSeveral(update *bgp.BGPUpdate) bool {
	reach, unreach := 0, 0
	for _, attribute := range update.PathAttributes {
		switch attribute.(type) {
		case *bgp.PathAttributeMpReachNLRI:
			reach++
		case *bgp.PathAttributeMpUnreachNLRI:
			unreach++
		}
	}
	return reach > 1 || unreach > 1
}

func isReach(attribute bgp.PathAttributeInterface) bool {
	_, ok := attribute.(*bgp.PathAttributeMpReachNLRI)
	return ok
}

// way is where paths with the attributes go; nil if they name no next hop.
func (f *follower) way(p *peer, attributes []bgp.PathAttributeInterface) *source.NextHop {
	way := source.NextHop{Gateway: bgproute.Gateway(attributes)}
	if !way.Gateway.IsValid() || way.Gateway.IsUnspecified() {
		if f.s.RIB != locRIB {
			return nil
		}
		way = source.NextHop{Label: "local"} // the router's own
	}
	way.Attributes = f.s.Attributes.Of(attributes, p.as)
	return &way
}
