package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/tfplugin"
	"github.com/deployster-go/deployster/resources/internal/tftest"
	"github.com/deployster-go/deployster/resources/internal/typetest"
	"github.com/deployster-go/deployster/schema"
)

const absent = `"ensure":"absent"`

func TestAResourceFromItsCreationToItsEnd(t *testing.T) {
	for _, version := range []string{"5", "6"} {
		t.Run(version, func(t *testing.T) {
			t.Setenv(tftest.Protocol, version)
			w := newWorld(t)
			a := w.ask("state", `{"name":"a","size":1,"rule":[{"port":80}]}`)
			w.want(a, "create", "create fake_thing")
			if a.state.StaleState != nil || !protocol.IsUnknown(a.state.PlannedState["id"]) || fmt.Sprint(a.state.PlannedState["size"]) != "1" {
				t.Errorf("before it is created the answer is %+v", a.state)
			}
			w.done(w.ask("create", `{"name":"a","size":1,"rule":[{"port":80}]}`))
			a = w.ask("state", `{"name":"a","size":1,"rule":[{"port":80}]}`)
			w.want(a, "", "")
			assert.True(t, a.state.State["id"] == "id-a" && a.state.State["password"] == "geheim-a", "the state is %v", a.state.State)

			// In place.
			w.want(w.ask("state", `{"name":"a","size":2,"rule":[{"port":80}]}`), "update", `update fake_thing "id-a" in place: size: 1 → 2`)
			w.done(w.ask("update", `{"name":"a","size":2,"rule":[{"port":80}]}`))
			w.want(w.ask("state", `{"name":"a","size":2,"rule":[{"port":80}]}`), "", "")

			// By replacing it.
			a = w.ask("state", `{"name":"b"}`)
			w.want(a, "destroy,create", `destroy fake_thing "id-a" to replace it: name cannot be changed in place`)
			assert.True(t, protocol.IsUnknown(a.state.PlannedState["id"]) && a.state.StaleState["id"] == "id-a",
				"before it is replaced the answer is %+v", a.state)
			w.refused(w.ask("create", `{"name":"b"}`), "there is one that is not as configured")
			w.refused(w.ask("update", `{"name":"b"}`), "can no longer be updated in place")
			w.done(w.ask("destroy", `{"name":"b"}`))
			w.done(w.ask("create", `{"name":"b"}`))
			w.want(w.ask("state", `{"name":"b"}`), "", "")

			// To its end.
			w.want(w.ask("state", `{"name":"b"}`, absent), "destroy", `destroy fake_thing "id-b"`)
			w.done(w.ask("destroy", `{"name":"b"}`, absent))
			w.done(w.ask("destroy", `{"name":"b"}`, absent)) // again
			w.want(w.ask("state", `{"name":"b"}`, absent), "", "")
			assert.True(t, w.kept == "{}" && w.things() == "", "at the end %s is kept, and there is %q", w.kept, w.things())
		})
	}
}

// What the provider identifies a resource by identifies it among the resources of that configuration of the provider.
// Providers without it are never asked: that of the tests refuses it.
func TestIdentities(t *testing.T) {
	for _, version := range []string{"5", "6"} {
		t.Setenv(tftest.Protocol, version)
		t.Setenv(tftest.Identity, "1")
		w := newWorld(t)
		config := `{"name":"a","provider":{"greeting":"hi","key":"geheim"}}`
		assert.Nil(t, w.ask("state", config).state.Identity, "it is not there")
		w.done(w.ask("create", config))
		want := object{"identity": object{"name": "a"}, "provider": object{"greeting": "hi"}}
		assert.Equal(t, want, w.ask("state", config).state.Identity)
		assert.Equal(t, want, w.ask("state", `{"name":"a","size":2,"provider":{"greeting":"hi"}}`).state.Identity, "not as configured")

		// A newer version of the provider reads what was kept.
		t.Setenv(tftest.Identity, "2")
		w.pool.close()
		w.pool = newPool(w.dir)
		assert.Equal(t, want, w.ask("state", config).state.Identity)
		assert.Contains(t, w.kept, `"identity_version":2`)
		w.kept = "{}"
		assert.Equal(t, want, w.ask("state", config, `"adopt":"id-a"`).state.Identity, "taking it over")
		require.NoError(t, os.Remove(filepath.Join(os.Getenv(tftest.World), "id-a.json")))
		assert.Nil(t, w.ask("state", config).state.Identity, "somebody removed it")
		w.done(w.ask("create", config))
		assert.Equal(t, want, w.ask("state", config).state.Identity)
		w.done(w.ask("destroy", config, absent))
	}
}

func TestWhatOthersChanged(t *testing.T) {
	w := newWorld(t)
	config := `{"name":"a","size":1}`
	w.done(w.ask("create", config))
	w.change("id-a", `"size":1`, `"size":9`)
	a := w.ask("state", config)
	w.want(a, "update", "size: 9 → 1")
	assert.Equal(t, "9", fmt.Sprint(a.state.StaleState["size"]), "the stale state")
	assert.NotContains(t, w.kept, `"size":9`, "what is not as configured is kept: %s", w.kept)
	w.done(w.ask("update", config))
	require.NoError(t, os.Remove(filepath.Join(os.Getenv(tftest.World), "id-a.json")))
	w.want(w.ask("state", config), "create", "")
	w.done(w.ask("create", config))
	w.want(w.ask("state", config), "", "")
}

func TestActionsThatAreRunAgain(t *testing.T) {
	w := newWorld(t)
	w.done(w.ask("create", `{"name":"a"}`))
	w.done(w.ask("create", `{"name":"a"}`))
	before := w.kept
	w.done(w.ask("update", `{"name":"a","size":3}`))
	w.kept = before // the run died before it was recorded
	w.want(w.ask("state", `{"name":"a","size":3}`), "", "")
	w.done(w.ask("update", `{"name":"a","size":3}`))
	a := w.ask("state", `{"name":"a","size":3}`)
	assert.True(t, a.state.Keep == nil, "what is known is kept again: %v", a.state.Keep)
	// Of a creation that died nothing is known.
	w.kept = "{}"
	assert.Contains(t, w.ask("state", `{"name":"a"}`, `"interrupted":true`).stderr, "made a second time", "it says")
}

func TestTakingOver(t *testing.T) {
	w := newWorld(t)
	w.done(w.ask("create", `{"name":"a","size":1}`))
	w.kept = "{}"
	w.refused(w.ask("state", `{"name":"a"}`, `"adopt":"id-b"`), "looking for id-b: there is no such thing")
	w.want(w.ask("state", `{"name":"a","size":2}`, `"adopt":"id-a"`), "update", "size: 1 → 2")
	w.done(w.ask("update", `{"name":"a","size":2}`))
	w.want(w.ask("state", `{"name":"a","size":2}`), "", "")
}

func TestSecrets(t *testing.T) {
	w := newWorld(t)
	text := must.Get(os.ReadFile(InitPath(w.dir, "fake_thing")))(t)
	var init Init
	require.NoError(t, json.Unmarshal(text, &init))
	config := must.Get(schema.CompileConfig(init.ConfigSchema))(t)
	state := must.Get(schema.CompileConfig(init.StateSchema))(t)
	got := fmt.Sprint(config.Secrets(map[string]any{"name": "a", "token": "t", "provider": map[string]any{"key": "k", "greeting": "g"}}))
	assert.True(t, got == "[[provider key] [token]]", "in configurations %s are secret", got)
	assert.Equal(t, "[[password]]", fmt.Sprint(state.Secrets(map[string]any{"name": "a", "password": "t"})), "in states")
	// What is given and never in a state stays out of what is kept.
	w.done(w.ask("create", `{"name":"a","token":"given-once"}`))
	assert.NotContains(t, w.kept, "token\":\"given-once", "it is kept: %s", w.kept)
	w.change("id-a", "given-once", "another")
	a := w.ask("state", `{"name":"a","size":4,"token":"given-once"}`)
	w.want(a, "update", "size: none → 4")
	for _, action := range a.state.Actions {
		assert.True(t, !strings.Contains(action.Description, "another") && !strings.Contains(action.Description, "given-once"),
			"a description has the secret: %s", action.Description)
	}
}

func TestConfigurationsThatAreWrong(t *testing.T) {
	w := newWorld(t)
	for config, problem := range map[string]string{
		`{"name":"a b"}`:                           "the configuration: name: a name has no spaces",
		`{"name":"a","size":"big"}`:                "config.size: a number is required",
		`{"name":"a","sise":1}`:                    "config.sise: there is no attribute or block of this name",
		`{"name":"a","id":"x"}`:                    "config.id: the provider says what it is",
		`{"name":"a","rule":[{"prt":1}]}`:          "config.rule[0].prt: there is no attribute",
		`{"name":"a","rule":"x"}`:                  "config.rule: a list is needed",
		`{"name":"a","tags":["x"]}`:                "config.tags: an object is needed",
		`{"name":"a","provider":{"greting":"hi"}}`: "configuring the provider: config.greting: there is no attribute",
		`{"name":"a","provider":[]}`:               "configuring the provider: config: an object is needed",
	} {
		w.refused(w.ask("state", config), problem)
	}
	a := w.ask("state", `{"name":"a","size":"7","rule":{"port":"80"}}`)
	w.want(a, "create", "")
	got := fmt.Sprint(a.state.PlannedState["size"], a.state.PlannedState["rule"])
	assert.True(t, got == "7 [map[note:<nil> port:80]]", "what Terraform converts became %s", got)
}

func TestWhatIsNotKnownYet(t *testing.T) {
	w := newWorld(t)
	a := w.ask("state", `{"name":"a","tags":{"a.b":{"$unknown":true},"c":"d"},"rule":[{"port":{"$unknown":true}}]}`)
	w.want(a, "create", "")
	tags, _ := a.state.PlannedState["tags"].(map[string]any)
	assert.True(t, protocol.IsUnknown(tags["a.b"]) && tags["c"] == "d", "the tags are planned to be %v", tags)
	w.refused(w.ask("create", `{"name":{"$unknown":true}}`), "an action needs all of it")
}

func TestDataSources(t *testing.T) {
	w := newWorld(t)
	w.done(w.ask("create", `{"name":"a","size":5}`))
	w.name = "data.fake_thing"
	a := w.ask("state", `{"id":"id-a"}`)
	w.want(a, "", "")
	assert.Equal(t, "5", fmt.Sprint(a.state.State["size"]), "the state is %v", a.state.State)
	w.refused(w.ask("state", `{"id":"id-b"}`), "reading fake_thing: id: there is no such thing")
	w.want(w.ask("state", `{"id":"id-b"}`, absent), "", "")
}

func TestProvidersThatMisbehave(t *testing.T) {
	for fault, tc := range map[string]struct{ action, problem, then string }{
		tftest.OtherPlan:         {"state", "size: the provider planned another value than is configured", ""},
		tftest.Garbage:           {"state", "is not a message", ""},
		tftest.BadValue:          {"state", "does not fit its schema", ""},
		tftest.CrashInApply:      {"create", "panic: the provider of tests crashes", ""},
		tftest.OtherAfterApply:   {"create", "size: the provider made something else than it planned", "id-a"},
		tftest.UnknownAfterApply: {"create", "something that is not known after it was applied", "id-a"},
		tftest.FailAfterCreate:   {"create", "size: the disk is full", `"tainted":true`},
		tftest.Huge:              {"create", `at most 65536 can be kept, so "id-a" is not known to the next run`, ""},
	} {
		t.Run(fault, func(t *testing.T) {
			w := newWorld(t)
			w.refused(w.ask(tc.action, `{"name":"a","fault":"`+fault+`"}`), tc.problem)
			assert.True(t, strings.Contains(w.kept, tc.then) && (tc.then != "" || w.kept == "{}"), "%s is kept, want %s", w.kept, tc.then)
		})
	}
}

// Terraform shows the same change again and again; here what was made is made.
func TestAProviderThatIsNeverSatisfied(t *testing.T) {
	w := newWorld(t)
	config := `{"name":"a","size":1,"fault":"restless"}`
	w.done(w.ask("create", config))
	a := w.ask("state", config)
	w.want(a, "", "")
	assert.Contains(t, a.stderr, "the provider would update it each time it is asked, to no effect: serial: 1 → 666", "it says")
	w.want(w.ask("state", config), "", "") // what is kept says so still
	w.want(w.ask("state", `{"name":"a","size":2,"fault":"restless"}`), "update", "size: 1 → 2")
	w.change("id-a", `"size":1`, `"size":9`)
	w.want(w.ask("state", config), "update", "size: 9 → 1")
	w.done(w.ask("update", config))
	w.want(w.ask("state", config), "", "")
}

func TestWhatWasMadeInPartIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.refused(w.ask("create", `{"name":"a","fault":"fail-after-create"}`), "the disk is full")
	w.want(w.ask("state", `{"name":"a"}`), "destroy,create", "it was not made completely")
	w.done(w.ask("destroy", `{"name":"a"}`))
	w.done(w.ask("create", `{"name":"a"}`))
	w.want(w.ask("state", `{"name":"a"}`), "", "")
}

func TestWhatWasKeptIsUnderstoodOrRefused(t *testing.T) {
	w := newWorld(t)
	for kept, problem := range map[string]string{
		`{"x":1}`:                          "it has no state",
		`{"state":7,"schema_version":"x"}`: "reading what was kept",
		`{"state":{"nothing":1}}`:          "the state is of no version",
	} {
		w.kept = kept
		w.refused(w.ask("state", `{"name":"a"}`), problem)
	}
}

// One process serves all resources; each configuration of the provider has one.
func TestServing(t *testing.T) {
	w := newWorld(t)
	typ := must.Get(typeOf(w.pool, w.dir, w.name))(t)
	served := typetest.Served(t, typ)
	ended := make(chan string)
	for i := range 40 {
		go func() {
			var stdout, stderr bytes.Buffer
			input := fmt.Sprintf(`{"name":"x","type":"t","version":"1","config":{"name":"n%d","provider":{"greeting":"%d"}},"kept":{}}`, i, i%3)
			code := served.Run(context.Background(), []string{"create"}, strings.NewReader(input), &stdout, &stderr)
			ended <- fmt.Sprint(code, stderr.String())
		}()
	}
	for range 40 {
		assert.Equal(t, "0", <-ended)
	}
	got := strings.Count(w.things(), ",") + 1
	assert.True(t, got == 40 && len(w.pool.entries) == 3, "%d things were made by %d providers", got, len(w.pool.entries))
}

// A container is started for one request, and ends its provider.
func TestContainersOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{}, 0, `{"name":"fake_thing","config_schema":`},
		{[]string{"fake_thing"}, 0, `"keeps":true`},
		{[]string{"fake_thing", "state"}, 0, `"status":"STALE"`},
		{[]string{"fake_thing", "create"}, 0, `{"keep":{"private":`},
		{[]string{""}, 1, `error: reading what is known of "": that is not the name`},
		{[]string{"../x", "state"}, 1, "that is not the name"},
		{[]string{"fake_thin", "state"}, 1, "no such file"},
	} {
		var stdout, stderr bytes.Buffer
		input := strings.NewReader(`{"name":"mine","type":"t","version":"1","config":{"name":"a"},"kept":{}}`)
		code := Run(t.Context(), w.dir, tc.args, input, &stdout, &stderr)
		assert.True(t, code == tc.code && strings.Contains(stdout.String()+stderr.String(), tc.want),
			"%q ended with %d: %s%s", tc.args, code, stdout.String(), stderr.String())
	}
}

func TestChangesForPeople(t *testing.T) {
	inner := tfplugin.Block{Attributes: []tfplugin.Attribute{{Name: "port", Type: cty.Number}, {Name: "key", Type: cty.String, Sensitive: true}}}
	block := tfplugin.Block{
		Attributes: []tfplugin.Attribute{
			{Name: "name", Type: cty.String}, {Name: "on", Type: cty.Bool}, {Name: "tags", Type: cty.Map(cty.String)},
			{Name: "list", Type: cty.List(cty.String)}, {Name: "password", Type: cty.String, Sensitive: true},
		},
		Blocks: []tfplugin.NestedBlock{{Name: "rule", Block: inner, Nesting: tfplugin.List}},
	}
	of := func(config string) cty.Value {
		v := must.Get(decodeJSON([]byte(config)))(t)
		value := must.Get(blockValue(block, v, nil))(t)
		return value
	}
	for i := range block.Attributes {
		block.Attributes[i].Optional = true
	}
	for i := range inner.Attributes {
		inner.Attributes[i].Optional = true
	}
	many := func(value string) string {
		var tags []string
		for i := range 20 {
			tags = append(tags, fmt.Sprintf(`"t%02d":%q`, i, value))
		}
		return `{"tags":{` + strings.Join(tags, ",") + `}}`
	}
	long := strings.Repeat("x", 300)
	for _, tc := range []struct{ was, planned, want string }{
		{`{}`, `{}`, ``},
		{`{"name":"a","on":true}`, `{"name":"b","on":false}`, `name: "a" → "b", on: true → false`},
		{`{"name":"a"}`, `{}`, `name: "a" → none`},
		{`{"name":"a"}`, `{"name":{"$unknown":true}}`, `name: "a" → (known after apply)`},
		{`{"name":"a"}`, `{"name":"` + long + `"}`, `name: "a" → (a text of 300 bytes)`},
		{`{"name":"a"}`, `{"name":"a\nb"}`, `name: "a" → (a text of 3 bytes)`},
		{`{"password":"a"}`, `{"password":"b"}`, `password: another secret value`},
		{`{"tags":{"a":"1","b":"2"}}`, `{"tags":{"a":"1","c":"3"}}`, `tags["b"]: "2" → none, tags["c"]: none → "3"`},
		{`{"tags":{"` + long + `":"1"}}`, `{"tags":{"` + long + `":"2"}}`, `tags: "1" → "2"`},
		{`{"list":["a","b"]}`, `{"list":["a","c"]}`, `list[1]: "b" → "c"`},
		{`{"list":["a"]}`, `{"list":["a","c"]}`, `list: (1 elements) → (2 elements)`},
		{`{"rule":[{"port":1,"key":"a"}]}`, `{"rule":[{"port":2,"key":"b"}]}`, `rule[0].key: another secret value, rule[0].port: 1 → 2`},
		{`{"rule":[{"key":"a"}]}`, `{"rule":[]}`, `rule: another secret value`},
	} {
		got := changes(block, of(tc.was), of(tc.planned))
		assert.True(t, got == tc.want, "from %.60s to %.60s it says %s, want %s", tc.was, tc.planned, got, tc.want)
	}
	got := changes(block, of(many("a")), of(many("b")))
	assert.True(t, strings.HasSuffix(got, ", and 12 more changes"), "of many it says %s", got)
}

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

func TestWhatTerraformKnewIsGoneOnWith(t *testing.T) {
	w := newWorld(t)
	w.done(w.ask("create", `{"name":"a","size":1}`))
	all := must.Get(ReadState(strings.NewReader(aState)))(t)
	w.kept = strings.Replace(string(all[0].Kept), `"name"`, `"fault":null,"rule":[],"serial":1,"size":1,"tags":null,"token":null,"name"`, 1)
	w.want(w.ask("state", `{"name":"a","size":1}`), "", "")
	w.want(w.ask("state", `{"name":"a","size":2}`), "update", "size: 1 → 2")
}

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
