package expression_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/expression"
)

func TestAnIncludeThatLeadsOutOfItsDirectoryIsNoFileThatIsAbsent(t *testing.T) {
	given := map[string]string{"conf/h1": "1", "default": "D", "known": "K", "inner": "\n{% include [\"conf/\" ~ host, \"default\"] %}"}
	e := expression.Over(func(name string) (string, error) {
		text, ok := given[name]
		if !ok {
			return "", fs.ErrNotExist
		}
		return text, nil
	})
	for _, tc := range []struct{ src, host, want, says string }{
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "h1", want: "1"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "h2", want: "D"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "", want: "D"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "h2/../h1", want: "1"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "../known", want: "K"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "../shared/x", says: `cannot include "conf/../shared/x": it is none of the files`},
		{src: `{% include "conf/" ~ host ignore missing %}`, host: "a/../../shared", says: "begin the name with the directory that it is in"},
		{src: `{% include "conf/../shared/" ~ host ignore missing %}`, host: "x", want: ""},
		{src: `{% include ["none", "a/../none", "default"] %}`, want: "D"},
		{src: `{% include "inner" %}`, host: "../shared/x", says: `inner:2:`},
		{src: `{% include host ignore missing %}`, host: "x", says: "is none of the files"},
	} {
		got, err := e.Evaluate(tc.src, map[string]any{"host": tc.host})
		switch {
		case tc.says != "" && (err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s with %q: %q, %v, want an error that says %q", tc.src, tc.host, got, err, tc.says)
		case tc.says == "" && (err != nil || got != tc.want):
			t.Errorf("%s with %q: %q, %v, want %q", tc.src, tc.host, got, err, tc.want)
		}
	}
	// In a workspace all files are there that there are.
	live := expression.New(t.TempDir())
	got, err := live.Evaluate(`{% include "conf/" ~ host ignore missing %}`, map[string]any{"host": "../shared/x"})
	assert.True(t, err == nil && got == "", "in a workspace it is %q, %v", got, err)
}

func TestANameThatClimbsBehindItsDirectoryMayBeAnyFile(t *testing.T) {
	e := expression.Over(func(string) (string, error) { return "", fs.ErrNotExist })
	for src, anywhere := range map[string]bool{
		`{% include "conf/" ~ a ~ ".txt" %}`:         false,
		`{% include "conf/../b/" ~ a ~ "/" ~ b %}`:   false,
		`{% include "conf/" ~ a ~ "/../b" %}`:        true,
		`{% include "conf/" ~ a ~ ("/.." ~ "/b") %}`: true,
	} {
		u, err := e.Examine(src)
		assert.True(t, err == nil && u.Anywhere == anywhere, "%s: %+v, %v", src, u, err)
	}
}
