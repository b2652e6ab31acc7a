// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"maps"
	"time"
)

// described is a next hop or group of the server with an id of the feed's.
type described struct {
	members []uint32  // of a group
	users   int       // routes and groups that name it
	idle    time.Time // since when it has no users
}

// Notes that the server has it. Members come before their groups.
func (i *ids) describe(id uint32, members []uint32) {
	i.use(id)
	if id < i.first {
		return
	}
	i.own[id] = &described{members: members, idle: i.now()}
	for _, m := range members {
		i.count(m, 1)
	}
}

// Counts what names an id.
func (i *ids) count(id uint32, by int) {
	if d := i.own[id]; d != nil {
		if d.users += by; d.users == 0 {
			d.idle = i.now()
		}
	}
}

// Unused returns at most `limit` next hops and groups with ids of the feed's that nothing
// has named for the grace. The server has them no more, says the table from then on, until it
// is disconnected; batches that were taken before have to be there. Members of groups wait
// anew.
func (t *Table) Unused(limit int) (objects, groups []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.connected || t.options.ObjectGrace == 0 {
		return nil, nil
	}
	now, gone := t.options.Now(), map[uint32]*described{}
	for id, d := range t.ids.own {
		if d.users > 0 || now.Sub(d.idle) < t.options.ObjectGrace {
			continue
		}
		if len(gone) == limit {
			break
		}
		gone[id] = d
		if d.members == nil {
			objects = append(objects, id)
		} else {
			groups = append(groups, id)
		}
	}
	if len(gone) > 0 {
		t.ids.forget(gone)
	}
	return objects, groups
}

func (i *ids) forget(gone map[uint32]*described) {
	for id, d := range gone {
		delete(i.own, id)
		delete(i.taken, id)
		delete(i.listed, id)
		for _, m := range d.members {
			i.count(m, -1)
		}
	}
	isGone := func(id uint32) bool { return gone[id] != nil }
	maps.DeleteFunc(i.objects, func(_ string, id uint32) bool { return isGone(id) })
	maps.DeleteFunc(i.groups, func(_ string, id uint32) bool { return isGone(id) })
	maps.DeleteFunc(i.sets, func(_ pathSet, id uint32) bool { return isGone(id) })
}
