package record

import "time"

// KeyInfo is a key that may sign approvals, in the data of the events that add and revoke it.
// Only its public half is ever known here.
type KeyInfo struct {
	ID        string    `json:"id"`
	Owner     string    `json:"owner,omitempty"`  // whose approvals it signs; "" is the id
	Public    string    `json:"public,omitempty"` // of Ed25519, in base64
	Stages    []string  `json:"stages,omitempty"` // at which it may approve; none are all
	NotBefore time.Time `json:"not_before,omitzero"`
	Expires   time.Time `json:"expires,omitzero"`
}
