package definition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/schema"
)

const daemon = `name: SomeEnvironment/Prod
type: Daemon
task:
  manifest: log-daemon.yaml
  vars:
    image: log-daemon:1
    limits: {memory: 64m}
instance_group:
  query: attribute:stack == prod
deployment:
  method: Surge
  min_healthy_percent: 100
  max_over: 1
  min_healthy_time: 0s
  healthy_deadline: 5m
  progress_deadline: 10m
  auto_rollback: false
  drift: repair
`

func logDaemon(t *testing.T) *definition.Definition {
	d := mustDefine(t, daemon)
	d.Task.Digest = "00ff"
	return d
}

func differences(before, after *definition.Definition) string {
	var all []string
	for _, d := range definition.Diff(before, after) {
		all = append(all, d.String())
	}
	return strings.Join(all, "|")
}

func TestADefinitionIsWrittenAsPeopleDo(t *testing.T) {
	assert.Equal(t, daemon, string(logDaemon(t).YAML()))
	const allowing = "allow: {files: [site/*.html], hosts: name == a, images: ['registry.example/gw:1.*'], plugs: {root: {path: site, read_only: true}}, types: [deployster/file]}\n"
	allows := mustDefine(t, daemon+allowing)
	assert.Equal(t, daemon+allowing, string(allows.YAML()))
	changed, err := allows.Set([]string{"task.vars.image=log-daemon:2"}, anyQuery)
	require.NoError(t, err)
	assert.Equal(t, allows.Allow, changed.Allow, "changed by --set of something else")
	failing := strings.Replace(daemon, "  auto", "  max_failed: 2\n  auto", 1)
	assert.Equal(t, failing, string(mustDefine(t, failing).YAML()))
}

func TestSetChangesWhatItIsToldTo(t *testing.T) {
	for name, test := range map[string]struct {
		assignments string // divided by |
		want        string // what becomes different
	}{
		"nothing":                           {"", ""},
		"the task, as in the seed":          {"task.vars.image=log-daemon:2", "task.vars.image: log-daemon:1 → log-daemon:2"},
		"the instance group":                {"instance_group.query=attribute:stack in (prod, gamma)", "instance_group.query: attribute:stack == prod → attribute:stack in (prod, gamma)"},
		"a value with an equals sign":       {"task.vars.args=a=b", "task.vars.args: nothing → a=b"},
		"to what it was":                    {"task.vars.image=log-daemon:1", ""},
		"an empty text":                     {"task.vars.image=", `task.vars.image: log-daemon:1 → ""`},
		"a number":                          {"task.vars.n=3", "task.vars.n: nothing → 3"},
		"a number as text":                  {"task.vars.n='3'", `task.vars.n: nothing → "3"`},
		"a version, which is no number":     {"task.vars.version=1.10|task.vars.id=007|task.vars.two=2.0", "task.vars.id: nothing → 007|task.vars.two: nothing → 2.0|task.vars.version: nothing → 1.10"},
		"a boolean and a null":              {"task.vars.on=true|task.vars.off=null|task.vars.text='null'", `task.vars.off: nothing → null|task.vars.on: nothing → true|task.vars.text: nothing → "null"`},
		"a list":                            {"task.vars.ports=[80, {tcp: 443}]", `task.vars.ports: nothing → [80,{"tcp":443}]`},
		"a mapping, as a whole":             {"task.vars.limits={cpus: 0.5}", `task.vars.limits.cpus: nothing → 0.5|task.vars.limits.memory: 64m → nothing`},
		"what only looks like YAML":         {"task.vars.a=b: c|task.vars.d=# e|task.vars.f=- g|task.vars.h=|task.vars.i={{ image }}|task.vars.j=true # so|task.vars.k=9e99999|task.vars.l=*", `task.vars.a: nothing → b: c|task.vars.d: nothing → # e|task.vars.f: nothing → - g|task.vars.h: nothing → ""|task.vars.i: nothing → {{ image }}|task.vars.j: nothing → true # so|task.vars.k: nothing → 9e99999|task.vars.l: nothing → *`},
		"the manifest, whose digest is new": {"task.manifest=other.yaml", "task.digest: 00ff → nothing|task.manifest: log-daemon.yaml → other.yaml"},
		"a whole configuration":             {"deployment.method=Replace|deployment.min_healthy_percent=50|deployment.max_over=2|deployment.min_healthy_time=10s|deployment.healthy_deadline=60s|deployment.progress_deadline=60m|deployment.max_failed=10%|deployment.auto_rollback=true|deployment.drift=report", "deployment.auto_rollback: false → true|deployment.drift: repair → report|deployment.healthy_deadline: 5m → 1m|deployment.max_failed: nothing → 10%|deployment.max_over: 1 → 2|deployment.method: Surge → Replace|deployment.min_healthy_percent: 100 → 50|deployment.min_healthy_time: 0s → 10s|deployment.progress_deadline: 10m → 1h"},
		"two times that only fit together":  {"deployment.healthy_deadline=20m|deployment.progress_deadline=30m", "deployment.healthy_deadline: 5m → 20m|deployment.progress_deadline: 10m → 30m"},
		"how many may be down":              {"deployment.max_unavailable=2|deployment.max_surge=10%", "deployment.max_over: 1 → nothing|deployment.max_surge: nothing → 10%|deployment.max_unavailable: nothing → 2|deployment.min_healthy_percent: 100 → nothing"},
		"by what hosts are ordered":         {"deployment.order_by=zone", "deployment.order_by: nothing → zone"},
		"steps":                             {"deployment.steps=[{hosts: 1, pause: 10m}, {hosts: 25%, pause: forever}, {hosts: 100%}]", `deployment.steps: nothing → [{"hosts":1,"pause":"10m"},{"hosts":"25%"},{"hosts":"100%"}]`},
		"steps that are verified":           {"deployment.steps=[{hosts: 1, verify: smoke.yaml}, {hosts: 25%, pause: forever, verify: a/b.yaml}, {hosts: 100%, verify: smoke.yaml}]", `deployment.steps: nothing → [{"hosts":1,"pause":"0s","verify":"smoke.yaml"},{"hosts":"25%","pause":"forever","verify":"a/b.yaml"},{"hosts":"100%","verify":"smoke.yaml"}]`},
		"no steps":                          {"deployment.steps=[]", ""},
		"what would drive a terminal":       {"task.vars.image=\x1b[31m", `task.vars.image: log-daemon:1 → "\x1b[31m"`},
		"what would, deep in a list":        {`task.vars.image=["\u009b", "\u202e"]`, `task.vars.image: log-daemon:1 → "[\"\u009b\",\"\u202e\"]"`},
		"a text that is like nothing":       {"task.vars.image=nothing", `task.vars.image: log-daemon:1 → "nothing"`},
		"an odd key":                        {`task.vars.limits={"a.b": 1, "\e": [], memory: 64m}`, `task.vars.limits["\x1b"]: nothing → []|task.vars.limits["a.b"]: nothing → 1`},
	} {
		t.Run(name, func(t *testing.T) {
			before := logDaemon(t)
			after := must.Get(before.Set(assignments(test.assignments), anyQuery))(t)
			assert.Equal(t, test.want, differences(before, after))
			assert.Equal(t, logDaemon(t), before, "it has changed what it was made from")
			after.Task.Digest = ""
			assert.Equal(t, after, mustDefine(t, string(after.YAML())), "written and read, it becomes")
		})
	}
}

func TestSetTakesThePlaceOfWhatSaysTheSame(t *testing.T) {
	d := logDaemon(t)
	for _, step := range [][2]string{
		{"deployment.max_unavailable=1", "deployment.max_unavailable: nothing → 1|deployment.min_healthy_percent: 100 → nothing"},
		{"deployment.min_healthy_percent=75", "deployment.max_unavailable: 1 → nothing|deployment.min_healthy_percent: nothing → 75"},
		{"deployment.max_surge=2", "deployment.max_over: 1 → nothing|deployment.max_surge: nothing → 2"},
		{"deployment.max_over=3", "deployment.max_over: nothing → 3|deployment.max_surge: 2 → nothing"},
	} {
		after := must.Get(d.Set([]string{step[0]}, anyQuery))(t)
		assert.Equal(t, step[1], differences(d, after), step[0])
		d = after
	}
}

func assignments(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "|")
}

func TestSetNamesWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		assignments string // divided by |
		want        string // lines, divided by |
	}{
		"no value":                   {"deployment.method", `--set: "deployment.method" is not KEY=VALUE, as in task.vars.image=log-daemon:2`},
		"no key":                     {"=x", `--set: there is no setting ""; possible are task.manifest, task.vars.NAME, instance_group.query, instance_group.max_leaving, deployment.method, deployment.min_healthy_percent, deployment.max_unavailable, deployment.max_over, deployment.max_surge, deployment.order_by, deployment.steps, deployment.min_healthy_time, deployment.bake, deployment.healthy_deadline, deployment.progress_deadline, deployment.max_failed, deployment.auto_rollback, deployment.drift`},
		"a misspelt key":             {"deployment.metod=Surge", `--set: there is no setting "deployment.metod", did you mean "deployment.method"?`},
		"a short key":                {"method=Surge", `--set: there is no setting "method", did you mean "deployment.method"?`},
		"a variable by its name":     {"image=log-daemon:2", `--set: there is no setting "image", did you mean "task.vars.image"?`},
		"a misspelt way to it":       {"task.var.image=log-daemon:2", `--set: there is no setting "task.var.image", did you mean "task.vars.image"?`},
		"the name":                   {"name=Other", `--set: the name of an environment cannot be changed`},
		"the type":                   {"type=Daemon", `--set: the type of an environment cannot be changed`},
		"the digest":                 {"task.digest=00ff", `--set: there is no setting "task.digest"; possible are task.manifest, task.vars.NAME, instance_group.query, instance_group.max_leaving, deployment.method, deployment.min_healthy_percent, deployment.max_unavailable, deployment.max_over, deployment.max_surge, deployment.order_by, deployment.steps, deployment.min_healthy_time, deployment.bake, deployment.healthy_deadline, deployment.progress_deadline, deployment.max_failed, deployment.auto_rollback, deployment.drift`},
		"all variables":              {"task.vars={}", `--set: variables are set one by one: task.vars.NAME=VALUE`},
		"a variable of the tool":     {"task.vars.host=a|task.vars._x=1", `--set: task.vars: "host" is set by deployster itself and cannot be changed|--set: task.vars: "_x" is set by deployster itself and cannot be changed`},
		"a part of a variable":       {"task.vars.limits.memory=1g", `--set: task.vars: "limits.memory" cannot be the name of a variable: it begins with a letter and consists of letters, digits, _ and -`},
		"a variable without a name":  {"task.vars.=1", `--set: task.vars: "" cannot be the name of a variable: it begins with a letter and consists of letters, digits, _ and -`},
		"one twice":                  {"task.vars.a=1|task.vars.a=2", `--set task.vars.a: is set twice`},
		"two that say the same":      {"deployment.max_surge=1|deployment.max_over=1|deployment.min_healthy_percent=1|deployment.max_unavailable=1", `--set deployment.max_unavailable: min_healthy_percent and max_unavailable are two ways to say the same: give one of them|--set deployment.max_surge: max_over and max_surge are two ways to say the same: give one of them`},
		"steps as text":              {"deployment.steps=25%", `--set deployment.steps: must be a list of steps such as [{hosts: 1, pause: 10m}, {hosts: 100%}], not text`},
		"a step too many":            {"deployment.steps=[{hosts: 2}, {hosts: 1}]", `--set deployment.steps: [1].hosts: must be more than the 2 of the step before`},
		"no host to spare":           {"deployment.method=Replace|deployment.max_unavailable=0", `--set deployment.max_unavailable: with the method Replace max_unavailable must be at least 1: a host is without a task while it is replaced, so no running task could ever be; with the method Surge it may be 0`},
		"a misspelt method":          {"deployment.method=Surg", `--set deployment.method: unknown method "Surg", did you mean "Surge"?`},
		"several":                    {"deployment.max_over=0|deployment.drift=x|deployment.auto_rollback=1", `--set deployment.max_over: must be a number of hosts from 1 to 100000, not "0"|--set deployment.drift: unknown way to treat drift "x"; possible are repair, report|--set deployment.auto_rollback: must be true or false, not "1"`},
		"empty values":               {"task.manifest=|deployment.max_failed=|deployment.healthy_deadline=", `--set task.manifest: must be the path of a manifest, not empty|--set deployment.max_failed: must be a number of hosts, or a percentage such as 10%, not ""|--set deployment.healthy_deadline: must be a time such as 90s, 5m or 1h30m, not ""`},
		"a query":                    {"instance_group.query=attribute:ä == ?", `--set instance_group.query: the query at character 16: a query holds no ?`},
		"a plain query":              {"instance_group.query=a == ?", `--set instance_group.query: the query at character 6: a query holds no ?`},
		"an odd list":                {"task.vars.a=[1, .inf, {b: 1, b: 2}]", `--set task.vars.a: [1]: .inf is not a number that JSON can express|--set task.vars.a: [2].b: duplicate key "b", first at 1:12`},
		"half a list":                {"task.vars.a=[1, 2", `--set task.vars.a: malformed YAML: did not find expected ',' or ']'`},
		"a deep list":                {"task.vars.a=" + strings.Repeat("[", 21) + strings.Repeat("]", 21), `--set task.vars.a: ` + strings.Repeat("[0]", 20) + `: nested deeper than 20 levels`},
		"times that do not fit":      {"deployment.min_healthy_time=5m", `--set deployment.min_healthy_time: min_healthy_time (5m) must be shorter than healthy_deadline (5m): a task could never be healthy for long enough in time`},
		"a time of which two depend": {"deployment.healthy_deadline=20m", `--set deployment.healthy_deadline: healthy_deadline (20m) must not be longer than progress_deadline (10m): a deployment would be stuck while its tasks still have time`},
		"the other time":             {"deployment.progress_deadline=1m", `--set deployment.progress_deadline: healthy_deadline (5m) must not be longer than progress_deadline (1m): a deployment would be stuck while its tasks still have time`},
		"an impossible time":         {"deployment.healthy_deadline=20", `--set deployment.healthy_deadline: must be a time such as 90s, 5m or 1h30m, not "20"`},
		"Replace without a minimum":  {"deployment.method=Replace", `--set deployment.method: there is no deployment.min_healthy_percent: with the method Replace hosts are without a task while it is replaced, so say how many percent of them must always have a healthy one (75 lets a quarter be down at once, 0 all, 100 none), or with max_unavailable how many may be without one; with the method Surge none is down, and 100 is the default`},
		"not UTF-8":                  {"task.vars.a=\xff", `--set: "task.vars.a=\xff" is not valid UTF-8`},
		"escapes":                    {"task.manifest=\x1b[31m|\x1b=1|task.vars.\x1b=1", `--set task.manifest: holds a control character|--set: there is no setting "\x1b"; possible are task.manifest, task.vars.NAME, instance_group.query, instance_group.max_leaving, deployment.method, deployment.min_healthy_percent, deployment.max_unavailable, deployment.max_over, deployment.max_surge, deployment.order_by, deployment.steps, deployment.min_healthy_time, deployment.bake, deployment.healthy_deadline, deployment.progress_deadline, deployment.max_failed, deployment.auto_rollback, deployment.drift|--set: task.vars: "\x1b" cannot be the name of a variable: it begins with a letter and consists of letters, digits, _ and -`},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := logDaemon(t).Set(assignments(test.assignments), anyQuery)
			var invalid *yamlfile.Error
			require.True(t, errors.As(err, &invalid) && d == nil, "it became %+v, %v", d, err)
			assert.Equal(t, test.want, strings.ReplaceAll(err.Error(), "\n", "|"))
		})
	}
}

func TestSetKeepsTheDefinitionSmall(t *testing.T) {
	_, err := logDaemon(t).Set([]string{"task.vars.small=1", "task.vars.large=" + strings.Repeat("x", 600_000)}, anyQuery)
	assert.ErrorContains(t, err, "--set task.vars.large: the definition has 600")
}

func TestDifferencesTellWhatIsAbsentFromWhatIsNull(t *testing.T) {
	before := logDaemon(t)
	after := must.Get(before.Set([]string{"task.vars.image=null", "task.vars.n=0", "deployment.auto_rollback=true"}, anyQuery))(t)
	const want = `[{"path":"deployment.auto_rollback","before":false,"after":true},{"path":"task.vars.image","before":"log-daemon:1","after":null},{"path":"task.vars.n","after":0}]`
	assert.Equal(t, want, string(must.Get(json.Marshal(definition.Diff(before, after)))(t)))
	assert.Len(t, definition.Diff(before, logDaemon(t)), 0)
	other := logDaemon(t)
	other.Task.Digest = "11ff"
	assert.Equal(t, "task.digest: 00ff → 11ff", differences(before, other))
}

// anyText has what is special in YAML, in JSON and to a terminal.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"", " ", "<<", "~", "null", "true", "yes", "1.10", "007", "0x1f", "1e3", "2024-01-01", ".inf", "- a", "a: b", "# a", "{{ a }}", "[", "*a", "&a", "!!str", "|", ">", "%", "@", "`", "=", "'", `"`, "\\", "\n", "a\n", "\n a", "a\n\n b\n", "\t", " a ", "\x00", "\x1b[31m", "\u0085", "\u2028", "\ufeff", "\ufffe", "\ue000", "\U0001F600", "\U000e0001", strings.Repeat("long ", 100), strings.Repeat("x", 1500)}),
		rapid.StringOfN(rapid.RuneFrom([]rune("a \n\t:#-[]{},'\"\\?&*!|>%@`é")), 0, 12, -1),
	)
}

func anyValue(levels int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), anyText().AsAny(),
		rapid.Custom(func(t *rapid.T) any {
			f := rapid.Float64().Draw(t, "f")
			if f == 0 {
				return int64(0) // JSON has one zero, YAML two
			}
			return f
		}),
	}
	if levels > 0 {
		kinds = append(kinds, rapid.SliceOfN(anyValue(levels-1), 0, 4).AsAny(), rapid.MapOfN(anyText(), anyValue(levels-1), 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func anyDefinition(t *rapid.T) *definition.Definition {
	name := rapid.StringMatching(`[a-zA-Z0-9]([a-z0-9._-]{0,9}[a-z0-9])?(/[a-zA-Z0-9]([a-z0-9._-]{0,9}[a-z0-9])?){0,2}`)
	variable := rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_-]{0,20}`).Filter(func(s string) bool {
		return s != "host" && s != "host_attributes" && s != "environment" && s != "revision" && s != "task"
	})
	const second, most = int64(1e9), int64(720 * 3600e9)
	progress := rapid.Int64Range(second, most).Draw(t, "progress")
	healthy := rapid.Int64Range(second, progress).Draw(t, "healthy")
	d := &definition.Definition{
		Name: name.Draw(t, "name"), Type: definition.Daemon,
		Task: definition.TaskSpec{
			Manifest: rapid.StringMatching(`[^/\\\pC\x{2028}\x{2029}][^\\\pC\x{2028}\x{2029}]{0,20}`).Draw(t, "manifest"),
			Vars:     rapid.MapOfN(variable, anyValue(3), 0, 5).Draw(t, "vars"),
		},
		InstanceGroup: definition.InstanceGroup{Query: anyText().Filter(func(s string) bool { return s != "" && s != "wrong" && !strings.Contains(s, "?") }).Draw(t, "query")},
		Deployment: definition.Configuration{
			Method:            rapid.SampledFrom([]definition.Method{definition.Replace, definition.Surge}).Draw(t, "method"),
			MinHealthyPercent: rapid.IntRange(0, 100).Draw(t, "percent"),
			MaxOver:           rapid.IntRange(1, 100_000).Draw(t, "over"),
			MinHealthyTime:    definition.Duration(rapid.Int64Range(0, healthy-1).Draw(t, "time")),
			HealthyDeadline:   definition.Duration(healthy),
			ProgressDeadline:  definition.Duration(progress),
			AutoRollback:      rapid.Bool().Draw(t, "rollback"),
			Drift:             rapid.SampledFrom([]definition.Drift{definition.RepairDrift, definition.ReportDrift}).Draw(t, "drift"),
		},
	}
	if rapid.Bool().Draw(t, "budget") {
		d.Deployment.MaxFailed = &budget.Budget{Count: rapid.IntRange(0, 1000).Draw(t, "count")}
		if d.Deployment.MaxFailed.Count == 0 {
			d.Deployment.MaxFailed.Percent = rapid.Float64Range(0, 100).Draw(t, "percent")
		}
	}
	return d
}

func TestWhatIsWrittenIsReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := must.Get(json.Marshal(anyDefinition(t)))(t)
		var d definition.Definition
		if err := json.Unmarshal(data, &d); err != nil { // as the log gives it back
			t.Fatal(err)
		}
		text := d.YAML()
		again, err := definition.Parse("env.yaml", text, anyQuery)
		if err != nil || len(definition.Diff(&d, again)) != 0 {
			t.Fatalf("%s\nbecame %+v, %v\n%v", text, again, err, definition.Diff(&d, again))
		}
		if len(d.Task.Vars) == 0 {
			d.Task.Vars = nil
		}
		require.Equal(t, &d, again, "%s\nbecame", text)
	})
}

func TestDifferencesAreWhatIsDifferent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyDefinition(t), anyDefinition(t)
		if rapid.Bool().Draw(t, "near") { // two at random have little in common
			vars := maps.Clone(a.Task.Vars)
			for name, value := range b.Task.Vars {
				if rapid.Bool().Draw(t, "also") {
					vars[name] = value
				}
			}
			c := *a
			c.Task.Vars = vars
			b = &c
		}
		there, back := definition.Diff(a, b), definition.Diff(b, a)
		first, _ := json.Marshal(a)
		second, _ := json.Marshal(b)
		require.True(t, (len(there) == 0) == (string(first) == string(second)) && len(there) == len(back), "%v\n%v", there, back)
		for i, d := range there {
			if i > 0 && there[i-1].Path >= d.Path || reflect.DeepEqual(d.Before, d.After) || strings.ContainsAny(d.String(), "\n\x1b\u009b") {
				t.Fatalf("%q", d.String())
			}
			require.True(t, back[i].Path == d.Path &&
				reflect.DeepEqual(back[i].Before, d.After), "%v is not the reverse of %v", back[i], d)
		}
	})
}

func TestATextThatADifferenceShowsCanBeSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := anyText().Draw(t, "text")
		before := anyDefinition(t)
		before.Task.Vars = nil
		wanted := *before
		wanted.Task.Vars = map[string]any{"text": text}
		shown, _ := strings.CutPrefix(definition.Diff(before, &wanted)[0].String(), "task.vars.text: nothing → ")
		after := must.Get(before.Set([]string{"task.vars.text=" + shown}, anyQuery))(t)
		require.True(t, after.Task.Vars["text"] == text, "%q, shown as %s, became %+v", text, shown, after)
	})
}

// misplaced is what a query says that is wrong at a character.
type misplaced int

func (m misplaced) Error() string {
	_, problem := m.Place()
	return fmt.Sprintf("the query at character %d: %s", int(m), problem)
}

func (m misplaced) Place() (column int, problem string) { return int(m), "a query holds no ?" }

func anyQuery(text string) error {
	switch i := strings.IndexByte(text, '?'); {
	case text == "wrong":
		return errors.New("is wrong all over")
	case i >= 0:
		return misplaced(1 + len([]rune(text[:i])))
	}
	return nil
}

func defined(text string) (*definition.Definition, error) {
	return definition.Parse("env.yaml", []byte(text), anyQuery)
}

func mustDefine(t *testing.T, text string) *definition.Definition {
	return must.Get(defined(text))(t)
}

const minutes = definition.Duration(time.Minute)

// smallest has nothing that could be left out.
const smallest = `
name: SomeEnvironment/Prod
task: {manifest: log-daemon.yaml}
instance_group: {query: "attribute:stack == prod"}
deployment: {min_healthy_percent: 75}
`

const everything = `
name: SomeEnvironment/Prod
type: Daemon
task:
  manifest: ../tasks/log-daemon.yaml
  vars: {image: "log-daemon:1", ports: [80, 443], ratio: 0.5, whole: 2, on: true, off: ~, limits: {memory: 64m, cpus: 2}}
instance_group:
  query: "attribute:stack in (prod, gamma)"
deployment:
  method: Surge
  min_healthy_percent: "100"
  max_over: "3"
  min_healthy_time: 90s
  healthy_deadline: 1h30m
  progress_deadline: 720h
  max_failed: 33.3%
  auto_rollback: true
  drift: report
`

func TestParse(t *testing.T) {
	defaults := &definition.Definition{
		Name: "SomeEnvironment/Prod", Type: definition.Daemon,
		Task:          definition.TaskSpec{Manifest: "log-daemon.yaml"},
		InstanceGroup: definition.InstanceGroup{Query: "attribute:stack == prod"},
		Deployment: definition.Configuration{
			Method: definition.Replace, MinHealthyPercent: 75, MaxOver: 1,
			MinHealthyTime: definition.Duration(10 * time.Second), HealthyDeadline: 5 * minutes, ProgressDeadline: 10 * minutes, Drift: definition.RepairDrift,
		},
	}
	full := &definition.Definition{
		Name: "SomeEnvironment/Prod", Type: definition.Daemon,
		Task: definition.TaskSpec{Manifest: "../tasks/log-daemon.yaml", Vars: map[string]any{
			"image": "log-daemon:1", "ports": []any{int64(80), int64(443)}, "ratio": 0.5, "whole": int64(2), "on": true, "off": nil,
			"limits": map[string]any{"memory": "64m", "cpus": int64(2)},
		}},
		InstanceGroup: definition.InstanceGroup{Query: "attribute:stack in (prod, gamma)"},
		Deployment: definition.Configuration{
			Method: definition.Surge, MinHealthyPercent: 100, MaxOver: 3,
			MinHealthyTime: 3 * minutes / 2, HealthyDeadline: 90 * minutes, ProgressDeadline: 720 * 60 * minutes,
			MaxFailed: &budget.Budget{Percent: 33.3}, AutoRollback: true, Drift: definition.ReportDrift,
		},
	}
	surge := *defaults
	surge.Deployment.Method, surge.Deployment.MinHealthyPercent = definition.Surge, 100
	for name, test := range map[string]struct {
		text string
		want *definition.Definition
	}{
		"what is left out has defaults":           {smallest, defaults},
		"everything may be given":                 {everything, full},
		"with Surge all hosts stay healthy":       {strings.Replace(smallest, "min_healthy_percent: 75", "method: Surge", 1), &surge},
		"no variables are the same as none given": {strings.Replace(smallest, "yaml}", "yaml, vars: {}}", 1), defaults},
		"a healthy time of nothing needs no unit": {strings.Replace(smallest, "75", "75, min_healthy_time: 0", 1), with(defaults, func(c *definition.Configuration) { c.MinHealthyTime = 0 })},
		"the default healthy time can be given":   {strings.Replace(smallest, "75", "75, min_healthy_time: 10s", 1), defaults},
		"it bakes for a while":                    {strings.Replace(smallest, "75", "75, bake: 10m", 1), with(defaults, func(c *definition.Configuration) { c.Bake = 10 * minutes })},
		"deadlines may be the same":               {strings.Replace(smallest, "75", "75, healthy_deadline: 10m", 1), with(defaults, func(c *definition.Configuration) { c.HealthyDeadline = 10 * minutes })},
		"no failure at all is a budget, too":      {strings.Replace(smallest, "75", "75, max_failed: 0", 1), with(defaults, func(c *definition.Configuration) { c.MaxFailed = &budget.Budget{} })},
		"Replace ignores how many may be doubled": {strings.Replace(smallest, "75", "75, max_over: 100000", 1), with(defaults, func(c *definition.Configuration) { c.MaxOver = 100_000 })},
		"hosts may be without a task": {strings.Replace(smallest, "min_healthy_percent: 75", "max_unavailable: 10%", 1), with(defaults, func(c *definition.Configuration) {
			c.MinHealthyPercent, c.MaxUnavailable = 0, &budget.Budget{Percent: 10}
		})},
		"many hosts may have two tasks":             {strings.Replace(smallest, "75", "75, max_surge: '2'", 1), with(defaults, func(c *definition.Configuration) { c.MaxOver, c.MaxSurge = 0, &budget.Budget{Count: 2} })},
		"Replace has no hosts with two tasks":       {strings.Replace(smallest, "75", "75, max_surge: 0", 1), with(defaults, func(c *definition.Configuration) { c.MaxOver, c.MaxSurge = 0, &budget.Budget{} })},
		"a name may end in a number and be a depth": {strings.Replace(smallest, "Prod", "Prod/eu.1/2", 1), renamed(defaults, "SomeEnvironment/Prod/eu.1/2")},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(defined(test.text))(t)
			assert.Equal(t, test.want, got)
			data := must.Get(json.Marshal(got))(t)
			var stored definition.Definition
			require.NoError(t, json.Unmarshal(data, &stored))
			assert.Equal(t, got, &stored, "from the log")
		})
	}
}

func with(d *definition.Definition, change func(*definition.Configuration)) *definition.Definition {
	other := *d
	change(&other.Deployment)
	return &other
}

func renamed(d *definition.Definition, name string) *definition.Definition {
	other := *d
	other.Name = name
	return &other
}

func TestVariablesKeepLargeIntegers(t *testing.T) {
	d := mustDefine(t, strings.Replace(smallest, "yaml}", "yaml, vars: {id: 9007199254740993, far: 1e+300}}", 1))
	assert.Equal(t, map[string]any{"id": int64(9007199254740993), "far": 1e300}, d.Task.Vars)
}

// Each file of testdata/problems is a definition, with what is said about it; see yamltest.
func TestParseReportsEveryProblemWithItsPlace(t *testing.T) {
	yamltest.Problems(t, func(files ...string) error { _, err := defined(files[0]); return err })
}

func TestADefinitionMustFitIntoTheLog(t *testing.T) {
	large := func(n int) string {
		return strings.Replace(smallest, "yaml}", "yaml, vars: {text: "+strings.Repeat("x", n)+"}}", 1)
	}
	assert.ErrorContains(t, must.Fail(defined(large(524_288))), "bytes as JSON; at most 524288 fit into the deployment log")
	assert.Len(t, mustDefine(t, large(500_000)).Task.Vars["text"], 500_000)
}

// The schema and the parser accept the same documents, but for what a schema
// cannot say: how settings fit together, and how large times are.
func TestTheSchemaOfDefinitionsAgrees(t *testing.T) {
	source := must.Get(schema.Source("environment"))(t)
	top := func(name, more string) string {
		return "{name: " + name + ", task: {manifest: m}, instance_group: {query: q}, deployment: {method: Surge}" + more + "}"
	}
	task := func(task string) string {
		return "{name: a, task: " + task + ", instance_group: {query: q}, deployment: {method: Surge}}"
	}
	vars := func(vars string) string { return task("{manifest: m, vars: " + vars + "}") }
	group := func(group string) string {
		return "{name: a, task: {manifest: m}, instance_group: " + group + ", deployment: {method: Surge}}"
	}
	deployment := func(d string) string {
		return "{name: a, task: {manifest: m}, instance_group: {query: q}, deployment: " + d + "}"
	}
	surge := func(more string) string { return deployment("{method: Surge, " + more + "}") }
	yamltest.Schema(t, source, map[string]bool{
		smallest: true, everything: true, "{}": false, "[]": false, "{name: a}": false,
		top("a", ""): true, top("a/b-c/d_e.f", ""): true, top("a/1", ""): true, top("a//b", ""): false, top("/a", ""): false, top("-a", ""): false, top("a b", ""): false, top("''", ""): false, top("7", ""): false,
		top(strings.Repeat("a", 100), ""): true, top(strings.Repeat("a", 101), ""): false,
		top("a", ", type: Daemon"): true, top("a", ", type: daemon"): false, top("a", ", type: Service"): false, top("a", ", typ: Daemon"): false,
		task("{}"): false, task("m"): false, task("{manifest: ''}"): false, task("{manifest: /m}"): false, task(`{manifest: 'a\m'}`): false, task("{manifest: a/../m.yaml}"): true, task("{manifest: m, digest: x}"): false,
		vars("{}"): true, vars("[]"): false, vars("{a: 1, b: [x, {c: ~}], c-d_9: true}"): true, vars("{host: x}"): false, vars("{task: x}"): false, vars("{revision: 1}"): false, vars("{host_attributes: {}}"): false, vars("{environment: x}"): false, vars("{hosts: x}"): true,
		vars("{_a: 1}"): false, vars("{9a: 1}"): false, vars("{a.b: 1}"): false,
		group("{}"): false, group("q"): false, group("{query: ''}"): false, group("{query: q, hosts: []}"): false,
		deployment("{}"): false, deployment("{method: Replace}"): false, deployment("{method: Surge}"): true, deployment("{method: surge}"): false, deployment("{min_healthy_percent: 0}"): true, deployment("{method: Replace, min_healthy_percent: 100}"): true,
		deployment("[]"): false, deployment("{min_healthy_percent: '100'}"): true, deployment("{min_healthy_percent: '101'}"): false, deployment("{min_healthy_percent: '007'}"): false, deployment("{min_healthy_percent: 101}"): false, deployment("{min_healthy_percent: -1}"): false,
		deployment("{min_healthy_percent: 1.5}"): false, deployment("{min_healthy_percent: 10%}"): false, deployment("{min_healthy_percent: ~}"): false,
		surge("max_over: 1"): true, surge("max_over: 0"): false, surge("max_over: 100000"): true, surge("max_over: 100001"): false, surge("max_over: '100000'"): true, surge("max_over: '100001'"): false, surge("max_over: all"): false,
		surge("min_healthy_time: 0"): true, surge("min_healthy_time: '0'"): true, surge("min_healthy_time: 1.5s"): true, surge("min_healthy_time: 1"): false, surge("min_healthy_time: -1s"): false, surge("healthy_deadline: 0"): false, surge("healthy_deadline: 1m30s"): true,
		surge("healthy_deadline: 5"): false, surge("healthy_deadline: 5min"): false, surge("healthy_deadline: ''"): false, surge("progress_deadline: 1d"): false, surge("progress_deadline: 10h"): true, surge("progress_deadline: 10 h"): false,
		surge("max_failed: 0"): true, surge("max_failed: 3"): true, surge("max_failed: '3'"): true, surge("max_failed: 2.5%"): true, surge("max_failed: -1"): false, surge("max_failed: few"): false, surge("max_failed: []"): false,
		surge("max_unavailable: 0"): true, surge("max_unavailable: 1, min_healthy_percent: 1"): false, surge("max_surge: 1, max_over: 1"): false, surge("max_surge: few"): false, surge("max_surge: 10%"): true, surge("steps: []"): true, surge("steps: [{hosts: 1}, {hosts: '25%', pause: 10m}, {hosts: 100%}]"): true, surge("steps: [{hosts: 1, pause: forever}]"): true, surge("steps: [{hosts: 0}]"): false, surge("steps: [{pause: 1m}]"): false,
		surge("steps: [{hosts: 1, verify: smoke.yaml}]"): true, surge("steps: [{hosts: 1, verify: /smoke.yaml}]"): false, surge("steps: [{hosts: 1, verify: [a]}]"): false, surge("steps: [{hosts: 1}, {hosts: 100%, verify: smoke.yaml}]"): true, surge("steps: {hosts: 1}"): false, surge("steps: [{hosts: 1, pause: soon}]"): false, surge("order_by: zone"): true, surge("order_by: ''"): false, surge("order_by: [zone]"): false,
		deployment("{max_unavailable: 1}"): true, deployment("{max_unavailable: []}"): false,
		surge("auto_rollback: true"): true, surge("auto_rollback: 'false'"): true, surge("auto_rollback: yes please"): false, surge("auto_rollback: 1"): false,
		surge("drift: repair"): true, surge("drift: report"): true, surge("drift: ignore"): false, surge("drfit: report"): false,
	}, func(file string) error { _, err := defined(file); return err })
}

// Whatever a file holds, Parse answers with a definition that the log gives back as it is and that can be written as a
// file and read again, or with problems whose positions are in the file.
func FuzzParse(f *testing.F) {
	f.Add(smallest)
	f.Add(everything)
	f.Add(daemon)
	yamltest.Seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := defined(text)
		if err != nil {
			yamltest.Showable(t, err, yamltest.Lines(text))
			return
		}
		survives(t, d)
	})
}

func FuzzSet(f *testing.F) {
	for _, one := range []string{
		"task.vars.image=log-daemon:2", "task.vars.a=[1, {b: ~}]", "task.vars.a={{ x }}", "task.vars.a='x'", "task.vars.a=1.10", "instance_group.query=a == ?",
		"deployment.method=Replace", "deployment.max_failed=10%", "deployment.healthy_deadline=20m", "name=x", "task.vars.host=a", "x", "=", "task.manifest=x.yaml",
	} {
		f.Add(one, "deployment.min_healthy_percent=50")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		before := mustDefine(t, daemon)
		d, err := before.Set([]string{first, second}, anyQuery)
		if err != nil {
			yamltest.Showable(t, err, 0)
			return
		}
		survives(t, d)
		for _, difference := range definition.Diff(before, d) {
			if strings.ContainsAny(difference.String(), "\n\r\x1b\u0085\u009b\u2028") {
				t.Fatalf("a difference that cannot be shown: %q", difference.String())
			}
		}
	})
}

func survives(t *testing.T, d *definition.Definition) {
	t.Helper()
	data, err := json.Marshal(d)
	var stored definition.Definition
	require.True(t, err == nil && json.Unmarshal(data, &stored) == nil && reflect.DeepEqual(&stored, d), "%s became %+v", data, stored)
	again, err := definition.Parse("env.yaml", d.YAML(), anyQuery)
	if err != nil || !reflect.DeepEqual(again, d) {
		t.Fatalf("%s\nbecame %+v, %v\nof %+v", d.YAML(), again, err, d)
	}
	for _, target := range []interface{ Validate() error }{record.Target(d.Name), record.TaskTarget(d.Name, 1_000_000, strings.Repeat("h", 200))} {
		require.NoError(t, target.Validate())
	}
}
