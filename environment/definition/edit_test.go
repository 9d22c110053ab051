package definition_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/yamlfile"
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
	t.Helper()
	d := mustDefine(t, daemon)
	d.Task.Digest = "00ff"
	return d
}

// differences are what becomes different, divided by |.
func differences(before, after *definition.Definition) string {
	var all []string
	for _, d := range definition.Diff(before, after) {
		all = append(all, d.String())
	}
	return strings.Join(all, "|")
}

func TestADefinitionIsWrittenAsPeopleDo(t *testing.T) {
	assert.Equal(t, daemon, string(logDaemon(t).YAML()))
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
			after, err := before.Set(assignments(test.assignments), anyQuery)
			require.NoError(t, err)
			assert.Equal(t, test.want, differences(before, after))
			assert.Equal(t, logDaemon(t), before, "it has changed what it was made from")
			after.Task.Digest = ""
			assert.Equal(t, after, mustDefine(t, string(after.YAML())), "written and read, it becomes")
		})
	}
}

// Of two settings that say the same the one that was set last counts.
func TestSetTakesThePlaceOfWhatSaysTheSame(t *testing.T) {
	d := logDaemon(t)
	for _, step := range [][2]string{
		{"deployment.max_unavailable=1", "deployment.max_unavailable: nothing → 1|deployment.min_healthy_percent: 100 → nothing"},
		{"deployment.min_healthy_percent=75", "deployment.max_unavailable: 1 → nothing|deployment.min_healthy_percent: nothing → 75"},
		{"deployment.max_surge=2", "deployment.max_over: 1 → nothing|deployment.max_surge: nothing → 2"},
		{"deployment.max_over=3", "deployment.max_over: nothing → 3|deployment.max_surge: 2 → nothing"},
	} {
		after, err := d.Set([]string{step[0]}, anyQuery)
		require.NoError(t, err)
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
			if !errors.As(err, &invalid) || d != nil {
				t.Fatalf("it became %+v, %v", d, err)
			}
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
	after, err := before.Set([]string{"task.vars.image=null", "task.vars.n=0", "deployment.auto_rollback=true"}, anyQuery)
	require.NoError(t, err)
	const want = `[{"path":"deployment.auto_rollback","before":false,"after":true},{"path":"task.vars.image","before":"log-daemon:1","after":null},{"path":"task.vars.n","after":0}]`
	got, err := json.Marshal(definition.Diff(before, after))
	require.NoError(t, err)
	assert.Equal(t, want, string(got))
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
		data, err := json.Marshal(anyDefinition(t))
		require.NoError(t, err)
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
		if !reflect.DeepEqual(again, &d) {
			t.Fatalf("%s\nbecame\n%+v\nof\n%+v", text, again, &d)
		}
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
		if (len(there) == 0) != (string(first) == string(second)) || len(there) != len(back) {
			t.Fatalf("%v\n%v", there, back)
		}
		for i, d := range there {
			if i > 0 && there[i-1].Path >= d.Path || reflect.DeepEqual(d.Before, d.After) || strings.ContainsAny(d.String(), "\n\x1b\u009b") {
				t.Fatalf("%q", d.String())
			}
			if back[i].Path != d.Path || !reflect.DeepEqual(back[i].Before, d.After) {
				t.Fatalf("%v is not the reverse of %v", back[i], d)
			}
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
		after, err := before.Set([]string{"task.vars.text=" + shown}, anyQuery)
		if err != nil || after.Task.Vars["text"] != text {
			t.Fatalf("%q, shown as %s, became %+v, %v", text, shown, after, err)
		}
	})
}
