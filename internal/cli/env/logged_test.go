package env

import (
	"testing"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/runner"
)

// What a base has is taken only where it was looked at when the base was made.
func TestWhatTheBaseHasIsTakenOnlyWhereItWasLookedAt(t *testing.T) {
	definition := func(password any, includes map[string]string) *environment.Definition {
		return &environment.Definition{Task: environment.TaskSpec{Digest: "d", Vars: map[string]any{"password": password}, Includes: includes}}
	}
	none := map[string]string{}
	now := definition("new", none)
	uses := []runner.SecretUse{{Variable: "password", Path: "resources.db.config.env.PASSWORD"}}
	for name, tc := range map[string]struct {
		base  *environment.Definition
		taken bool
	}{
		"there is no base":             {nil, false},
		"it is as it was":              {definition("new", none), true},
		"its value is another":         {definition("old", none), true},
		"the manifest is another":      {definition("new", map[string]string{"other": "d"}), false},
		"a former version made it":     {definition("new", nil), false},
		"that, and the value is other": {definition("old", nil), false},
	} {
		var flags workFlags
		if err := flags.refuseLogged(uses, draft{Definition: now}, tc.base); (err == nil) != tc.taken {
			t.Errorf("%s: taken %t, %v", name, tc.taken, err)
		}
		flags.allowLogged = []string{"password"}
		if err := flags.refuseLogged(uses, draft{Definition: now}, tc.base); err != nil {
			t.Errorf("%s: allowed it is refused: %v", name, err)
		}
	}
}

// Where no host answers nothing is looked at.
func TestVariablesThatNobodyLookedAtAreNew(t *testing.T) {
	definition := func(includes map[string]string, names ...string) *environment.Definition {
		d := &environment.Definition{Task: environment.TaskSpec{Vars: map[string]any{}, Includes: includes}}
		for _, name := range names {
			d.Task.Vars[name] = "x"
		}
		return d
	}
	none := map[string]string{}
	for name, tc := range map[string]struct {
		base, now *environment.Definition
		want      bool
	}{
		"the same":                     {definition(none, "a"), definition(none, "a"), false},
		"another":                      {definition(none, "a"), definition(none, "a", "b"), true},
		"of a former version":          {definition(nil, "a"), definition(none, "a"), true},
		"of a former version, without": {definition(nil, "a"), definition(none), false},
	} {
		if got := addsVariables(tc.base, tc.now); got != tc.want {
			t.Errorf("%s: new are %t", name, got)
		}
	}
}
