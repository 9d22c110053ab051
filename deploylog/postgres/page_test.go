package postgres_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// A long log is read in parts, each as far as a page is likely to be filled, with whatever is
// selected of it.
func TestNothingOfALongLogIsLeftOut(t *testing.T) {
	t.Parallel()
	const long, most = 20_000, 5000 // in one append
	l := open(t, server.URL("long"))
	var all []deploylog.Event
	for n := 0; n < long; n += most {
		some := make([]deploylog.Event, most)
		for i := range some {
			some[i] = event(fmt.Sprint(n), fmt.Sprint(i))
			switch at := n + i; {
			case at == 5 || at == long/2 || at == long-1:
				some[i].Name = "host-seldom"
			case at < most && at%2 == 0 || at > long-most:
				some[i].Target = deploylog.Target("stage/" + fmt.Sprint(i))
			}
		}
		some, err := l.Append(t.Context(), some...)
		require.NoError(t, err)
		all = append(all, some...)
	}
	for name, f := range map[string]deploylog.Filter{
		"all":                           {},
		"the seldom":                    {Name: "host-seldom"},
		"what is nowhere":               {Name: "host-never"},
		"half, none, and all":           {Target: "stage/"},
		"one target":                    {Target: "host/77"},
		"one deployment":                {Deployment: "15000"},
		"a part":                        {After: 4095, Until: 18_432},
		"after all but one":             {After: long - 1},
		"after all":                     {After: long},
		"after what there cannot be":    {After: 1<<63 - 1},
		"the newest":                    {Last: 5000},
		"the newest of few":             {Last: 2, Name: "host-seldom"},
		"of one deployment, the newest": {Last: 4097, Deployment: "5000"},
	} {
		var want []int64
		for _, e := range all {
			if f.Selects(e) {
				want = append(want, e.Seq)
			}
		}
		if f.Last > 0 {
			want = want[max(0, len(want)-f.Last):]
		}
		var got []int64
		for _, e := range read(t, l, f) {
			got = append(got, e.Seq)
		}
		assert.True(t, slices.Equal(got, want), "%s: %d events are read, want %d", name, len(got), len(want))
	}
	verified(t, l, long)
}

// Whoever may write to the table may write there what no log has.
func TestASequenceNumberThatThereCannotBeIsFound(t *testing.T) {
	t.Parallel()
	l := open(t, server.URL("forged"))
	appends(t, l, event("1", "a"))
	sql(t, "forged", `INSERT INTO events SELECT 9223372036854775807, id, 'forged', target, revision, event, attempt, created_at, data, registered, hash FROM events`)
	for name, f := range map[string]deploylog.Filter{"all": {}, "one deployment": {Deployment: "forged", After: 1}} {
		got := read(t, l, f)
		assert.True(t, len(got) > 0 && got[len(got)-1].Seq == math.MaxInt64, "%s: read are %+v", name, got)
	}
	assert.ErrorIs(t, errOf(l.Verify(t.Context())), deploylog.ErrCorrupt, "verified")
}
