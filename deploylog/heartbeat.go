package deploylog

import "time"

// Heartbeat says of a loop of a process that it is alive, and what it is at work on. It is
// for people who ask why nothing moves: who controls what is decided by locks alone, so a
// heartbeat that is missing or wrong explains less, and breaks nothing.
type Heartbeat struct {
	Kind     string    `json:"kind"` // of what it controls: pipeline
	Role     string    `json:"role"` // what people call it: scheduler
	PID      int       `json:"pid"`
	Host     string    `json:"host"`
	Serves   []string  `json:"serves"`   // what it was told to control; nil is all
	Controls []string  `json:"controls"` // what it controls
	Last     time.Time `json:"-"`        // when it was recorded the last time
}

// HeartbeatLog is a Log beside which heartbeats are kept.
type HeartbeatLog interface {
	// Heart is of one loop. It is not safe for concurrent use.
	Heart() (Heart, error)

	// Heartbeats are those of the processes that live, as they are; what is none is left out.
	Heartbeats() ([]Heartbeat, error)
}

// Heart records the heartbeat of a loop.
type Heart interface {
	Beat(h Heartbeat) error
	Stop()
}
