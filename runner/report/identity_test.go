package report

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatIdentitiesDifferIn(t *testing.T) {
	parts := func(pairs ...string) Identity {
		i := Identity{Parts: map[string]string{}}
		for n := 0; n < len(pairs); n += 2 {
			i.Parts[pairs[n]] = pairs[n+1]
		}
		return i
	}
	formerly := func(now, former Identity) Identity { now.Former = &former; return now }
	for name, test := range map[string]struct {
		was, now Identity
		differs  []string
	}{
		"a part":                          {parts("path", "a"), parts("path", "b"), []string{"path"}},
		"a part that one has":             {parts("path", "a"), parts("name", "b"), nil},
		"an engine with another address":  {parts(PartEngine, "ssh://h", PartEngineID, "1"), parts(PartEngine, "ssh://root@h", PartEngineID, "1"), nil},
		"another engine":                  {parts(PartEngine, "ssh://h", PartEngineID, "1"), parts(PartEngine, "ssh://i", PartEngineID, "2"), []string{PartEngine}},
		"an engine that was set up anew":  {parts(PartEngine, "ssh://h", PartEngineID, "1"), parts(PartEngine, "ssh://h", PartEngineID, "2"), nil},
		"an engine without an id before":  {parts(PartEngine, "ssh://h"), parts(PartEngine, "ssh://h", PartEngineID, "1"), nil},
		"an unknown engine before":        {parts(PartEngine, "ssh://h"), parts(PartEngine, "ssh://i", PartEngineID, "1"), []string{PartEngine}},
		"a secret":                        {parts("path", KeyedHash("k", "1")), parts("path", KeyedHash("k", "2")), []string{"path"}},
		"a secret with a key of its own":  {parts("path", KeyedHash("k", "1")), parts("path", KeyedHash("l", "2")), nil},
		"a secret as recorded formerly":   {parts("path", "sha256:1"), formerly(parts("path", KeyedHash("k", "2")), parts("path", "sha256:1")), nil},
		"another secret than formerly":    {parts("path", "sha256:0"), formerly(parts("path", KeyedHash("k", "2")), parts("path", "sha256:1")), []string{"path"}},
		"the same secret in another path": {parts("path", "sha256:1", "plug", "a"), formerly(parts("path", KeyedHash("k", "2"), "plug", "b"), parts("path", "sha256:1", "plug", "b")), []string{"path", "plug"}},
	} {
		assert.Equal(t, test.differs, test.was.Differs(test.now), name)
	}
	for name, c := range map[string]struct {
		was, now Identity
		replaced bool
	}{
		"another engine at the address": {parts(PartEngine, "ssh://h", PartEngineID, "1"), parts(PartEngine, "ssh://h", PartEngineID, "2"), true},
		"the same one":                  {parts(PartEngine, "ssh://h", PartEngineID, "1"), parts(PartEngine, "ssh://h", PartEngineID, "1"), false},
		"one that says no id now":       {parts(PartEngine, "ssh://h", PartEngineID, "1"), parts(PartEngine, "ssh://h"), false},
		"one that said none":            {parts(PartEngine, "ssh://h"), parts(PartEngine, "ssh://h", PartEngineID, "2"), false},
		"one elsewhere":                 {parts(PartEngine, "ssh://h", PartEngineID, "1"), parts(PartEngine, "ssh://i", PartEngineID, "2"), false},
	} {
		assert.Equal(t, c.replaced, c.was.Replaced(c.now), name)
	}
	now := Identity{Key: "new", Also: []string{"b"}, Former: &Identity{Key: "old"}}
	assert.True(t, now.Is(Identity{Key: "old"}) && now.Is(Identity{Key: "new"}) && !now.Is(Identity{Key: "b"}) && !now.Is(Identity{}))
	assert.True(t, now.Covers(Identity{Key: "b", Also: []string{"old"}}) && !now.Covers(Identity{Key: "b", Also: []string{"c"}}) && !now.Covers(Identity{}))
}

// A run that cannot find out the id of its engine, and one that can, know one thing.
func TestAThingIsKnownWithTheIDOfItsEngineAndWithout(t *testing.T) {
	at := func(id string, keys, byAddress []string) Identity {
		i := Identity{Parts: map[string]string{PartEngine: "ssh://h"}, ByAddress: byAddress}.WithKeys(keys)
		if i.ByAddress = byAddress; id != "" {
			i.Parts[PartEngineID] = id
		}
		return i
	}
	with := at("1", []string{"p1", "q1"}, []string{"p", "q"})
	without := at("", []string{"p", "q"}, nil)
	other := at("2", []string{"p2", "q2"}, []string{"p", "q"})
	for name, c := range map[string]struct {
		a, b Identity
		same bool
	}{
		"with and without": {with, without, true}, "without and with": {without, with, true}, "itself": {with, with, true},
		"another engine at the address": {with, other, false}, "another engine before": {other, with, false},
	} {
		assert.Equal(t, c.same, c.a.Is(c.b), name)
		assert.Equal(t, c.same, c.a.Covers(c.b), name)
		assert.Equal(t, c.same, c.a.Shares(c.b), name)
		assert.Equal(t, c.same, c.a.Without(c.b).Key == "", name)
	}
	rest := with.Without(at("", []string{"p"}, nil))
	assert.Equal(t, []string{"q1"}, rest.Keys())
	assert.Equal(t, []string{"q"}, rest.ByAddress)
	for _, a := range []Identity{with, without, other} {
		assert.Contains(t, a.Locks(), "p", "all wait for each other")
	}
	assert.Len(t, at("1", []string{"x"}, nil).Known(), 1, "its key does not depend on the engine")
}
