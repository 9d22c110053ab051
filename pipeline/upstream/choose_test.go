package upstream_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/pipeline/upstream"
)

// released is a revision with those that it was released with: "lib 5, base 2, tools 1".
func released(text string) upstream.Input {
	var all []upstream.Release
	for part := range strings.SplitSeq(text, ", ") {
		pipeline, revision, _ := strings.Cut(part, " ")
		revision, again, _ := strings.Cut(revision, "!") // of the pipeline that had the name before
		all = append(all, upstream.Release{Pipeline: pipeline, Revision: revision, Deployment: pipeline + revision + again})
	}
	return upstream.Input{Release: all[0], Inputs: all[1:]}
}

func need(candidates ...string) (n upstream.Need) {
	for _, c := range candidates {
		n.Candidates = append(n.Candidates, released(c))
	}
	n.Pipeline = n.Candidates[0].Pipeline
	return n
}

func TestChoose(t *testing.T) {
	tests := map[string]struct {
		needs []upstream.Need
		want  string
	}{
		"one":                         {[]upstream.Need{need("config 3", "config 2")}, "config 3"},
		"nothing in common":           {[]upstream.Need{need("config 3, x 1"), need("lib 5, base 2"), need("docs 1")}, "config 3; lib 5; docs 1"},
		"the same":                    {[]upstream.Need{need("a 3, base 2"), need("b 5, base 2")}, "a 3; b 5"},
		"a diamond":                   {[]upstream.Need{need("a 3, base 2", "a 2, base 1"), need("b 5, base 1", "b 4, base 1")}, "a 2 (newer a 3: a 3 was released with base 2, and b 5 with base 1); b 5"},
		"the first chooses first":     {[]upstream.Need{need("a 3, base 2", "a 2, base 1"), need("b 5, base 1", "b 4, base 2")}, "a 3; b 4 (newer b 5: b 5 was released with base 1, and a 3 with base 2)"},
		"one leads to the other":      {[]upstream.Need{need("config 4", "config 3"), need("lib 5, config 3")}, "config 3 (newer config 4: lib 5 was released with config 3 and not with config 4); lib 5"},
		"the other leads to it":       {[]upstream.Need{need("lib 5, config 3", "lib 4, config 2"), need("config 4", "config 2")}, "lib 4 (newer lib 5: lib 5 was released with config 3 and not with config 2); config 2 (newer config 4: lib 4 was released with config 2 and not with config 4)"},
		"of itself":                   {[]upstream.Need{need("a 3, app 2"), need("b 5, app 1")}, "a 3; b 5"},
		"none":                        {[]upstream.Need{need("docs 1"), need("a 3, base 2"), need("b 5, base 1")}, "a and b do not go together: a 3 was released with base 2, and b 5 with base 1"},
		"none of a name":              {[]upstream.Need{need("a 3, base 2"), need("b 5, base 2!again")}, "a and b do not go together: a 3 was released with base 2 (deployment base2), and b 5 with base 2 (deployment base2again)"},
		"each two, and not all three": {[]upstream.Need{need("a 2, x 1, y 1", "a 1, x 2, y 2"), need("b 2, x 1, z 1", "b 1, x 2, z 2"), need("c 2, y 1, z 2", "c 1, y 2, z 1")}, "a, b, c do not go together, although any two of them do: for example, b 2 was released with z 1, and c 2 with z 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			chosen, err := upstream.Choose("app", test.needs)
			if err != nil {
				assert.Equal(t, test.want, err.Error(), "got %v\nwant %s", err, test.want)
				return
			}
			var parts []string
			for _, c := range chosen {
				text := c.String()
				if c.Newer.Revision != "" {
					text += fmt.Sprintf(" (newer %s: %s)", c.Newer, c.Why)
				}
				parts = append(parts, text)
			}
			assert.Equal(t, test.want, strings.Join(parts, "; "))
		})
	}
}

// leads is where a revision leads, without what is said of the pipeline that is released.
func leads(in upstream.Input) map[string]string {
	all := map[string]string{}
	for _, r := range append(slices.Clone(in.Inputs), in.Release) {
		if r.Pipeline != "app" {
			all[r.Pipeline] = r.Deployment
		}
	}
	return all
}

func agree(all []upstream.Input) bool {
	one := map[string]string{}
	for _, in := range all {
		for pipeline, deployment := range leads(in) {
			if other, known := one[pipeline]; known && other != deployment {
				return false
			}
			one[pipeline] = deployment
		}
	}
	return true
}

// newest goes through all combinations, the newest first.
func newest(needs []upstream.Need, before []upstream.Input) []upstream.Input {
	if len(needs) == 0 {
		if agree(before) {
			return slices.Clone(before)
		}
		return nil
	}
	for _, c := range needs[0].Candidates {
		if found := newest(needs[1:], append(slices.Clip(before), c)); found != nil {
			return found
		}
	}
	return nil
}

// What Choose finds is what is found by trying everything.
func TestChooseFindsTheNewestCombinationThatAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var needs []upstream.Need
		count := rapid.IntRange(1, 4).Draw(t, "needs")
		for i := range count {
			n := upstream.Need{Pipeline: fmt.Sprintf("p%d", i)}
			for revision := rapid.IntRange(1, 5).Draw(t, "candidates"); revision > 0; revision-- {
				text := fmt.Sprintf("%s %d", n.Pipeline, revision)
				for j := range count { // of other needs
					if j != i && rapid.IntRange(0, 9).Draw(t, "leads to a need") == 0 {
						text += fmt.Sprintf(", p%d %d", j, rapid.IntRange(1, 3).Draw(t, "revision"))
					}
				}
				for _, base := range []string{"x", "y", "z", "app"} {
					if rapid.IntRange(0, 2).Draw(t, "leads") > 0 {
						text += fmt.Sprintf(", %s %d", base, rapid.IntRange(1, 3).Draw(t, "revision"))
					}
				}
				n.Candidates = append(n.Candidates, released(text))
			}
			needs = append(needs, n)
		}
		want := newest(needs, nil)
		chosen, err := upstream.Choose("app", needs)
		if want == nil {
			impossible(t, needs, err)
			return
		}
		require.NoError(t, err, "%v agree, and there is", want)
		for i, c := range chosen {
			if !reflect.DeepEqual(c.Input, want[i]) {
				t.Fatalf("of need %d it chose %v, and the newest is %v", i, c.Input, want[i])
			}
			first := needs[i].Candidates[0]
			if older := c.Release != first.Release; older != (c.Newer == first.Release) || older != (c.Why.Pipeline != "") {
				t.Fatalf("%s is chosen, %s is the newest, and %+v is why", c, first, c.Why)
			}
			if split := c.Why; split.Pipeline != "" && (split.A != first.Release || split.OfA.Deployment == split.OfB.Deployment || split.OfA.Pipeline != split.Pipeline || split.OfB.Pipeline != split.Pipeline) {
				t.Fatalf("%+v is no reason", split)
			}
		}
	})
}

// impossible fails where what an error says of two pipelines is not so.
func impossible(t *rapid.T, needs []upstream.Need, err error) {
	var disagree *upstream.DisagreementError
	if !errors.As(err, &disagree) {
		t.Fatalf("nothing agrees, and there is %v", err)
	}
	var some []upstream.Need
	for _, n := range needs {
		if slices.Contains(disagree.Pipelines, n.Pipeline) {
			some = append(some, n)
		}
	}
	if found := newest(some, nil); len(some) < 2 || found != nil || disagree.Split.Pipeline == "" {
		t.Fatalf("%v, and %v agree", err, found)
	}
}

// Long histories are no reason to give up.
func TestChooseFindsARevisionInLongHistories(t *testing.T) {
	const revisions = 10_000
	var needs []upstream.Need
	for i := range 8 {
		n := upstream.Need{Pipeline: fmt.Sprintf("p%d", i)}
		for revision := revisions; revision > 0; revision-- {
			n.Candidates = append(n.Candidates, released(fmt.Sprintf("p%d %d, base %d, own%d %d", i, revision, revision-i, i, revision)))
		}
		needs = append(needs, n)
	}
	chosen, err := upstream.Choose("app", needs)
	require.NoError(t, err)
	assert.True(t, chosen[0].Revision == "9993" && chosen[7].Revision == "10000", "chose %s and %s", chosen[0], chosen[7])
}

// Where too much would have to be tried it says so.
func TestChooseGivesUp(t *testing.T) {
	var needs []upstream.Need
	const pipelines, colours = 12, 10 // more pipelines than colours, each two of which differ
	for i := range pipelines {
		n := upstream.Need{Pipeline: fmt.Sprintf("p%d", i)}
		for c := range colours {
			text := fmt.Sprintf("p%d %d", i, c)
			for j := range pipelines { // a pipeline for every two and colour, to which both lead if they have it
				low, high := min(i, j), max(i, j)
				if i != j {
					text += fmt.Sprintf(", pair%d-%d-%d %d", low, high, c, i)
				}
			}
			n.Candidates = append(n.Candidates, released(text))
		}
		needs = append(needs, n)
	}
	_, err := upstream.Choose("app", needs)
	assert.ErrorIs(t, err, upstream.ErrTooMany)
}
