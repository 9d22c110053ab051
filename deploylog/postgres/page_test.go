package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
)

// A long log is read in parts, each as far as a page is likely to be filled, with whatever is
// selected of it.
func TestNothingOfALongLogIsLeftOut(t *testing.T) {
	const long, most = 40_000, 10_000 // in one append
	l := open(t, server.URL("long"))
	var all []deploylog.Event
	for n := 0; n < long; n += most {
		some := make([]deploylog.Event, most)
		for i := range some {
			some[i] = event(fmt.Sprint(n), fmt.Sprint(i))
			switch at := n + i; {
			case at == 5 || at == 20_000 || at == long-1:
				some[i].Name = "host-seldom"
			case at < 10_000 && at%2 == 0 || at > 30_000:
				some[i].Target = deploylog.Target("stage/" + fmt.Sprint(i))
			}
		}
		some, err := l.Append(t.Context(), some...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	for name, f := range map[string]deploylog.Filter{
		"all":                           {},
		"the seldom":                    {Name: "host-seldom"},
		"what is nowhere":               {Name: "host-never"},
		"half, none, and all":           {Target: "stage/"},
		"one target":                    {Target: "host/77"},
		"one deployment":                {Deployment: "20000"},
		"a part":                        {After: 4095, Until: 36_864},
		"after all but one":             {After: long - 1},
		"after all":                     {After: long},
		"after what there cannot be":    {After: 1<<63 - 1},
		"the newest":                    {Last: 5000},
		"the newest of few":             {Last: 2, Name: "host-seldom"},
		"of one deployment, the newest": {Last: 4097, Deployment: "10000"},
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
		for e, err := range l.Read(t.Context(), f) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, e.Seq)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d events are read, want %d", name, len(got), len(want))
		}
	}
	if v, err := l.Verify(t.Context()); err != nil || v.Events != long {
		t.Errorf("verified are %+v, %v", v, err)
	}
}

// Whoever may write to the table may write there what no log has.
func TestASequenceNumberThatThereCannotBeIsFound(t *testing.T) {
	l := open(t, server.URL("forged"))
	if _, err := l.Append(t.Context(), event("1", "a")); err != nil {
		t.Fatal(err)
	}
	sql(t, server, "forged", `INSERT INTO events SELECT 9223372036854775807, id, 'forged', target, revision, event, attempt, created_at, data, registered, hash FROM events`)
	for name, f := range map[string]deploylog.Filter{"all": {}, "one deployment": {Deployment: "forged", After: 1}} {
		var got []int64
		for e, err := range l.Read(t.Context(), f) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, e.Seq)
		}
		if len(got) == 0 || got[len(got)-1] != math.MaxInt64 {
			t.Errorf("%s: read are %d", name, got)
		}
	}
	if _, err := l.Verify(t.Context()); !errors.Is(err, deploylog.ErrCorrupt) {
		t.Errorf("verified: %v", err)
	}
}
