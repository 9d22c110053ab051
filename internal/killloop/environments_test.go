package killloop

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// fleet is environments that people use in all ways at once.
type fleet struct {
	*world
	released map[string]string
	last     map[string]int // revision of each environment
	number   int
}

// environments is how each is deployed, and how many percent of the hosts keep a healthy
// task meanwhile.
var environments = map[string]struct {
	how     string
	percent int
}{
	"one": {"method: Replace, min_healthy_percent: 50", 50},
	"two": {"method: Surge, max_over: 2, steps: [{hosts: 1, pause: 500ms}, {hosts: 100%}]", 100},
}

var fleetHosts = []string{"a", "b", "c", "d", "e", "f"}

func newFleet(w *world) *fleet {
	f := &fleet{world: w, released: map[string]string{}, last: map[string]int{}}
	f.inventory(fleetHosts...)
	for name := range environments {
		alone := ""
		if name == "one" { // never two revisions on a host
			alone = `alone: "one-{{ host }}", `
		}
		w.write(name+"-task.yaml", fmt.Sprintf(`
plugs: {dir: {path: "hosts/{{ host }}"}, all: {path: all}}
resources:
  task: {type: journal:1, config: {file: "{{ task }}", host: "{{ host }}", for: "{{ environment }} {{ revision }}", %swait: 150, value: "{{ environment }} {{ host }} {{ number }}"}}
`, alone))
		f.update(name, true)
	}
	return f
}

// inventory lists hosts, which need not be all that there are.
func (f *fleet) inventory(hosts ...string) { f.stages(map[string][]string{"fleet": hosts}) }

// update makes the next revision, with another task or only deployed in another way.
func (f *fleet) update(name string, task bool) {
	f.Helper()
	if task {
		f.number++
	}
	f.write(name+".yaml", fmt.Sprintf(`
name: %s
task: {manifest: %s-task.yaml, vars: {number: "%d"}}
instance_group: {query: "attribute:stage == fleet"}
deployment: {%s, max_failed: 1, min_healthy_time: 0s, progress_deadline: %dm, healthy_deadline: 1h}
`, name, name, f.number, environments[name].how, 60+f.IntN(60)))
	if f.last[name] == 0 {
		f.must("env", "create", "-f", name+".yaml", "--allow-logged", "number")
	} else if _, ok := f.run("env", "update", name, "--base", fmt.Sprint(f.last[name]), "-f", name+".yaml", "--allow-logged", "number"); !ok {
		return // nothing is changed
	}
	f.last[name]++
	content := fmt.Sprintf("%s HOST %d image=%d", name, f.number, f.image)
	f.released[fmt.Sprintf("%s %d", name, f.last[name])] = content
}

func (f *fleet) deploy(name string) {
	f.run("env", "deploy", name, "--revision", fmt.Sprint(f.last[name]))
}

// away has what lies on a host not be there, or be there again.
func (f *fleet) away(host string, away bool) {
	from, to := f.path("hosts", host), f.path("hosts", host+".away")
	if !away {
		from, to = to, from
	}
	err := os.Rename(from, to)
	require.True(f, err == nil || os.IsNotExist(err), "%v", err)
}

func (f *fleet) broken(host string, broken bool) {
	path := f.path("hosts", host, "broken")
	var err error
	if broken {
		err = os.WriteFile(path, nil, 0o600)
	} else {
		err = os.Remove(path)
	}
	require.True(f, err == nil || os.IsNotExist(err), "%v", err)
}

// files are those of tasks of an environment on a host.
func (f *fleet) files(host, name string) []string {
	found, _ := filepath.Glob(f.path("hosts", host, name+"-*"))
	return slices.DeleteFunc(found, func(path string) bool { return strings.HasSuffix(path, ".next") })
}

// act does one of the things that people and hosts do.
func (f *fleet) act() {
	f.Helper()
	name, host := []string{"one", "two"}[f.IntN(2)], fleetHosts[f.IntN(len(fleetHosts))]
	switch f.IntN(20) {
	case 0, 1, 2, 3:
		f.update(name, true)
		f.deploy(name)
	case 4:
		f.update(name, false)
		f.deploy(name)
	case 5, 6:
		f.run("env", "rollback", name)
	case 7:
		f.run("env", "restart", name, host)
	case 8:
		f.run("env", "pause", name)
	case 9:
		f.run("env", "resume", name)
	case 10:
		f.run("env", "cordon", name, host)
	case 11:
		f.run("env", "drain", name, host)
	case 12, 13:
		f.run("env", "uncordon", name, host)
	case 14: // a task dies
		for _, file := range f.files(host, name) {
			_ = os.Remove(file)
		}
	case 15: // or drifts
		for _, file := range f.files(host, name) {
			_ = os.WriteFile(file, []byte("edited"), 0o600)
		}
	case 16:
		f.broken(host, f.IntN(2) == 0)
	case 17:
		f.away(host, f.IntN(2) == 0)
	case 18:
		some := slices.Clone(fleetHosts)
		f.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		f.inventory(some[:f.IntN(len(some)+1)]...)
	case 19:
		f.run("env", []string{"confirm", "promote"}[f.IntN(2)], name)
	}
}

// settle has all go well from now on.
func (f *fleet) settle() {
	f.Helper()
	f.inventory(fleetHosts...)
	for _, host := range fleetHosts {
		f.away(host, false)
		f.broken(host, false)
	}
	for name := range environments {
		f.run("env", "resume", name)
		f.run(append([]string{"env", "uncordon", name}, fleetHosts...)...)
		f.update(name, true)
		f.must("env", "deploy", name, "--revision", fmt.Sprint(f.last[name]))
	}
	for range 5 {
		if _, ok := f.run("env", "run", "--until-idle", "--check-every", "1s"); ok {
			break
		}
	}
}

// check checks what became of the environments, on the hosts and in the log.
func (f *fleet) check(events []deploylog.Event) {
	f.Helper()
	for name := range environments {
		want := f.released[fmt.Sprintf("%s %d", name, f.last[name])]
		for _, host := range fleetHosts {
			files := f.files(host, name)
			if len(files) != 1 {
				f.Errorf("%s has the tasks %q of %s", host, files, name)
			} else if text, _ := os.ReadFile(files[0]); string(text) != strings.ReplaceAll(want, "HOST", host) {
				f.Errorf("%s has %q, want %q", files[0], text, want)
			}
		}
		f.checkEnvironment(events, name, environments[name].percent)
	}
}

// Two controllers are killed again and again, while environments are deployed, rolled back
// and restarted, and hosts and tasks fail.
func TestEnvironmentsKeepTheirRules(t *testing.T) {
	rounds(t, 10, func(w *world, kills int) {
		f := newFleet(w)
		f.deploy("one")
		f.deploy("two")
		w.work("env", "run", "--check-every", "1s")
		w.work("env", "run", "--check-every", "1s")
		w.foreign("env", "run", "--check-every", "1s")
		for w.killed < kills {
			for range 1 + w.IntN(4) {
				f.act()
			}
			w.kill(2000 * time.Millisecond)
		}
		w.stop()
		f.settle()
		events := w.events()
		w.checkRuns(events)
		w.checkForeign(events)
		w.checkJournal(f.released)
		f.check(events)
		w.checkHistory(events)
	})
}

// stages writes an inventory of hosts by stage, which are directories. Those that have other stages
// are in it, too.
func (w *world) stages(stages map[string][]string) {
	w.Helper()
	of := map[string][]string{}
	for _, all := range []map[string][]string{stages, w.others} {
		for _, stage := range slices.Sorted(maps.Keys(all)) {
			for _, host := range all[stage] {
				of[host] = append(of[host], stage)
			}
		}
	}
	var text strings.Builder
	text.WriteString("hosts: [\n")
	for _, host := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&text, "  {name: %s, engine: oci, slots: 2, attributes: {stage: [%s]}},\n", host, strings.Join(of[host], ", "))
		if slices.Contains(w.hosts, host) {
			continue
		}
		w.hosts = append(w.hosts, host)
		require.NoError(w, os.MkdirAll(w.path("hosts", host), 0o700))
	}
	text.WriteString("]\n")
	w.write("inventory.yaml", text.String())
}

// foreign is a worker with an inventory of its own, the queries of which select other hosts.
// It is to leave alone what there is.
func (w *world) foreign(args ...string) {
	w.Helper()
	w.write("foreign.yaml", `hosts:
  - {name: x, engine: oci, attributes: {stage: [beta, prod, fleet]}}
  - {name: y, engine: oci, attributes: {stage: [beta, prod, fleet]}}
  - {name: a, engine: oci, attributes: {stage: elsewhere}}
`)
	w.work(append(args, "--inventory", "foreign.yaml")...)
	w.workers[len(w.workers)-1].foreign = true
}

// checkForeign checks that nobody with another inventory changed the hosts of anything, or
// did a step on them.
func (w *world) checkForeign(events []deploylog.Event) {
	w.Helper()
	for _, e := range events {
		d := w.details(e)
		for _, host := range slices.Concat(d.Hosts, d.Joined, d.Left, d.Lost) {
			require.NotEqual(w, "x", host)
			assert.NotEqual(w, "y", host, "event %d, %s of %s, is of host", e.Seq, e.Name, e.Target)
		}
		if strings.HasSuffix(string(e.Target), "@x") || strings.HasSuffix(string(e.Target), "@y") || strings.HasSuffix(string(e.Target), "/x") || strings.HasSuffix(string(e.Target), "/y") {
			w.Errorf("event %d, %s, is of %s", e.Seq, e.Name, e.Target)
		}
	}
}
