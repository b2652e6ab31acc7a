// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source"
)

const maxID = 1<<32 - 2

// The most bytes of a next hop without its text, and of a member of a group, in a batch.
const (
	objectBytes = 40
	memberBytes = 16
)

// ids finds the server's id of a next hop or group by what it means. What the
// server lacks gets an id by a hash of its meaning, so that it is the same one
// also after the server and the feed have both forgotten everything.
type ids struct {
	first   uint32
	now     func() time.Time
	objects map[string]uint32   // by meaning
	groups  map[string]uint32   // by canonical set
	taken   map[uint32]struct{} // by an object, a group or a route
	sets    map[pathSet]uint32
	listed  map[uint32]string // what the objects of the server mean
	own     map[uint32]*described
}

// Begins a list of what the server has.
func (i *ids) reset() {
	*i = ids{first: i.first, now: i.now, own: map[uint32]*described{}, objects: map[string]uint32{}, groups: map[string]uint32{},
		taken: map[uint32]struct{}{}, sets: map[pathSet]uint32{}, listed: map[uint32]string{}}
}

// Takes objects, then groups of the server, by ascending id. Of two that mean the
// same the first is used.
func (i *ids) list(objects []*planbv1.NextHop, groups []*planbv1.NextHopGroup) {
	for _, object := range objects {
		i.describe(object.Id, nil)
		gateway, ok := netip.AddrFromSlice(object.Gateway)
		if !ok && len(object.Gateway) > 0 || object.Weight > 1 {
			continue
		}
		attributes, _ := source.EncodeAttributes(object.Attributes)
		meaning := meaningOf(gateway, object.Interface, object.Label, attributes)
		i.listed[object.Id] = meaning
		if _, known := i.objects[meaning]; !known {
			i.objects[meaning] = object.Id
		}
	}
	for _, group := range groups {
		i.describe(group.Id, idsOf(group))
		members := make([]member, 0, len(group.Members))
		for _, m := range group.Members {
			if meaning, known := i.listed[m.NextHopId]; known && i.objects[meaning] == m.NextHopId {
				members = append(members, member{meaning, max(m.Weight, 1)})
			}
		}
		// Not one with members that are not described.
		if len(members) != len(group.Members) || len(members) == 0 || group.Label != "" {
			continue
		}
		set := encode(members)
		if _, known := i.groups[set]; !known {
			i.groups[set] = group.Id
		}
	}
}

func idsOf(group *planbv1.NextHopGroup) []uint32 {
	members := make([]uint32, 0, len(group.Members))
	for _, m := range group.Members {
		members = append(members, m.NextHopId)
	}
	return members
}

func (i *ids) use(id uint32) { i.taken[id] = struct{}{} }

// The id of a set. What the server lacks for it is added to the batch.
func (i *ids) resolve(set pathSet, batch *Batch) uint32 {
	if id, known := i.sets[set]; known {
		return id
	}
	id := i.find(set.Value(), batch)
	i.sets[set] = id
	return id
}

func (i *ids) find(set string, batch *Batch) uint32 {
	if given, ok := strings.CutPrefix(set, givenID); ok {
		id, _ := strconv.ParseUint(given, 10, 32)
		return uint32(id)
	}
	members := decode(set)
	if len(members) == 1 {
		return i.object(members[0].meaning, batch)
	}
	if id, known := i.groups[set]; known {
		return id
	}
	group := &planbv1.NextHopGroup{}
	for _, m := range members {
		group.Members = append(group.Members,
			&planbv1.NextHopGroup_Member{NextHopId: i.object(m.meaning, batch), Weight: m.weight})
	}
	slices.SortFunc(group.Members, func(a, b *planbv1.NextHopGroup_Member) int {
		return int(int64(a.NextHopId) - int64(b.NextHopId))
	})
	group.Id = i.free(set)
	i.describe(group.Id, idsOf(group))
	i.groups[set] = group.Id
	batch.Groups = append(batch.Groups, group)
	batch.objectBytes += objectBytes + memberBytes*len(members)
	return group.Id
}

func (i *ids) object(meaning string, batch *Batch) uint32 {
	if id, known := i.objects[meaning]; known {
		return id
	}
	object := objectOf(meaning)
	object.Id = i.free(meaning)
	i.describe(object.Id, nil)
	i.objects[meaning] = object.Id
	batch.NextHops = append(batch.NextHops, object)
	batch.objectBytes += objectBytes + len(meaning)
	return object.Id
}

// An id that nothing has.
func (i *ids) free(meaning string) uint32 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(meaning))
	room := uint64(maxID-i.first) + 1
	for at := hash.Sum64(); ; at++ {
		id := i.first + uint32(at%room)
		if _, taken := i.taken[id]; !taken {
			return id
		}
	}
}
