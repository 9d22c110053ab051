package packages_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/packages"
	"github.com/deployster-go/deployster/internal/must"
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
	assert.Equal(t, c, must.Get(packages.Decode(must.Get(c.Encode())(t)))(t))
	for text, want := range map[string]string{"": "unexpected end", "[]": "cannot unmarshal", `{"version":2}`: "use a newer one", `{"submit":{"Jobs":[{"waits":"2,1"}]}}`: "do not ascend"} {
		assert.ErrorContains(t, must.Fail(packages.Decode([]byte(text))), want)
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
		_, err = c.Encode()
		assert.NoError(t, err)
	})
}
