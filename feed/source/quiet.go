// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"log/slog"
	"time"
)

// Quiet says when a session without an end mark told all: when no routes were added for
// After, and at least MinRoutes and Share of what was there before were told again.
type Quiet struct {
	After     time.Duration
	Share     float64
	MinRoutes int
	// After this it need not be enough: for a session that says itself that it told all.
	// 0: never.
	Believe time.Duration
}

// BelieveWait is after how many times After a session that says that it told all is believed.
const BelieveWait = 30

// Check refuses times, shares and counts that make no sense.
func (q Quiet) Check() error {
	if q.After < time.Second/10 || !(q.Share >= 0 && q.Share <= 1) {
		return errors.New("quiet is at least 100ms, and share is from 0 to 1")
	}
	if q.MinRoutes < 0 {
		return errors.New("min_routes is not negative")
	}
	return nil
}

func (q Quiet) enough(told, unrepeated int) bool {
	return float64(told) >= q.Share*float64(told+unrepeated)
}

// Ended says that enough routes were told again when the end mark of a session came.
// `refused` is called if not.
func (q Quiet) Ended(sink Sink, session string, log *slog.Logger, refused func()) bool {
	told, unrepeated := sink.Progress(session)
	if q.enough(told, unrepeated) {
		return true
	}
	refused()
	log.Warn("End-of-RIB, but too few routes were told again: nothing is withdrawn",
		"session", session, "told", told, "not told again", unrepeated, "share", q.Share)
	return false
}

// Await returns true when the session told all, and false when `done` is closed before.
// `refused` is called each time that it was quiet with too few routes: a router whose
// daemons started one after the other, or that lost a peer.
func (q Quiet) Await(done <-chan struct{}, sink Sink, session string, log *slog.Logger, refused func()) bool {
	ticker := time.NewTicker(q.After)
	defer ticker.Stop()
	last, warned, began := -1, false, time.Now()
	for {
		select {
		case <-done:
			return false
		case <-ticker.C:
		}
		told, unrepeated := sink.Progress(session)
		// Some routes come anew all the time, on any router.
		quiet := last >= 0 && told-last <= told/1000
		last = told
		if !quiet || told < q.MinRoutes {
			continue
		}
		believed := q.Believe > 0 && time.Since(began) >= q.Believe
		if believed || q.enough(told, unrepeated) {
			log.Info("all is told", "session", session, "routes", told, "withdrawn", unrepeated)
			return true
		}
		refused()
		if !warned {
			log.Warn("quiet, but too few routes were told again: nothing is withdrawn",
				"session", session, "told", told, "not told again", unrepeated, "share", q.Share)
			warned = true
		}
	}
}
