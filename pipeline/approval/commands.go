package approval

import "time"

// AddKey lets a key sign approvals of a pipeline.
type AddKey struct {
	Key       string   // its id
	Owner     string   // whose approvals it signs; "" is the id
	Public    string   // of Ed25519, in base64
	Stages    []string // at which it may approve, by names that people use; none are all
	NotBefore time.Time
	Expires   time.Time // the zero value is never
	ID, By    string
}

// RevokeKey has a key sign nothing any more.
type RevokeKey struct {
	Key, Reason string
	ID, By      string
}
