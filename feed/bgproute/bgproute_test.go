// SPDX-License-Identifier: Apache-2.0

package bgproute

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// parse has an error where GoBGP panics.
func parse(data []byte, options []*bgp.MarshallingOption) (update *bgp.BGPUpdate, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	message, err := bgp.ParseBGPMessage(data, options...)
	if err != nil {
		return nil, err
	}
	update, _ = message.Body.(*bgp.BGPUpdate)
	return update, nil
}

// names are the routes of the two families that an UPDATE names, in its order.
func names(update *bgp.BGPUpdate) (result []string) {
	add := func(what string, family bgp.Family, all []bgp.PathNLRI) {
		for _, n := range all {
			if slices.Contains(Families, family) {
				result = append(result, fmt.Sprint(what, family, n.NLRI, n.ID))
			}
		}
	}
	add("end", bgp.RF_IPv4_UC, update.WithdrawnRoutes)
	add("start", bgp.RF_IPv4_UC, update.NLRI)
	for _, attribute := range update.PathAttributes {
		switch attribute := attribute.(type) {
		case *bgp.PathAttributeMpReachNLRI:
			add("start", bgp.NewFamily(attribute.AFI, attribute.SAFI), attribute.Value)
		case *bgp.PathAttributeMpUnreachNLRI:
			add("end", bgp.NewFamily(attribute.AFI, attribute.SAFI), attribute.Value)
		}
	}
	return result
}

// Of a message that can be read whole, Named has what GoBGP reads.
func FuzzNamed(f *testing.F) {
	nlri := func(prefix string) []bgp.PathNLRI {
		n, _ := bgp.NewIPAddrPrefix(netip.MustParsePrefix(prefix))
		return []bgp.PathNLRI{{NLRI: n}}
	}
	reach, _ := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, nlri("2001:db8::/32"), netip.MustParseAddr("2001:db8::1"))
	unreach, _ := bgp.NewPathAttributeMpUnreachNLRI(bgp.RF_IPv6_UC, nlri("2001:db8:1::/48"))
	for _, message := range []*bgp.BGPMessage{
		bgp.NewBGPUpdateMessage(nlri("10.0.0.0/8"), []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0), reach, unreach}, nlri("11.0.0.0/8")),
		bgp.NewBGPKeepAliveMessage(),
	} {
		b, err := message.Serialize()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b, true)
		f.Add(b[:len(b)-1], false)
	}
	f.Fuzz(func(t *testing.T, data []byte, numbered bool) {
		var options []*bgp.MarshallingOption
		if numbered {
			options = []*bgp.MarshallingOption{{AddPath: map[bgp.Family]bgp.BGPAddPathMode{
				bgp.RF_IPv4_UC: bgp.BGP_ADD_PATH_BOTH, bgp.RF_IPv6_UC: bgp.BGP_ADD_PATH_BOTH}}}
		}
		named, err := Named(data, options...)
		if whole, wrong := parse(data, options); wrong == nil && whole != nil {
			if err != nil || !slices.Equal(names(named), names(whole)) {
				t.Errorf("%v, %v, not %v", names(named), err, names(whole))
			}
		}
	})
}
