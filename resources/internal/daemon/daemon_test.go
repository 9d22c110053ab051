package daemon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestVariables(t *testing.T) {
	var v Variables
	if err := json.Unmarshal([]byte(`{"TEXT":"a=b","N":8080,"BIG":9007199254740993,"F":1.50,"B":true,"E":""}`), &v); err != nil {
		t.Fatal(err)
	}
	want := []string{"B=true", "BIG=9007199254740993", "E=", "F=1.50", "N=8080", "TEXT=a=b"}
	if got := v.List(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{`{"A":null}`, `{"A":[]}`, `{"A":{}}`, `{"":"x"}`, `{"A=B":"x"}`, `["A=b"]`} {
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestOwner(t *testing.T) {
	if err := CheckOwner("network", "n", map[string]string{LabelManaged: "r"}, false); err != nil {
		t.Error(err)
	}
	if err := CheckOwner("network", "n", nil, true); err != nil {
		t.Error(err)
	}
	if err := CheckOwner("network", "n", nil, false); err == nil || !strings.Contains(err.Error(), `network "n" exists and was not made by Deployster`) {
		t.Error(err)
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
		if SameLabels(tc.got, tc.want) != tc.same {
			t.Errorf("%s: want %v", name, tc.same)
		}
	}
}
