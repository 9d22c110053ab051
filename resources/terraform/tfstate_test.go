package terraform

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

const aState = `{"version": 4, "terraform_version": "1.9.0", "serial": 7, "lineage": "x", "outputs": {}, "resources": [
	{"mode": "data", "type": "fake_thing", "name": "seen", "instances": [{"attributes": {"id": "x"}}]},
	{"mode": "managed", "type": "fake_thing", "name": "a", "provider": "p", "instances": [
		{"schema_version": 3, "attributes": {"id": "id-a", "name": "a", "password": "geheim-a"}, "sensitive_attributes": [], "private": "YXBwbGllZA=="},
		{"deposed": "abcd", "schema_version": 3, "attributes": {"id": "old"}}]},
	{"module": "module.web", "mode": "managed", "type": "fake_thing", "name": "many", "instances": [
		{"index_key": 0, "schema_version": 3, "attributes": {"id": "id-0"}},
		{"index_key": "k \"1\"", "status": "tainted", "schema_version": 2, "attributes": {"id": "id-1"}}]}
]}`

func TestStatesOfTerraform(t *testing.T) {
	all := must.Get(ReadState(strings.NewReader(aState)))(t)
	var got []string
	for _, k := range all {
		got = append(got, strings.Join([]string{k.Address, k.Resource, k.Name, k.Key, k.Path, string(k.Kept)}, " "))
	}
	want := []string{
		`fake_thing.a fake_thing a  a {"schema_version":3,"state":{"id":"id-a","name":"a","password":"geheim-a"},"private":"YXBwbGllZA=="}`,
		`module.web.fake_thing.many[0] fake_thing many 0 web.many[0] {"schema_version":3,"state":{"id":"id-0"}}`,
		`module.web.fake_thing.many["k \"1\""] fake_thing many k "1" web.many[k "1"] {"schema_version":2,"state":{"id":"id-1"},"tainted":true}`,
	}
	assert.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
}

// What is sensitive in a state, by a provider or only by a variable, is known to be secret.
func TestSecretsOfTerraform(t *testing.T) {
	for paths, want := range map[string]string{
		`[]`:   "",
		`null`: "",
		`[[{"type":"get_attr","value":"password"}],[{"type":"get_attr","value":"size"}]]`:                                               "state/password state/size",
		`[[{"type":"get_attr","value":"rule"},{"type":"index","value":{"value":1,"type":"number"}},{"type":"get_attr","value":"key"}]]`: "state/rule/1/key",
		`[[{"type":"get_attr","value":"tags"},{"type":"index","value":{"value":"a.b","type":"string"}}]]`:                               "state/tags/a.b",
		`[[{"type":"get_attr","value":"set"},{"type":"index","value":{"value":{"a":1},"type":["object",{"a":"number"}]}}]]`:             "state/set",
		`[[{"type":"get_attr","value":"list"},{"type":"index","value":{"value":1.5,"type":"number"}},{"type":"get_attr","value":"x"}]]`: "state/list",
		`[["password"]]`: "state",
		`"password"`:     "state",
		`[[]]`:           "state",
	} {
		all, err := ReadState(strings.NewReader(`{"version":4,"resources":[{"mode":"managed","type":"t","name":"n","instances":[{"attributes":{},"sensitive_attributes":` + paths + `}]}]}`))
		require.NoError(t, err)
		var got []string
		for _, path := range all[0].Secrets {
			got = append(got, strings.Join(path, "/"))
		}
		assert.Equal(t, want, strings.Join(got, " "), "%s: %v, want %s", paths, got, want)
	}
}

func TestModulesOfTerraform(t *testing.T) {
	for module, want := range map[string]string{
		"": "n", "module.web": "web.n", `module.web[0]`: "web[0].n", `module.web["a.module.b\"]"].module.db`: `web[a.module.b"]].db.n`,
	} {
		got := (stateResource{Module: module, Name: "n"}).path()
		assert.True(t, got == want, "%s: %s, want %s", module, got, want)
	}
}

// What Terraform knew goes on as if it had been kept.
func TestWhatTerraformKnewIsGoneOnWith(t *testing.T) {
	w := newWorld(t)
	w.done(w.ask("create", `{"name":"a","size":1}`))
	all := must.Get(ReadState(strings.NewReader(aState)))(t)
	w.kept = strings.Replace(string(all[0].Kept), `"name"`, `"fault":null,"rule":[],"serial":1,"size":1,"tags":null,"token":null,"name"`, 1)
	w.want(w.ask("state", `{"name":"a","size":1}`), "", "")
	w.want(w.ask("state", `{"name":"a","size":2}`), "update", "size: 1 → 2")
}

// What an old version left does not stand in the way of the rest.
func TestResourcesThatCannotBeGoneOnWith(t *testing.T) {
	for _, old := range []string{`{"attributes_flat":{"id":"secret"}}`, `{"attributes":null}`, `{"attributes":"secret"}`} {
		all, err := ReadState(strings.NewReader(`{"version":4,"resources":[
			{"mode":"managed","type":"t","name":"old","instances":[` + old + `]},
			{"mode":"managed","type":"t","name":"new","instances":[{"attributes":{"id":"x"}}]}]}`))
		if err != nil || len(all) != 2 || !strings.Contains(all[0].Unusable, "terraform apply -refresh-only") || strings.Contains(all[0].Unusable, "secret") || all[1].Unusable != "" {
			t.Errorf("%s: %+v, %v", old, all, err)
		}
	}
}

func TestStatesThatAreNone(t *testing.T) {
	for text, problem := range map[string]string{
		"":                                      "is not a state of Terraform",
		"[]":                                    "is not a state of Terraform",
		"{}":                                    "its version is 0, not 4",
		`{"version": 3}`:                        "its version is 3, not 4",
		`{"version":4,"encrypted_data":"AAAA"}`: "it is encrypted",
		`{"version":4,"resources":[{"mode":"managed","instances":[{"private":"secret?"}]}]}`: "is not a state of Terraform",
	} {
		_, err := ReadState(strings.NewReader(text))
		assert.True(t, err != nil && strings.Contains(err.Error(), problem) && !strings.Contains(err.Error(), "secret"),
			"%q gave %v, want %q", text, err, problem)
	}
}

func FuzzReadState(f *testing.F) {
	f.Add([]byte(aState))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := ReadState(strings.NewReader(string(text)))
		for _, k := range all {
			assert.False(t, err == nil && k.Unusable == "" && !json.Valid(k.Kept), "%s is kept", k.Kept)
		}
	})
}
