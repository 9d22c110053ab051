package plugs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/manifest"
)

func TestNoPlugIsBelowOneThatAnotherTypeMayWriteTo(t *testing.T) {
	given := func(name, typ string, mounts ...engine.Mount) Given {
		return Given{&manifest.Resource{Name: name, Type: typ}, mounts}
	}
	write, read := engine.Mount{Source: "/srv/site"}, engine.Mount{Source: "/srv/site", ReadOnly: true}
	inner := engine.Mount{Source: "/srv/site/data", ReadOnly: true}
	for name, c := range map[string]struct {
		all  []Given
		want string
	}{
		"below what another type writes to": {[]Given{given("a", "one", write), given("b", "two", inner)}, "two is given the plug /srv/site/data, which one could replace"},
		"below what its own type writes to": {[]Given{given("a", "one", write), given("b", "one", inner)}, ""},
		"below what is only read":           {[]Given{given("a", "one", read), given("b", "two", inner)}, ""},
		"the same":                          {[]Given{given("a", "one", write), given("b", "two", read)}, ""},
		"beside it":                         {[]Given{given("a", "one", write), given("b", "two", engine.Mount{Source: "/srv/site2"})}, ""},
		"below the root":                    {[]Given{given("a", "one", engine.Mount{Source: "/"}), given("b", "two", inner)}, ""},
		"in the volume of a claim":          {[]Given{given("a", "one", engine.Mount{Source: "persistentvolumeclaim:data"}), given("b", "two", engine.Mount{Source: "persistentvolumeclaim:data/sub"})}, "it may write to persistentvolumeclaim:data"},
	} {
		writers := WritersOf(c.all)
		var problems []manifest.Problem
		for _, g := range c.all {
			problems = append(problems, writers.Nested(g)...)
		}
		if c.want == "" {
			assert.Empty(t, problems, name)
			continue
		}
		require.Len(t, problems, 1, name)
		assert.Equal(t, "resources.b", problems[0].Path)
		assert.Contains(t, problems[0].Message, c.want)
	}
}
