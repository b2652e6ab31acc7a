// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestTheHeapGrowsFreelyUpToItsRoomAndByHalfAbove(t *testing.T) {
	const room = 300
	for live, want := range map[uint64]int{0: 200, 1: 200, 99: 200, 100: 200, 150: 100, 200: 50, 250: 50, 9000: 50} {
		if got := heapPercent(live, room); got != want {
			t.Errorf("%d in use: %d%%, not %d%%", live, got, want)
		}
	}
}
