package docker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A digest is that of the name that was asked for: under another one nobody can pull it.
func TestTheDigestOfAnImageIsThatOfItsName(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	for _, c := range []struct {
		ref   string
		known []string
		want  string
	}{
		{"reg.example/a:1", []string{"reg.example/b@" + b, "reg.example/a@" + a}, a},
		{"my:1", []string{"reg.example/a@" + a}, ""},
		{"my:1", []string{"reg.example/my@" + b, "my@" + a}, a},
		{"my:1", []string{"<none>@<none>"}, ""},
		{"my@" + b, []string{"reg.example/a@" + a}, b},
		{a, []string{"reg.example/a@" + b}, ""},
	} {
		named, err := parse(c.ref)
		require.NoError(t, err)
		if got := manifestDigest(named, c.known); got != c.want {
			t.Errorf("%s, known as %v: %q, want %q", c.ref, c.known, got, c.want)
		}
	}
}
