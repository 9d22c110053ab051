package env

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/runner"
)

// What a base has is taken only where it was looked at when the base was made.
func TestWhatTheBaseHasIsTakenOnlyWhereItWasLookedAt(t *testing.T) {
	defined := func(password any, includes map[string]string) *definition.Definition {
		return &definition.Definition{Task: definition.TaskSpec{Digest: "d", Vars: map[string]any{"password": password}, Includes: includes}}
	}
	none := map[string]string{}
	now := defined("new", none)
	uses := []runner.SecretUse{{Variable: "password", Path: "resources.db.config.env.PASSWORD"}}
	for name, tc := range map[string]struct {
		base  *definition.Definition
		taken bool
	}{
		"there is no base":             {nil, false},
		"it is as it was":              {defined("new", none), true},
		"its value is another":         {defined("old", none), true},
		"the manifest is another":      {defined("new", map[string]string{"other": "d"}), false},
		"a former version made it":     {defined("new", nil), false},
		"that, and the value is other": {defined("old", nil), false},
	} {
		var flags workFlags
		if err := flags.refuseLogged(uses, draft{Definition: now}, tc.base); (err == nil) != tc.taken {
			t.Errorf("%s: taken %t, %v", name, tc.taken, err)
		}
		flags.allowLogged = []string{"password"}
		assert.NoError(t, flags.refuseLogged(uses, draft{Definition: now}, tc.base), "%s: allowed it is refused", name)
	}
}

// Where no host answers nothing is looked at.
func TestVariablesThatNobodyLookedAtAreNew(t *testing.T) {
	defined := func(includes map[string]string, names ...string) *definition.Definition {
		d := &definition.Definition{Task: definition.TaskSpec{Vars: map[string]any{}, Includes: includes}}
		for _, name := range names {
			d.Task.Vars[name] = "x"
		}
		return d
	}
	none := map[string]string{}
	for name, tc := range map[string]struct {
		base, now *definition.Definition
		want      bool
	}{
		"the same":                     {defined(none, "a"), defined(none, "a"), false},
		"another":                      {defined(none, "a"), defined(none, "a", "b"), true},
		"of a former version":          {defined(nil, "a"), defined(none, "a"), true},
		"of a former version, without": {defined(nil, "a"), defined(none), false},
	} {
		if got := addsVariables(tc.base, tc.now); got != tc.want {
			t.Errorf("%s: new are %t", name, got)
		}
	}
}
