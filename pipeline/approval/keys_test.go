package approval

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/record"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func publicOf(seed byte) string {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
}

// ring is the keys of a pipeline, with its log.
type ring struct {
	*testing.T
	Keys
	seq int64
}

func (r *ring) apply(e deploylog.Event, err error) {
	if err == nil {
		err = e.Validate()
	}
	require.NoError(r, err)
	r.seq++
	e.Seq = r.seq
	r.Apply(e)
}

func (r *ring) refused(err error, code refusal.Code, want string) {
	var refused *refusal.Error
	assert.True(r, errors.As(err, &refused) && refused.Code == code && strings.Contains(err.Error(), want),
		"it is refused with %v, not %s: %s", err, code, want)
}

func TestKeysAreReplacedWhileBothAreValid(t *testing.T) {
	r := &ring{T: t}
	old := record.KeyInfo{ID: "ci-2029", Owner: "ci", Public: publicOf(1), Stages: []string{"prod"}, Expires: noon.Add(time.Hour)}
	r.apply(r.Add("pipeline/web", old, "1", "ann"))
	r.apply(r.Add("pipeline/web", record.KeyInfo{ID: "ci-2030", Owner: "ci", Public: publicOf(2), NotBefore: noon}, "2", "ann"))
	for _, id := range []string{"ci-2029", "ci-2030"} {
		key := must.Get(r.Find(id, "prod", noon))(t)
		assert.True(t, key.Identity() == "key:ci" && key.AddedBy == "ann", "key %s is %+v", id, key)
	}
	_, err := r.Find("ci-2029", "beta", noon)
	r.refused(err, NoKey, "key ci-2029 is not admitted at stage beta")
	_, err = r.Find("ci-2029", "prod", noon.Add(time.Hour))
	r.refused(err, NoKey, "it is expired")
	_, err = r.Find("ci-2030", "prod", noon.Add(-1))
	r.refused(err, NoKey, "it is not yet")
	r.apply(r.Revoke("pipeline/web", "ci-2030", "3", "bob", "lost"))
	_, err = r.Find("ci-2030", "prod", noon)
	r.refused(err, NoKey, "it is revoked")
	_, err = r.Revoke("pipeline/web", "ci-2030", "4", "bob", "")
	r.refused(err, KnownKey, "already revoked (event 3)")
	_, err = r.Revoke("pipeline/web", "none", "4", "bob", "")
	r.refused(err, UnknownKey, `there is no key "none"`)
	_, err = r.Find("", "prod", noon)
	r.refused(err, NoKey, `key "" is not known`)
	all := r.All()
	assert.True(t, len(all) == 2 && all[1].RevokedBy == "bob" && all[1].Status(noon) == "revoked", "the keys are %+v", all)
}

func TestKeysThatAreNoneAreRefused(t *testing.T) {
	r := &ring{T: t}
	r.apply(r.Add("pipeline/web", record.KeyInfo{ID: "ci", Public: publicOf(1)}, "1", "ann"))
	small := func(bytes ...byte) string { // points that everybody can sign for
		return base64.StdEncoding.EncodeToString(append(bytes, make([]byte, 32-len(bytes))...))
	}
	for name, c := range map[string]struct {
		key  record.KeyInfo
		code refusal.Code
		want string
	}{
		"no id":                 {record.KeyInfo{Public: publicOf(2)}, InvalidKey, `"" cannot be the id`},
		"an id like a person's": {record.KeyInfo{ID: "ann@host", Public: publicOf(2)}, InvalidKey, "cannot be the id"},
		"an owner of two words": {record.KeyInfo{ID: "x", Owner: "a b", Public: publicOf(2)}, InvalidKey, "cannot be the owner"},
		"no key":                {record.KeyInfo{ID: "x"}, InvalidKey, "is no public key"},
		"half a key":            {record.KeyInfo{ID: "x", Public: "AAAA"}, InvalidKey, "is no public key"},
		"all zero":              {record.KeyInfo{ID: "x", Public: small()}, InvalidKey, "anybody can sign with it"},
		"the neutral point":     {record.KeyInfo{ID: "x", Public: small(1)}, InvalidKey, "anybody can sign with it"},
		"over before it begins": {record.KeyInfo{ID: "x", Public: publicOf(2), NotBefore: noon, Expires: noon}, InvalidKey, "expire before it is valid"},
		"an id that there is":   {record.KeyInfo{ID: "ci", Public: publicOf(2)}, KnownKey, "was added before (event 1)"},
		"a key that there is":   {record.KeyInfo{ID: "x", Public: publicOf(1)}, KnownKey, "is the same as key ci (event 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Add("pipeline/web", c.key, "2", "ann")
			(&ring{T: t}).refused(err, c.code, c.want)
		})
	}
}

func TestHistoryOfKeysIsNeverRefused(t *testing.T) {
	r := &ring{T: t}
	e, err := r.Add("pipeline/web", record.KeyInfo{ID: "ci", Public: publicOf(1)}, "1", "ann")
	r.apply(e, err)
	e.Data = record.Payload{By: "eve", Key: &record.KeyInfo{ID: "ci", Public: publicOf(2)}}.Data()
	r.apply(e, nil)
	for _, data := range []string{"", "{}", "[]", `{"key":{}}`, `{"key":{"id":"other"}}`} {
		r.Apply(deploylog.Event{Name: record.KeyRevoked, Data: []byte(data)})
	}
	r.Apply(deploylog.Event{Name: record.KeyAdded, Data: []byte(`{"key":{"id":"x","public":"x"}}`)})
	key, err := r.Find("ci", "s", noon)
	assert.True(t, err == nil && key.AddedBy == "ann" && key.Public == publicOf(1), "key ci is %+v (%v)", key, err)
	key, err = r.Find("x", "s", noon)
	assert.True(t, err == nil && key.PublicKey() == nil, "key x is %+v (%v)", key, err)
}

func TestANonceServesOnce(t *testing.T) {
	r := &ring{T: t}
	r.apply(r.Add("pipeline/web", record.KeyInfo{ID: "ci", Public: publicOf(1)}, "1", "ann"))
	s := record.Signature{Key: "ci", Nonce: "n"}
	require.NoError(t, r.Admit(s, "prod", noon))
	before := r.Clone()
	r.Apply(deploylog.Event{Name: record.StageApproved, Data: record.Payload{Approval: &record.ApprovalInfo{Signature: &s}}.Data()})
	r.refused(r.Admit(s, "prod", noon), UsedNonce, "served before")
	assert.NoError(t, before.Admit(s, "prod", noon), "a copy has what came after it")
	r.Keys = r.Forget()
	r.refused(r.Admit(s, "prod", noon), NoKey, "not known")
	r.apply(r.Add("pipeline/web", record.KeyInfo{ID: "ci", Public: publicOf(1)}, "2", "ann"))
	r.refused(r.Admit(s, "prod", noon), UsedNonce, "served before")
	s.Nonce = "m"
	assert.NoError(t, r.Admit(s, "prod", noon))
}

// What was refused serves no more, though nothing was approved. That is known for as long as
// anybody could send it again, of a bounded number: of a key that has more, nothing older is taken.
func TestTheNonceOfWhatWasRefusedServesNoMore(t *testing.T) {
	r := &ring{T: t}
	for _, id := range []string{"ci", "ci-2"} {
		r.apply(r.Add("pipeline/web", record.KeyInfo{ID: id, Public: publicOf(byte(len(id)))}, id, "ann"))
	}
	now := noon
	signed := func(key, nonce string) record.Signature {
		return record.Signature{Key: key, Nonce: "a long enough " + nonce, Created: now.Unix(), Expires: now.Add(time.Minute).Unix()}
	}
	refuse := func(s record.Signature) {
		e := r.Refuse("pipeline/web", s, "d", "key:"+s.Key, "it does not wait")
		e.CreatedAt = now
		r.Apply(e)
	}
	first := signed("ci", "1")
	refuse(first)
	refuse(first)
	r.refused(r.Admit(first, "prod", now), UsedNonce, "served before")
	for _, other := range []record.Signature{signed("ci", "2"), signed("ci-2", "1")} {
		assert.NoError(t, r.Admit(other, "prod", now))
	}
	for i := range mostRefused + 50 {
		refuse(signed("ci", fmt.Sprint("many", i)))
	}
	n := len(r.nonces)
	assert.True(t, n <= mostRefused+1, "%d nonces are known", n)
	r.refused(r.Admit(signed("ci", "new"), "prod", now), UsedNonce, "were refused of late")
	assert.NoError(t, r.Admit(signed("ci-2", "new"), "prod", now))
	copied := r.Clone()
	forgotten := copied.Forget()
	now = now.Add(time.Second)
	later := signed("ci", "later ") // with a space at its end
	assert.NoError(t, r.Admit(later, "prod", now))
	older := signed("ci", "older")
	older.Created--
	refuse(signed("ci-2", "2"))
	r.refused(r.Admit(older, "prod", now), UsedNonce, "were refused of late")
	r.Use(later) // which is known for ever
	now = now.Add(refusedFor + time.Hour)
	refuse(signed("ci", "after a day"))
	if len(r.nonces) != 2 { // and what was approved
		t.Errorf("after a day %v are known", r.nonces)
	}
	assert.True(t, len(copied.nonces) == mostRefused+1 && len(forgotten.nonces) == mostRefused+1,
		"copies know %d and %d", len(copied.nonces), len(forgotten.nonces))
}

// A key that is refused every few minutes for days bars nothing that it has signed. Many keys bar each other only
// beyond what each may have.
func TestAKeyThatIsOftenRefusedBarsNothing(t *testing.T) {
	r := &ring{T: t}
	for _, id := range []string{"ci", "ci-2"} {
		r.apply(r.Add("pipeline/web", record.KeyInfo{ID: id, Public: publicOf(byte(len(id)))}, id, "ann"))
	}
	now := noon
	signed := func(key, nonce string) record.Signature {
		return record.Signature{Key: key, Nonce: "a long enough " + nonce, Created: now.Unix(), Expires: now.Add(5 * time.Minute).Unix()}
	}
	refuse := func(s record.Signature) {
		e := r.Refuse("pipeline/web", s, "d", "key:"+s.Key, "it does not wait")
		e.CreatedAt = now
		r.Apply(e)
	}
	for i := range 3 * 24 * 6 {
		refuse(signed("ci", fmt.Sprint(i)))
		now = now.Add(10 * time.Minute)
	}
	valid := signed("ci", "valid")
	refuse(signed("ci", "last"))
	assert.NoError(t, r.Admit(valid, "prod", now))
	assert.True(t, len(r.nonces) < 150, "%d nonces are known", len(r.nonces)) // of a day

	for i := range mostRefusedInAll {
		r.note(signed("ci-3", fmt.Sprint(i)), now.Add(refusedFor).Unix())
	}
	valid = signed("ci-2", "valid")
	for i := range fewestRefused {
		refuse(signed("ci-2", fmt.Sprint(i)))
		require.NoError(t, r.Admit(valid, "prod", now))
	}
	known := len(r.nonces)
	refuse(signed("ci-2", "more"))
	refuse(signed("ci-2", "still more"))
	r.refused(r.Admit(valid, "prod", now), UsedNonce, "were refused of late")
	assert.Len(t, r.nonces, known+1)
}

// A clock that is set ahead by hours, and back again, lets nothing be sent again that was refused or has served.
func TestAClockThatIsSetLetsNoSignatureServeAgain(t *testing.T) {
	for _, step := range []time.Duration{-12 * time.Hour, -time.Hour, time.Hour, 12 * time.Hour} {
		r := &ring{T: t}
		r.apply(r.Add("pipeline/web", record.KeyInfo{ID: "ci", Public: publicOf(1)}, "ci", "ann"))
		signed := func(nonce string, now time.Time) record.Signature {
			return record.Signature{Key: "ci", Nonce: "a long enough " + nonce, Created: now.Unix(), Expires: now.Add(10 * time.Minute).Unix()}
		}
		refuse := func(s record.Signature, now time.Time) {
			e := r.Refuse("pipeline/web", s, "d", "key:ci", "it does not wait")
			e.CreatedAt = now
			r.Apply(e)
		}
		first, served := signed("1", noon), signed("2", noon)
		refuse(first, noon)
		r.Use(served)
		refuse(signed("3", noon.Add(step)), noon.Add(step))
		for _, s := range []record.Signature{first, served} {
			r.refused(r.Admit(s, "prod", noon.Add(time.Minute)), UsedNonce, "served before")
		}
	}
}

// Whoever asks to be known by a signature costs the same however much was approved before.
func TestWhoMaySignIsKnownWithoutWhatWasSigned(t *testing.T) {
	var k Keys
	e := must.Get(k.Add("pipeline/web", record.KeyInfo{ID: "ci", Public: publicOf(1)}, "id", "ann"))(t)
	k.Apply(e)
	signers := k.Signers()
	for i := range 10_000 {
		k.Use(record.Signature{Key: "ci", Nonce: fmt.Sprintf("a nonce that is long %d", i)})
	}
	n := testing.AllocsPerRun(10, func() { signers = k.Signers() })
	assert.True(t, n <= 1, "%v allocations", n)
	_, err := signers.Find("ci", "approve", noon)
	assert.NoError(t, err)
	if revoked, err := k.Revoke("pipeline/web", "ci", "id", "ann", ""); err != nil {
		t.Error(err)
	} else {
		revoked.Seq = 2
		k.Apply(revoked)
	}
	assert.Error(t, must.Fail(k.Find("ci", "approve", noon)), "the key may sign though it is revoked")
	_, err = signers.Find("ci", "approve", noon)
	assert.NoError(t, err, "what was taken before has changed")
}
