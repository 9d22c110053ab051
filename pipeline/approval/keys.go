package approval

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Key is a key that may sign approvals of a pipeline.
type Key struct {
	record.KeyInfo
	AddedBy   string    `json:"added_by"`
	Seq       int64     `json:"seq"` // event that added it
	RevokedBy string    `json:"revoked_by,omitempty"`
	Revoked   int64     `json:"revoked,omitempty"` // event that did; 0 is none
	Since     time.Time `json:"-"`                 // of the revocation
}

// Keys are the keys of a pipeline as its log has them, with the nonces that served. The zero
// value has none.
type Keys struct {
	all    []Key
	nonces map[string]int64 // by key and nonce; see Use and Refuse
	swept  int64            // time at which those that expired were dropped last
}

// The reasons for which keys, and what they sign, are refused.
const (
	InvalidKey refusal.Code = "invalid-key"
	KnownKey   refusal.Code = "known-key"
	UnknownKey refusal.Code = "unknown-key"
	NoKey      refusal.Code = "key-not-admitted" // unknown, revoked, expired, or of another stage
	UsedNonce  refusal.Code = "nonce-used"
)

// Apply folds in an event of the pipeline.
func (k *Keys) Apply(e deploylog.Event) {
	if e.Name == record.StageApproved || e.Name == record.StageApprovalGiven {
		if info := record.ApprovalOf(e); info != nil && info.Signature != nil {
			k.Use(*info.Signature)
		}
	}
	if e.Name != record.KeyAdded && e.Name != record.KeyRevoked && e.Name != record.ApprovalRefused {
		return
	}
	p := record.Read(e.Data)
	if e.Name == record.ApprovalRefused && p.Approval != nil && p.Approval.Signature != nil {
		k.refuse(*p.Approval.Signature, e.CreatedAt)
	}
	if p.Key == nil {
		return
	}
	i := slices.IndexFunc(k.all, func(o Key) bool { return o.ID == p.Key.ID })
	switch {
	case e.Name == record.KeyAdded && i < 0:
		k.all = append(slices.Clip(k.all), Key{KeyInfo: *p.Key, AddedBy: p.By, Seq: e.Seq})
	case e.Name == record.KeyRevoked && i >= 0 && k.all[i].Revoked == 0:
		k.all = slices.Clone(k.all)
		k.all[i].Revoked, k.all[i].RevokedBy, k.all[i].Since = e.Seq, p.By, e.CreatedAt
	}
}

// Use notes that the nonce of a signature served, which it does for ever.
func (k *Keys) Use(s record.Signature) { k.note(s, 0) }

func (k *Keys) note(s record.Signature, until int64) {
	if k.nonces == nil {
		k.nonces = map[string]int64{}
	}
	k.nonces[s.Key+" "+s.Nonce] = until
}

// Nonces of what was refused are known for longer than anybody could send it again, and so many
// of each key at most: one every 18 seconds for a day. A key has fewer once all keys have more than mostRefusedInAll.
// Of a key that has more, everything that it has signed until then is refused: that is noted in place of a nonce,
// which is never so short. With nonces of 200 characters, those of a pipeline take 6 MiB at most.
const (
	refusedFor       = 24 * time.Hour // after a signature expires: a clock may be set back by hours
	mostRefused      = 4800
	mostRefusedInAll = 4 * mostRefused
	fewestRefused    = 100 // which each key may have, however many others have
	sweepEvery       = 60  // seconds
)

// refuse notes that a signature must not be taken any more, though nothing was approved by it.
func (k *Keys) refuse(s record.Signature, now time.Time) {
	const life = int64(refusedFor / time.Second)
	if since := now.Unix() - k.swept; since < 0 || since >= sweepEvery { // not for each of thousands
		k.swept = now.Unix()
		maps.DeleteFunc(k.nonces, func(name string, until int64) bool {
			if _, nonce, _ := strings.Cut(name, " "); nonce == "" { // what stands in place of a nonce says when that was
				until += life
			}
			return until > 0 && until < now.Unix()
		})
	}
	if s.Nonce == "" {
		k.note(s, max(s.Created, k.nonces[s.Key+" "]))
		return
	}
	if _, served := k.nonces[s.Key+" "+s.Nonce]; !served {
		k.note(s, s.Expires+life)
	}
}

// Refuse is the event that says that an approval was refused which a key has signed as it should
// be. Who sent it was told so: nobody can send it again when it would not be refused.
func (k *Keys) Refuse(target deploylog.Target, s record.Signature, id, by, cause string) deploylog.Event {
	if k.isFull(s.Key) {
		s.Nonce = ""
	}
	return deploylog.Event{
		Deployment: id, Target: target, Name: record.ApprovalRefused, Attempt: 1,
		Data: record.Payload{By: by, Reason: cause, Approval: &record.ApprovalInfo{Signature: &s}}.Data(),
	}
}

// isFull reports whether no more nonces of what a key has signed are kept.
func (k *Keys) isFull(key string) bool {
	own, all := 0, 0
	for name, until := range k.nonces {
		if of, nonce, _ := strings.Cut(name, " "); nonce != "" && until > 0 {
			all++
			if of == key {
				own++
			}
		}
	}
	return own >= mostRefused || all >= mostRefusedInAll && own >= fewestRefused
}

// Forget drops the keys of a pipeline that is deleted. Nonces that served stay so: a pipeline
// of the same name may come after it.
func (k *Keys) Forget() Keys { return Keys{nonces: k.nonces, swept: k.swept} }

// Clone returns a copy to which events may be applied.
func (k *Keys) Clone() Keys { return Keys{k.all, maps.Clone(k.nonces), k.swept} }

// Signers are the keys without what they have signed before: that grows for ever, and who is to be
// known by a signature need not be anybody yet. What is recorded later changes nothing of it.
func (k *Keys) Signers() *Keys { return &Keys{all: k.all} }

// All are the keys, in the order in which they were added.
func (k *Keys) All() []Key { return slices.Clone(k.all) }

// Identity is whose approvals a key signs, as it stands in the log. No person has such a name.
func (k Key) Identity() string { return "key:" + cmp.Or(k.Owner, k.ID) }

// PublicKey is the public half of a key; nil where that is no key.
func (k Key) PublicKey() ed25519.PublicKey {
	public, err := base64.StdEncoding.DecodeString(k.Public)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return nil
	}
	return public
}

// Status says whether a key may sign now.
func (k Key) Status(now time.Time) string {
	switch {
	case k.Revoked > 0:
		return "revoked"
	case now.Before(k.NotBefore):
		return "not yet"
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return "expired"
	default:
		return "valid"
	}
}

// Find is the key that may sign approvals at a stage now.
func (k *Keys) Find(id, stage string, now time.Time) (Key, error) {
	for _, key := range k.all {
		if key.ID != id {
			continue
		}
		if status := key.Status(now); status != "valid" {
			return Key{}, refusal.New(NoKey, "key %s is not admitted: it is %s", id, status)
		}
		if len(key.Stages) > 0 && !slices.Contains(key.Stages, stage) {
			return Key{}, refusal.New(NoKey, "key %s is not admitted at stage %s", id, stage)
		}
		return key, nil
	}
	return Key{}, refusal.New(NoKey, "key %.200q is not known", id)
}

// Admit refuses a signature whose key may not sign now, or whose nonce served before. It is
// asked under the lock under which the approval is recorded: a nonce serves once, whoever
// else receives it at the same time.
func (k *Keys) Admit(s record.Signature, stage string, now time.Time) error {
	if _, err := k.Find(s.Key, stage, now); err != nil {
		return err
	}
	if _, served := k.nonces[s.Key+" "+s.Nonce]; served {
		return refusal.New(UsedNonce, "the nonce of the signature by key %s served before", s.Key)
	}
	if until, barred := k.nonces[s.Key+" "]; barred && s.Created <= until {
		return refusal.New(UsedNonce, "too many approvals by key %s were refused of late, and none is taken that it signed before the last of them", s.Key)
	}
	return nil
}

var validID = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,62}[a-zA-Z0-9])?$`)

// Add is the event that adds a key, whose fields are checked.
func (k *Keys) Add(target deploylog.Target, add record.KeyInfo, id, by string) (deploylog.Event, error) {
	for _, of := range [][2]string{{"id", add.ID}, {"owner", cmp.Or(add.Owner, add.ID)}} {
		if !validID().MatchString(of[1]) {
			return deploylog.Event{}, refusal.New(InvalidKey, "%q cannot be the %s of a key: letters, digits, ., _ and - are possible, 64 of them, with a letter or digit at both ends", of[1], of[0])
		}
	}
	key := Key{KeyInfo: add}
	switch {
	case key.PublicKey() == nil:
		return deploylog.Event{}, refusal.New(InvalidKey, "key %s is no public key of Ed25519: make one with deployster pipeline key create", add.ID)
	case weak(key.PublicKey()):
		return deploylog.Event{}, refusal.New(InvalidKey, "key %s is refused: anybody can sign with it, for it has a small order; make one with deployster pipeline key create", add.ID)
	case !add.Expires.IsZero() && !add.NotBefore.Before(add.Expires):
		return deploylog.Event{}, refusal.New(InvalidKey, "key %s would expire before it is valid", add.ID)
	}
	for _, o := range k.all {
		if o.ID == add.ID {
			return deploylog.Event{}, refusal.New(KnownKey, "key %s was added before (event %d), and an id names one key for ever: take another", add.ID, o.Seq)
		}
		if o.Public == add.Public {
			return deploylog.Event{}, refusal.New(KnownKey, "key %s is the same as key %s (event %d): one key is one identity", add.ID, o.ID, o.Seq)
		}
	}
	return deploylog.Event{Deployment: id, Target: target, Name: record.KeyAdded, Attempt: 1, Data: record.Payload{By: by, Key: &add}.Data()}, nil
}

// Revoke is the event that revokes a key.
func (k *Keys) Revoke(target deploylog.Target, keyID, id, by, reason string) (deploylog.Event, error) {
	for _, o := range k.all {
		switch {
		case o.ID != keyID:
		case o.Revoked > 0:
			return deploylog.Event{}, refusal.New(KnownKey, "key %s is already revoked (event %d)", keyID, o.Revoked)
		default:
			return deploylog.Event{Deployment: id, Target: target, Name: record.KeyRevoked, Attempt: 1, Data: record.Payload{By: by, Reason: reason, Key: &record.KeyInfo{ID: keyID}}.Data()}, nil
		}
	}
	return deploylog.Event{}, refusal.New(UnknownKey, "there is no key %q: deployster pipeline key list names those there are", keyID)
}

// weak reports whether signatures of a key can be made without its private half: a point of
// small order verifies some signatures that hold nothing but the neutral point and zero.
func weak(public ed25519.PublicKey) bool {
	signature := make([]byte, ed25519.SignatureSize)
	signature[0] = 1
	for i := range 200 {
		if ed25519.Verify(public, []byte{byte(i)}, signature) {
			return true
		}
	}
	return false
}
