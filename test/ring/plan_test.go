package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

func TestEveryPackageIsTestedOnceInARing(t *testing.T) {
	packages := must.Get(list(t.Context(), []string{"../../..."}))(t)
	for _, ring := range []string{"test", "all"} {
		lanes := must.Get(plan(ring, packages, map[string]bool{"graph": true, "internal/cli": true}))(t)
		steps := map[string]int{}
		for _, lane := range lanes {
			for _, s := range lane {
				for _, p := range s.packages {
					steps[p.dir]++
				}
			}
		}
		for _, p := range packages {
			assert.Equal(t, 1, steps[p.dir], "%s in the ring %s", p.dir, ring)
		}
	}
}

func TestPackagesAreToldApartByWhatTheyUse(t *testing.T) {
	packages, err := list(t.Context(), []string{"../../graph", "../../deploylog/turn", "../../internal/cli", "../../control/gc", "../../resources/volume"})
	require.NoError(t, err)
	kinds := map[string][3]bool{} // pure, goroutines, observer
	for _, p := range packages {
		kinds[p.dir] = [3]bool{p.pure(), p.goroutines, p.observer()}
	}
	assert.Equal(t, map[string][3]bool{
		"graph":            {true, false, false},
		"deploylog/turn":   {false, true, false},
		"internal/cli":     {false, true, true},
		"control/gc":       {false, false, false}, // a database
		"resources/volume": {false, false, false}, // an engine
	}, kinds)
}

func TestChangedPackagesComeFirst(t *testing.T) {
	packages := []pkg{{dir: "a"}, {dir: "b"}, {dir: "c"}}
	lanes := must.Get(plan("check", packages, map[string]bool{"b": true}))(t)
	require.Len(t, lanes[0], 2)
	assert.Equal(t, []pkg{{dir: "b"}}, lanes[0][0].packages)
	assert.Equal(t, []pkg{{dir: "a"}, {dir: "c"}}, lanes[0][1].packages)
}

func TestANamedPackageOfAnotherRingIsRefused(t *testing.T) {
	err := run(t.Context(), []string{"check", "../../deploylog/turn"}, io.Discard)
	assert.EqualError(t, err, "package deploylog/turn is not in the ring check: use the ring test")
}

func TestTheRingCheckHasTheArchitecture(t *testing.T) {
	packages := must.Get(list(t.Context(), []string{"../../internal/architecture"}))(t)
	assert.True(t, packages[0].pure())
}

func TestAnUnknownRingIsRefused(t *testing.T) {
	_, err := plan("rest", nil, nil)
	assert.EqualError(t, err, `unknown ring "rest": check, test or all`)
}

func TestAFailureIsRepeatedByOneCommand(t *testing.T) {
	t.Setenv("RAPID_SEED", "")
	for _, tc := range []struct {
		step        step
		test, wants string
	}{
		{step{}, "TestA", `go test -count=1 -run '^TestA$' ./a/b`},
		{step{race: true}, "TestA/with_a_'quote'/x.y", `go test -count=1 -race -run '^TestA$/^with_a_'\''quote'\''$/^x\.y$' ./a/b`},
		{step{environment: []string{"DEPLOYSTER_TEST=all"}, timeout: "12h"}, "", `DEPLOYSTER_TEST=all go test -count=1 -timeout=12h ./a/b`},
	} {
		assert.Equal(t, tc.wants, tc.step.repeat("a/b", tc.test))
	}
}
