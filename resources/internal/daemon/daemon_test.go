package daemon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVariables(t *testing.T) {
	var v Variables
	require.NoError(t, json.Unmarshal([]byte(`{"TEXT":"a=b","N":8080,"BIG":9007199254740993,"F":1.50,"B":true,"E":"","UNKNOWN":null}`), &v))
	want := []string{"B=true", "BIG=9007199254740993", "E=", "F=1.50", "N=8080", "TEXT=a=b"}
	got := v.List()
	assert.True(t, slices.Equal(got, want), "got %q", got)
	for _, bad := range []string{`{"A":[]}`, `{"A":{}}`, `{"":"x"}`, `{"A=B":"x"}`, `["A=b"]`} {
		assert.Error(t, json.Unmarshal([]byte(bad), &v), "%s was accepted", bad)
	}
}

func TestAPlugThatIsNoSocketIsNamed(t *testing.T) {
	_, err := Connect(t.TempDir())
	assert.ErrorContains(t, err, "not a socket")
}

func TestOwner(t *testing.T) {
	const (
		nobody  = `volume "v" exists and was not made by Deployster`
		belongs = `volume "v" belongs to resource `
	)
	us := Owner{Resource: "db", Workspace: "/projects/a"}
	for name, tc := range map[string]struct {
		labels    map[string]string
		look, may string // the errors; "" is none
	}{
		"ours":                  {us.Labels(map[string]string{"x": "y"}), "", ""},
		"nobody's":              {nil, nobody, nobody},
		"of another resource":   {Owner{Resource: "cache", Workspace: "/projects/a"}.Labels(nil), belongs + "cache of /projects/a;", belongs + "cache of /projects/a;"},
		"of another workspace":  {Owner{Resource: "db", Workspace: "/projects/b"}.Labels(nil), "", belongs + "db of /projects/b;"},
		"of whatever workspace": {map[string]string{LabelManaged: "db"}, "", belongs + "db of an unknown workspace;"},
		"another in both":       {Owner{Resource: "cache", Workspace: "/projects/b"}.Labels(nil), belongs + "cache of /projects/b;", belongs + "cache of /projects/b;"},
		"a mark without a name": {map[string]string{LabelManaged: "", LabelWorkspace: "/projects/a"}, belongs, belongs},
	} {
		for what, got := range map[string]struct {
			err  error
			want string
		}{
			"looking":  {us.Recognise("volume", "v", tc.labels), tc.look},
			"changing": {us.MayChange("volume", "v", tc.labels), tc.may},
		} {
			assert.True(t, (got.err == nil) == (got.want == "") && (got.err == nil || strings.Contains(got.err.Error(), got.want)),
				"%s what is %s: got %v, want %q", what, name, got.err, got.want)
		}
		adopting := us
		adopting.Adopt = true
		assert.NoError(t, adopting.MayChange("volume", "v", tc.labels), "adopting what is %s", name)
	}
}

func TestSameLabels(t *testing.T) {
	type m = map[string]string
	for name, tc := range map[string]struct {
		got, want m
		same      bool
	}{
		"our own do not count":            {m{LabelManaged: "r", LabelSpec: "x", "a": "1"}, m{"a": "1"}, true},
		"none wanted":                     {m{LabelManaged: "r"}, nil, true},
		"wanted ones named like our own":  {m{LabelManaged: "r", "deployster.x": "1"}, m{"deployster.x": "2"}, true},
		"another value":                   {m{LabelManaged: "r", "a": "2"}, m{"a": "1"}, false},
		"missing":                         {m{LabelManaged: "r"}, m{"a": "1"}, false},
		"one too many on what is ours":    {m{LabelManaged: "r", "a": "1"}, nil, false},
		"one more on what was adopted":    {m{"a": "1", "b": "2"}, m{"b": "2"}, true},
		"missing on what was adopted":     {m{"a": "1"}, m{"b": "2"}, false},
		"no labels at all and none asked": {nil, nil, true},
	} {
		assert.Equal(t, tc.same, SameLabels(tc.got, tc.want), "%s: want %v", name, tc.same)
	}
}
