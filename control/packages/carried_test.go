package packages_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/packages"
)

func TestAGroupIsCarried(t *testing.T) {
	c := packages.Carried{
		Version: 1, Files: map[string]string{"/recipes/0": "{}", "packages.yaml": "group: base\n"},
		Submit: build.Submit{
			Triggered: record.Triggered{Name: "base", FailFast: true, Carries: record.Carries{"/recipes/0": "hash"}}, Places: []record.Place{{Platform: "linux/amd64"}},
			Jobs:        []record.JobSpec{{Package: "gcc", Pass: 1, Of: 2, Inputs: "a", Waits: record.Numbers{1, 2, 5}, Uses: []record.Use{{Package: "make", Artifact: "sha256:1", Run: true}}}},
			Unbuildable: []record.Unbuildable{{Package: "zlib", Cause: "its plan is gone"}},
		},
	}
	text, err := c.Encode()
	require.NoError(t, err)
	if got, err := packages.Decode(text); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("it is %+v, %v", got, err)
	}
	for text, want := range map[string]string{"": "unexpected end", "[]": "cannot unmarshal", `{"version":2}`: "use a newer one", `{"submit":{"Jobs":[{"waits":"2,1"}]}}`: "do not ascend"} {
		_, err := packages.Decode([]byte(text))
		assert.ErrorContains(t, err, want)
	}
}

// Whatever a revision carries, it is read or refused.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"submit":{"name":"base","Jobs":[{"package":"a"}]},"files":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := packages.Decode(text)
		if err != nil {
			return
		}
		if _, err := c.Encode(); err != nil {
			t.Error(err)
		}
	})
}
