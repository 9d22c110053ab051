package runner_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// question is a protocol.ServeRequest as a process reads it.
type question struct {
	ID     int64
	Action string
	Args   []string
	Input  json.RawMessage
}

func (q question) name() string {
	var in protocol.InitInput
	_ = json.Unmarshal(q.Input, &in)
	return in.Name
}

// serves is what the init answer of a type that serves has besides.
const serves = `"serve_action":{"args":["serve"]},`

// serving is an image whose type also serves: by the process, which gets its questions one after the other, and a way
// to answer them as a container would have done.
func (w *world) serving(process func(ctx context.Context, p *served) int) enginetest.FakeImage {
	return image(func(ctx context.Context, c enginetest.Call) int {
		switch {
		case len(c.Args) == 0:
			var answer bytes.Buffer
			out := c.Stdout
			c.Stdout = &answer
			code := w.thing(ctx, c)
			_, _ = io.WriteString(out, strings.Replace(answer.String(), "{", "{"+serves+w.plugs, 1))
			return code
		case c.Args[0] != "serve":
			return w.thing(ctx, c)
		}
		p := &served{w: w, Call: c, questions: make(chan question)}
		go func() {
			defer close(p.questions)
			s := bufio.NewScanner(c.Stdin)
			s.Buffer(nil, protocol.MaxRequest)
			for s.Scan() {
				var q question
				if json.Unmarshal(s.Bytes(), &q) != nil {
					return
				}
				select {
				case p.questions <- q:
				case <-ctx.Done():
					return
				}
			}
		}()
		return process(ctx, p)
	})
}

// servingBut is as serving, of a process that answers like any other, unless instead reports that it
// has done something else about a question.
func (w *world) servingBut(instead func(p *served, q question) bool) enginetest.FakeImage {
	return w.serving(func(ctx context.Context, p *served) int {
		for q := range p.questions {
			if !instead(p, q) {
				p.answer(ctx, q)
			}
		}
		return 0
	})
}

type served struct {
	enginetest.Call
	w         *world
	questions chan question // closed at the end of stdin
}

// good answers everything, each in its own time.
func good(ctx context.Context, p *served) int {
	var all sync.WaitGroup
	for q := range p.questions {
		all.Go(func() { p.answer(ctx, q) })
	}
	all.Wait()
	return 0
}

// answer does what a container would do, and tells of it.
func (p *served) answer(ctx context.Context, q question) {
	var out, errOut bytes.Buffer
	code := p.w.thing(ctx, enginetest.Call{Args: q.Args, Stdin: bytes.NewReader(q.Input), Stdout: &out, Stderr: &errOut})
	a := protocol.ServeAnswer{ID: q.ID, Exit: &code, Output: out.Bytes(), Stderr: errOut.String()}
	switch {
	case out.Len() == 0:
		a.Output = nil
	case q.Action == "init":
		a.Output = []byte(strings.Replace(out.String(), "{", "{"+serves+p.w.plugs, 1))
	case q.Action != "state":
		a.Output, _ = json.Marshal(out.String())
	}
	line, _ := json.Marshal(a)
	_, _ = p.Stdout.Write(append(line, '\n'))
}

// say writes what is no regular answer; %d is the id of the question.
func (p *served) say(format string, id int64) {
	if strings.Contains(format, "%d") {
		format = fmt.Sprintf(format, id)
	}
	_, _ = io.WriteString(p.Stdout, format)
}

func many(n int, of string) string {
	var b strings.Builder
	b.WriteString("resources:\n")
	for i := range n {
		fmt.Fprintf(&b, "  r%d: {type: %s, config: {value: 1}}\n", i, of)
	}
	return b.String()
}

// served counts the runs of the processes that serve, and the others.
func (w *world) starts() (serving, others int) {
	for _, run := range w.engine.Runs() {
		if run.Spec.Labels[invoke.LabelKind] == invoke.KindServe {
			serving++
			continue
		}
		others++
	}
	return serving, others
}

func (w *world) warnings() []string {
	var texts []string
	for _, e := range w.events {
		if e.Kind == report.Warning {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

func TestOneProcessServesAllResourcesOfAType(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.serving(good)
	for name, status := range w.mustApply(t, many(30, "thing")) {
		assert.Equal(t, report.Changed, status, "%s is %s", name, status)
	}
	if serving, others := w.starts(); serving != 1 || others != 1 {
		t.Errorf("%d processes and %d containers were started, want one to serve and one for the first init", serving, others)
	}
	for _, run := range w.engine.Runs() {
		assert.True(t, run.Done)
		if run.Spec.Labels[invoke.LabelKind] == invoke.KindServe && len(run.Spec.Labels) != 3 {
			t.Errorf("the process has the labels %v", run.Spec.Labels)
		}
	}
}

// What has to wait for another resource finds its process started.
func TestProcessesAreStartedBeforeWhatTheyServeIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		started := make(chan struct{})
		w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
			<-started
			return good(ctx, p)
		})
		w.engine.Images["other"] = w.serving(func(ctx context.Context, p *served) int {
			close(started)
			return good(ctx, p)
		})
		w.mustApply(t, "resources: {a: {type: thing, config: {value: 1}}, b: {type: other, dependencies: {a: a}, config: {value: 1}}}")
		if serving, others := w.starts(); serving != 2 || others != 2 {
			t.Errorf("%d processes and %d containers were started, want one of each for either type", serving, others)
		}
	})
}

// No more of them than may be at work.
func TestOnlyAFewProcessesAreStartedBeforeTheyAreNeeded(t *testing.T) {
	w := newWorld(t)
	w.fail["a"] = true
	for _, name := range []string{"thing", "other"} {
		w.engine.Images[name] = w.serving(good)
	}
	if _, err := w.apply(t, "resources: {a: {type: thing, config: {value: 1}}, b: {type: other, dependencies: {a: a}, config: {value: 1}}}", func(o *options) { o.Parallelism = 1 }); err == nil {
		t.Fatal("nothing failed")
	}
	serving, _ := w.starts()
	assert.Equal(t, 1, serving)
}

// A served type looks from outside like any other: the same events, the same files, the same secrets.
func TestServedOrNotIsTheSame(t *testing.T) {
	stories := map[bool][]string{}
	for _, serve := range []bool{false, true} {
		w := newWorld(t)
		if serve {
			w.engine.Images["thing"] = w.serving(good)
		}
		w.things["db"] = "old"
		w.fail["bad"] = true
		_, err := w.apply(t, `
resources:
  db: {type: thing, config: {value: new, token: hush-hush}}
  bad: {type: thing, dependencies: {db: db}, config: {value: "{{ db.state.value }}", token: hush-hush}}`, func(o *options) { o.Parallelism = 1 })
		require.Error(t, err, serve)
		assert.NotContains(t, w.everything(t, err), "hush-hush", serve)
		kept := strings.ReplaceAll(strings.ReplaceAll(w.kept(t), w.workspace, ""), "/.dep", "\n/.dep")
		story := strings.Split(strings.ReplaceAll(strings.Join(strings.Fields(kept), ""), serves, ""), "/.dep")
		for _, e := range w.events {
			e.Time, e.Duration = time.Time{}, 0
			text, _ := json.Marshal(e)
			story = append(story, strings.ReplaceAll(string(text), w.workspace, ""))
		}
		stories[serve] = append(story, err.Error())
	}
	for i, line := range stories[false] {
		require.Less(t, i, len(stories[true]))
		require.Equal(t, line, stories[true][i])
	}
}

func TestAnswersComeInAnyOrder(t *testing.T) {
	const n = 50
	w := newWorld(t)
	w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
		var waiting []question
		for q := range p.questions {
			if q.Action == "init" {
				p.answer(ctx, q)
				continue
			}
			if waiting = append(waiting, q); len(waiting) == n {
				slices.Reverse(waiting)
				for _, q := range waiting {
					p.answer(ctx, q)
				}
				waiting = nil
			}
		}
		return 0
	})
	for i := range n {
		w.things[fmt.Sprintf("r%d", i)] = float64(1)
	}
	plan := w.mustPlan(t, many(n, "thing"), func(o *options) { o.Parallelism = n })
	for _, r := range plan.Resources {
		assert.Equal(t, report.Valid, r.Status)
		assert.Equal(t, r.Name, r.State["name"])
	}
}

func TestTheTextOfAnActionIsShownAsItComes(t *testing.T) {
	w := newWorld(t)
	shown := make(chan struct{})
	w.engine.Images["thing"] = w.serving(func(ctx context.Context, p *served) int {
		for q := range p.questions {
			if q.Action == "set" {
				p.say(`{"id":%d,"output":"one\ntw","stderr":"careful\n"}`+"\n", q.ID)
				<-shown
				p.say(`{"id":%d,"output":"o\n"}`+"\n", q.ID)
			}
			p.answer(ctx, q)
		}
		return 0
	})
	var texts []string
	must.Get(w.apply(t, many(1, "thing"), func(o *options) {
		o.Observer = observer(func(e report.Event) {
			if e.Kind != report.Line {
				return
			}
			if texts = append(texts, e.Stream+" "+e.Text); len(texts) == 2 {
				close(shown)
			}
		})
	}))(t)
	assert.Equal(t, []string{"stdout one", "stderr careful", "stdout two", "stdout setting r0 with <nil>"}, texts)
}

type observer func(report.Event)

func (o observer) Observe(e report.Event) { o(e) }

func TestWhatNamesAnImageOrAnEntrypointRunsInAContainer(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.servingBut(func(p *served, q question) bool {
		assert.Equal(t, "state", q.Action)
		p.say(`{"id":%d,"exit":0,"output":{"status":"STALE","actions":[{"name":"a","image":"thing","entrypoint":"/bin/a"}]}}`+"\n", q.ID)
		return true
	})
	_, err := w.apply(t, many(1, "thing"))
	if err == nil || w.runs("init") != 2 { // the action runs the image without arguments
		t.Errorf("%v, %v", err, w.trace)
	}
}

func (w *world) servingPlugs() enginetest.FakeImage {
	w.plugs = `"plugs":{"root":{"container_path":"/root","optional":true}},`
	return w.serving(good)
}

func TestResourcesWithOtherPlugsHaveAnotherProcess(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.servingPlugs()
	w.mustApply(t, "plugs: {root: {path: "+w.workspace+", resource_names: [r1]}}\n"+many(4, "thing"))
	plugs := map[int]int{} // number of mounts → processes
	for _, run := range w.engine.Runs() {
		if run.Spec.Labels[invoke.LabelKind] == invoke.KindServe {
			plugs[len(run.Spec.Mounts)]++
		}
	}
	assert.True(t, len(plugs) == 2 && plugs[2] == 1 && plugs[3] == 1, "processes by number of mounts: %v", plugs)
}

// elsewhere is an engine that mounts what is not there on this machine.
type elsewhere struct {
	*enginetest.Fake
	at string // where the fake has it
}

// claim is the source of a mount that only elsewhere knows.
const claim = "persistentvolumeclaim:data"

func (e elsewhere) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	spec.Mounts = slices.Clone(spec.Mounts)
	for i := range spec.Mounts {
		if spec.Mounts[i].Source == claim {
			spec.Mounts[i].Source = e.at
		}
	}
	return e.Fake.Run(ctx, spec, streams)
}

func TestPlugsOfAnotherMachineAreServed(t *testing.T) {
	for name, copies := range map[string]bool{"without the workspace": false, "with a copy of the workspace": true} {
		w := newWorld(t)
		w.engine.Images["thing"] = w.servingPlugs()
		_, err := w.apply(t, "plugs: {root: {path: '"+claim+"'}}\n"+many(3, "thing"), func(o *options) {
			o.Remote, o.Copies, o.Engine = true, copies, elsewhere{w.engine, t.TempDir()}
		})
		require.NoError(t, err, "%s", name)
		if serving, others := w.starts(); serving != 1 || others != 1 || len(w.warnings()) > 0 {
			t.Errorf("%s: %d processes and %d containers were started, want one to serve and one for the first init; %q", name, serving, others, w.warnings())
		}
	}
}

// copies are images by other names, too.
type copies struct {
	invoke.Images
	of map[string]string
}

func (c copies) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	name, copied := c.of[ref]
	if !copied {
		name = ref
	}
	image, err := c.Images.Image(ctx, name, policy, progress)
	image.Ref = ref
	return image, err
}

// Types that are one image have one process, which is told with each request which of them is
// meant; a type of another image has its own, and is told nothing of theirs.
func TestTypesOfOneImageHaveOneProcess(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	told := map[string][]string{} // what each process was asked
	for _, name := range []string{"thing", "other"} {
		w.engine.Images[name] = w.serving(func(ctx context.Context, p *served) int {
			for q := range p.questions {
				var in protocol.InitInput
				if err := json.Unmarshal(q.Input, &in); err != nil {
					return 1
				}
				mu.Lock()
				told[name] = append(told[name], in.Type+" "+in.Name)
				mu.Unlock()
				p.answer(ctx, q)
			}
			return 0
		})
	}
	must.Get(w.apply(t, `
resources:
  a: {type: thing, config: {value: 1}}
  b: {type: acme/thing, dependencies: {a: a}, config: {value: 1}}
  c: {type: other, dependencies: {b: b}, config: {value: 1}}`, func(o *options) {
		o.Images = copies{w.engine, map[string]string{"acme/thing": "thing"}}
	}))(t)
	for process, want := range map[string][]string{"thing": {"acme/thing b", "thing a"}, "other": {"other c"}} {
		slices.Sort(told[process])
		assert.Equal(t, want, slices.Compact(told[process]), process)
	}
	serving, _ := w.starts()
	assert.Equal(t, 2, serving)
}

// An error of such a process says whose it is.
func TestAProcessIsNamedAfterAllItsTypes(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["thing"] = w.serving(func(context.Context, *served) int { return 3 })
	_, err := w.apply(t, `
resources:
  a: {type: thing, config: {value: 1}}
  b: {type: acme/thing, config: {value: 1}}`, func(o *options) {
		o.Images = copies{w.engine, map[string]string{"acme/thing": "thing"}}
	})
	told := strings.Join(w.warnings(), "\n")
	assert.Contains(t, told+fmt.Sprint(err), "the process that serves acme/thing, thing (image sha256:")
}
