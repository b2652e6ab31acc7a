// SPDX-License-Identifier: Apache-2.0

package bgproute

import (
	"slices"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source"
)

func options(t *testing.T, kind string, localAS uint32) *Attributes {
	a := &Attributes{Attributes: kind, LocalAS: localAS}
	if err := a.Start("test", source.Options{Metrics: prometheus.NewRegistry()}); err != nil {
		t.Fatal(err)
	}
	return a
}

const (
	set      = bgp.BGP_ASPATH_ATTR_TYPE_SET
	seq      = bgp.BGP_ASPATH_ATTR_TYPE_SEQ
	confed   = bgp.BGP_ASPATH_ATTR_TYPE_CONFED_SEQ
	confeds  = bgp.BGP_ASPATH_ATTR_TYPE_CONFED_SET
	trans    = 23456 // stands for a number of four bytes
	ofFour   = 4200000000
	peer     = 65002
	anything = 65535
)

func four(kind uint8, numbers ...uint32) bgp.AsPathParamInterface {
	return bgp.NewAs4PathParam(kind, numbers)
}

func two(kind uint8, numbers ...uint16) bgp.AsPathParamInterface {
	return bgp.NewAsPathParam(kind, numbers)
}

func as4(params ...*bgp.As4PathParam) bgp.PathAttributeInterface {
	return bgp.NewPathAttributeAs4Path(params)
}

func sequence(numbers ...uint32) *planbv1.Attributes_Segment {
	return &planbv1.Attributes_Segment{Numbers: numbers}
}

func aSet(numbers ...uint32) *planbv1.Attributes_Segment {
	return &planbv1.Attributes_Segment{Set: true, Numbers: numbers}
}

func TestAPathIsWhatASesHandedOn(t *testing.T) {
	type params = []bgp.AsPathParamInterface
	type path = []*planbv1.Attributes_Segment
	for name, c := range map[string]struct {
		path   params
		as4    []*bgp.As4PathParam
		local  uint32
		want   path
		origin uint32
	}{
		"a sequence":             {path: params{four(seq, 1, 2, 2)}, want: path{sequence(1, 2, 2)}, origin: 2},
		"sequences are one":      {path: params{four(seq, 1, 2), four(seq, 3)}, want: path{sequence(1, 2, 3)}, origin: 3},
		"a set has no order":     {path: params{four(seq, 1), four(set, 3, 2, 3)}, want: path{sequence(1), aSet(2, 3)}},
		"a set of one":           {path: params{four(seq, 1), four(set, 2)}, want: path{sequence(1), aSet(2)}},
		"a set of one, twice":    {path: params{four(seq, 1), four(set, 2, 2)}, want: path{sequence(1), aSet(2)}},
		"a set inside":           {path: params{four(set, 2, 1), four(seq, 3)}, want: path{aSet(1, 2), sequence(3)}, origin: 3},
		"a confederation":        {path: params{four(confed, 9), four(confeds, 8), four(seq, 1)}, want: path{sequence(1)}, origin: 1},
		"only a confederation":   {path: params{four(confed, 9)}, want: path{sequence(peer)}, origin: peer},
		"an empty path":          {want: path{sequence(peer)}, origin: peer},
		"an empty path, local":   {local: 64500, want: path{sequence(64500)}, origin: 64500},
		"local, and a path":      {local: 64500, path: params{four(seq, 1)}, want: path{sequence(1)}, origin: 1},
		"numbers of two bytes":   {path: params{two(seq, 1, trans)}, want: path{sequence(1, trans)}, origin: trans},
		"AS4_PATH":               {path: params{two(seq, 1, trans, 3)}, as4: []*bgp.As4PathParam{bgp.NewAs4PathParam(seq, []uint32{ofFour, 3})}, want: path{sequence(1, ofFour, 3)}, origin: 3},
		"AS4_PATH of all":        {path: params{two(seq, trans, 3)}, as4: []*bgp.As4PathParam{bgp.NewAs4PathParam(seq, []uint32{ofFour, 3})}, want: path{sequence(ofFour, 3)}, origin: 3},
		"AS4_PATH, sets":         {path: params{two(seq, 1), two(set, trans, 5)}, as4: []*bgp.As4PathParam{bgp.NewAs4PathParam(set, []uint32{ofFour, 5})}, want: path{sequence(1), aSet(5, ofFour)}},
		"AS4_PATH after a set":   {path: params{two(set, 7, 6), two(seq, trans)}, as4: []*bgp.As4PathParam{bgp.NewAs4PathParam(seq, []uint32{ofFour})}, want: path{aSet(6, 7), sequence(ofFour)}, origin: ofFour},
		"AS4_PATH, confederated": {path: params{two(confed, 9), two(seq, trans)}, as4: []*bgp.As4PathParam{bgp.NewAs4PathParam(seq, []uint32{ofFour})}, want: path{sequence(ofFour)}, origin: ofFour},
		"AS4_PATH is too long":   {path: params{two(seq, trans)}, as4: []*bgp.As4PathParam{bgp.NewAs4PathParam(seq, []uint32{1, ofFour})}, want: path{sequence(trans)}, origin: trans},
		"AS4_PATH of no use":     {path: params{four(seq, 1, 2)}, as4: []*bgp.As4PathParam{bgp.NewAs4PathParam(seq, []uint32{9})}, want: path{sequence(1, 2)}, origin: 2},
	} {
		attributes := []bgp.PathAttributeInterface{as4(c.as4...), bgp.NewPathAttributeAsPath(c.path), bgp.NewPathAttributeMultiExitDisc(anything)}
		want := &planbv1.Attributes{OriginAs: c.origin, AsPath: c.want, Med: proto.Uint32(anything)}
		for range 2 { // GoBGP's attributes are shared, and stay as they are
			if got := options(t, full, c.local).Of(attributes, peer).Decode(); !proto.Equal(got, want) {
				t.Errorf("%s: %v, not %v", name, got, want)
			}
		}
		want = &planbv1.Attributes{OriginAs: c.origin}
		got := options(t, originOnly, c.local).Of(attributes, peer)
		if c.origin == 0 && got != "" || c.origin != 0 && !proto.Equal(got.Decode(), want) {
			t.Errorf("%s: origin %v, not %v", name, got.Decode(), want)
		}
		if got := options(t, "", c.local).Of(attributes, peer); got != "" {
			t.Errorf("%s: gateway has %v", name, got.Decode())
		}
	}
}

func TestEqualAttributesInAnyOrderAreOne(t *testing.T) {
	large := []*bgp.LargeCommunity{{ASN: 1, LocalData1: 2, LocalData2: 3}, {ASN: 1, LocalData1: 2, LocalData2: 2}}
	extended := []bgp.ExtendedCommunityInterface{bgp.NewTwoOctetAsSpecificExtended(bgp.EC_SUBTYPE_ROUTE_TARGET, 64500, 7, true),
		bgp.NewOpaqueExtended(true, []byte{1, 2, 3, 4, 5, 6, 7})}
	a := options(t, full, 0)
	of := func(communities ...uint32) string {
		slices.Reverse(large)
		slices.Reverse(extended)
		return string(a.Of([]bgp.PathAttributeInterface{bgp.NewPathAttributeCommunities(communities), bgp.NewPathAttributeLargeCommunities(large),
			bgp.NewPathAttributeExtendedCommunities(extended), bgp.NewPathAttributeLocalPref(100)}, peer))
	}
	got := a.Of([]bgp.PathAttributeInterface{bgp.NewPathAttributeCommunities([]uint32{5, 4, 5}), bgp.NewPathAttributeLargeCommunities(large),
		bgp.NewPathAttributeExtendedCommunities(extended), bgp.NewPathAttributeLocalPref(100)}, peer)
	want := &planbv1.Attributes{OriginAs: peer, AsPath: []*planbv1.Attributes_Segment{sequence(peer)}, Communities: []uint32{4, 5},
		ExtendedCommunities: []uint64{0x0002fbf400000007, 0x0301020304050607}, LocalPreference: proto.Uint32(100),
		LargeCommunities: []*planbv1.Attributes_LargeCommunity{{GlobalAdministrator: 1, LocalData_1: 2, LocalData_2: 2},
			{GlobalAdministrator: 1, LocalData_1: 2, LocalData_2: 3}}}
	if !proto.Equal(got.Decode(), want) {
		t.Errorf("%v, not %v", got.Decode(), want)
	}
	if one, other := of(4, 5), of(5, 4, 4); one != other || one != string(got) {
		t.Errorf("%q, %q", one, other)
	}
	if testutil.ToFloat64(a.cut) != 0 {
		t.Error("something was cut")
	}
}

func TestWhatIsLongerThanTheServerTakesIsCutAndCounted(t *testing.T) {
	a := options(t, full, 0)
	var long []uint32
	for i := range uint32(255) {
		long = append(long, 1<<31+i)
	}
	params := []bgp.AsPathParamInterface{four(seq, 1), four(seq, long...), four(seq, 7)}
	var large []*bgp.LargeCommunity
	for i := range uint32(200) {
		large = append(large, &bgp.LargeCommunity{ASN: 1<<31 + i, LocalData1: 1 << 31, LocalData2: 1 << 31})
	}
	got := a.Of([]bgp.PathAttributeInterface{bgp.NewPathAttributeAsPath(params), bgp.NewPathAttributeCommunities(long),
		bgp.NewPathAttributeLargeCommunities(large)}, peer)
	m := got.Decode()
	if len(got) > 4096 || len(m.AsPath) != 1 || len(m.AsPath[0].Numbers) != 255 || m.AsPath[0].Numbers[0] != 1 ||
		m.OriginAs != 7 || len(m.Communities) != 128 || len(m.LargeCommunities) < 100 || testutil.ToFloat64(a.cut) != 1 {
		t.Errorf("%d bytes, %v, cut %v", len(got), m, testutil.ToFloat64(a.cut))
	}
	// Of many segments the nearest ones.
	params = nil
	for i := range uint32(20) {
		params = append(params, four(set, 2*i, 2*i+1), four(seq, i))
	}
	m = a.Of([]bgp.PathAttributeInterface{bgp.NewPathAttributeAsPath(params)}, peer).Decode()
	if len(m.AsPath) != 16 || m.AsPath[15].Numbers[0] != 7 || m.OriginAs != 19 || testutil.ToFloat64(a.cut) != 2 {
		t.Errorf("%v, cut %v", m, testutil.ToFloat64(a.cut))
	}
}
