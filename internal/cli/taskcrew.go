package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// taskCrew does the work of environments' steps, and looks how their tasks are:
// it applies and destroys their manifests on the engines of their hosts. It is a
// environments.Tasks.
type taskCrew struct {
	*stations
	log      deploylog.Log
	input    inputFlags
	pinned   pinned
	patience time.Duration // with one look at a task

	// All looks at tasks are one run, which holds its lock: others see that what
	// they left on an engine has an owner.
	looking *runs.Run
	id      string // of that run

	mu      sync.Mutex
	kept    map[string][]string // directories of runs, by place, oldest first
	watched map[string]bool     // hosts
}

// patienceWithTask is how long a look at a task may take, if nobody says
// otherwise.
const patienceWithTask = 30 * time.Second

func (a *app) newTaskCrew(log deploylog.Log, hosts *hosts, input inputFlags, engine engineFlags, news io.Writer) (*taskCrew, error) {
	stations, err := a.newStations(hosts, engine, news)
	if err != nil {
		return nil, err
	}
	c := &taskCrew{stations: stations, log: log, input: input, pinned: pinnedBelow(stations.workspace), patience: patienceWithTask}
	c.id = a.newID()
	if c.looking, err = runs.Watch(runs.Options{Log: log, ID: c.id}); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *taskCrew) close() error {
	err := c.stations.close()
	c.looking.End()
	return err
}

// placeOf is where the resources of a task are: others than those of another
// revision on the same host, for both may be there at once.
func placeOf(t environment.Task) string { return t.Host + ":" + t.Name() }

// Start implements environments.Tasks.
func (c *taskCrew) Start(ctx context.Context, t environment.Task) (_ environment.ProbeResult, err error) {
	defer c.app.guard(&err, "starting a task of "+t.Environment)
	s, err := c.begin(ctx, t)
	if err != nil {
		return environment.ProbeResult{}, err
	}
	r, err := c.carryOut(s, (*runner.Runner).Apply)
	if err != nil {
		return environment.ProbeResult{}, err
	}
	return applied(s.manifest, r.State), nil
}

// Terminate implements environments.Tasks. What the task found as it should be, or
// never came to, is not its own and left alone: so a task can be terminated also
// when it can not even be asked for.
func (c *taskCrew) Terminate(ctx context.Context, t environment.Task) (err error) {
	defer c.app.guard(&err, "terminating a task of "+t.Environment)
	s, err := c.begin(ctx, t)
	if err != nil {
		return err
	}
	if s.spec.Remove, err = c.made(ctx, t, s.manifest); err != nil || len(s.spec.Remove) == 0 {
		return err
	}
	s.control.Revision = "" // what is gone has none
	s.control.Meaning = s.meaning()
	_, err = c.carryOut(s, (*runner.Runner).Destroy)
	return err
}

// made are the resources that the task may have made since it was terminated the
// last time.
func (c *taskCrew) made(ctx context.Context, t environment.Task, m *manifest.Manifest) ([]string, error) {
	since := int64(0)
	target := environment.TaskTarget(t.Environment, t.Revision, t.Host)
	for e, err := range c.log.Read(ctx, deploylog.Filter{Target: target, Name: environment.EventTaskTerminated, Last: 1}) {
		if err != nil {
			return nil, fmt.Errorf("reading the history of %s: %w", target, err)
		}
		since = e.Seq
	}
	names := make([]string, len(m.Resources))
	for i, r := range m.Resources {
		names[i] = r.Name
	}
	return runs.Made(ctx, c.log, placeOf(t), names, since)
}

func (c *taskCrew) carryOut(s *started, do func(*runner.Runner, context.Context, runner.Caller) (*runner.Result, error)) (*runner.Runner, error) {
	held, err := runs.Begin(s.ctx, s.control)
	if err != nil {
		return nil, err
	}
	defer held.End()
	words := &lastWords{Recorder: held}
	s.caller.Recorder, s.caller.Guard, s.caller.Gone = words, held, held.Gone
	r := runner.New(s.spec, s.containers)
	if _, err = do(r, s.ctx, s.caller); err != nil {
		err = words.with(err)
	}
	c.keepFew(s.containers.Place, s.work)
	return r, err
}

// mostKept is of how many runs of a task the files are kept. One that is tried
// again and again would fill a disk.
const mostKept = 5

func (c *taskCrew) keepFew(place, dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[string][]string{}
	}
	c.kept[place] = append(c.kept[place], dir)
	for ; len(c.kept[place]) > mostKept; c.kept[place] = c.kept[place][1:] {
		_ = os.RemoveAll(c.kept[place][0]) // at worst it stays
	}
}

// lastWords is a Recorder that keeps what failed actions said last.
type lastWords struct {
	runner.Recorder
	mu   sync.Mutex
	said []string
}

// Record implements runner.Recorder.
func (l *lastWords) Record(ctx context.Context, e runner.Event) error {
	if said := e.Output; e.Kind == runner.ActionFailed && len(said) > 0 {
		if last := len(said) - 1; strings.HasSuffix(e.Error, said[last]) { // the error ends with it
			said = said[:last]
		}
		l.mu.Lock()
		l.said = append(l.said, said...)
		l.mu.Unlock()
	}
	return l.Recorder.Record(ctx, e)
}

// with is an error with what was said below it.
func (l *lastWords) with(err error) error {
	if len(l.said) == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, strings.Join(l.said, "\n"))
}

// Observe implements environments.Tasks.
func (c *taskCrew) Observe(ctx context.Context, t environment.Task) environment.ProbeResult {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	o, err := c.look(ctx, t)
	switch {
	case o.Health != environment.Unknown && err == nil:
		return o
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		o.Detail = fmt.Sprintf("host %s: it was not seen within %s", t.Host, c.patience)
	case err != nil:
		o.Detail = err.Error()
	}
	o.Health = environment.Unknown
	return o
}

func (c *taskCrew) look(ctx context.Context, t environment.Task) (_ environment.ProbeResult, err error) {
	defer c.app.guard(&err, "looking at a task of "+t.Environment)
	s, err := c.begin(ctx, t)
	if err != nil {
		return environment.ProbeResult{}, err
	}
	defer c.passing(s)()
	r := runner.New(s.spec, s.containers)
	report, err := r.Drift(ctx, s.caller)
	if report == nil {
		return environment.ProbeResult{}, err
	}
	return seen(report, r.State), nil // which tells of what failed, too
}

// passing makes a run one of those that only look. The files of all the looks at
// all tasks would fill a disk, so they go with the returned function.
func (c *taskCrew) passing(s *started) (forget func()) {
	s.containers.Run = c.id
	return func() { _ = os.RemoveAll(s.work) } // at worst they stay
}

// watcher is an engine that tells when something happens to its containers.
type watcher interface {
	Watch(ctx context.Context, without string, changed func()) error
}

// Watch implements environments.Tasks. Of an engine that does not tell what happens,
// it waits for ctx.
func (c *taskCrew) Watch(ctx context.Context, host string, changed func()) {
	var err error // only to be reported: the watch begins again
	defer c.app.guard(&err, "watching the host "+host)
	at, err := c.reach(ctx, host)
	if err != nil {
		return
	}
	if w, tells := at.engine.(watcher); tells {
		if c.again(host) {
			changed() // what happened meanwhile was not told
		}
		_ = w.Watch(ctx, runner.LabelRun, changed) // the containers of runs come and go by themselves
		return
	}
	<-ctx.Done()
}

// again tells whether a host was watched before.
func (c *taskCrew) again(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched == nil {
		c.watched = map[string]bool{}
	}
	was := c.watched[host]
	c.watched[host] = true
	return was
}

// mostAsked is how many hosts are tried for one that answers.
const mostAsked = 3

// errNoHostAnswers is why something can not be asked.
var errNoHostAnswers = errors.New("no host answers")

// removable fails with a *manifest.Error where what a definition's manifest makes
// can not be removed again, and as the runner does where it is otherwise wrong.
// That is asked on the first of the hosts that answers, of the first few; without
// any, on the engine of --engine, with a host that has no name and no attributes.
func (c *taskCrew) removable(ctx context.Context, d *environment.Definition, text []byte, hosts []string) error {
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	var away error
	for _, host := range hosts[:min(len(hosts), mostAsked)] {
		at, err := c.reach(ctx, host)
		if err != nil {
			away = errors.Join(away, err)
			continue
		}
		t := environment.Task{Environment: d.Name, Host: host, Revision: 1, Spec: d.Task}
		s, err := c.equip(ctx, at, t, manifest.Source{Name: d.Task.Manifest, Data: text})
		if err == nil {
			err = s.conflicts()
		}
		if err != nil {
			return err
		}
		defer c.passing(s)()
		if err := c.app.heed(taskUnread(s.usage), c.input.strict); err != nil {
			return err
		}
		return runner.New(s.spec, s.containers).Removable(ctx, s.caller)
	}
	return fmt.Errorf("whether what %s makes can be removed again is not known, as %w: %w", d.Task.Manifest, errNoHostAnswers, away)
}

// begin makes ready what is done with a task on its host.
func (c *taskCrew) begin(ctx context.Context, t environment.Task) (*started, error) {
	text, err := c.pinned.load(t.Spec.Digest)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", t.Spec.Manifest, err)
	}
	at, err := c.reach(ctx, t.Host)
	if err != nil {
		return nil, err
	}
	// The file may say something else by now.
	name := fmt.Sprintf("%s (of revision %d)", t.Spec.Manifest, t.Revision)
	return c.equip(ctx, at, t, manifest.Source{Name: name, Data: text})
}

// reach returns the engine of a host, which answers. One that has been open for
// a while may have gone, of which its connection would tell much later.
func (c *taskCrew) reach(ctx context.Context, host string) (*station, error) {
	at, err := c.at(ctx, host)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, patienceWithHost)
	defer cancel()
	if _, err := at.engine.Info(asking); err != nil {
		return nil, fmt.Errorf("host %s: %w", cmp.Or(host, "of --engine"), err)
	}
	return at, nil
}

func (c *taskCrew) equip(ctx context.Context, at *station, t environment.Task, source manifest.Source) (*started, error) {
	flags := c.input
	flags.last, flags.builtin = t.Spec.Vars, taskVariables(t, c.hosts)
	in, err := c.app.loadSources([]manifest.Source{source}, flags, string(runner.ConfirmNo))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.workspace, filepath.FromSlash(t.Spec.Manifest))
	s, err := c.equipped(ctx, c.log, in, "env run", []string{file}, at, placeOf(t))
	if err != nil {
		return nil, err
	}
	d := s.caller.Details
	d["environment"], d["revision"], d["task"] = t.Environment, strconv.Itoa(t.Revision), t.Name()
	d["target"] = string(environment.TaskTarget(t.Environment, t.Revision, t.Host))
	return s, nil
}

// taskVariables are what a manifest knows of its task. Nobody else can set them.
func taskVariables(t environment.Task, among *hosts) map[string]any {
	v := map[string]any{
		"environment": t.Environment, "revision": t.Revision, "task": t.Name(),
		"host": t.Host, "host_attributes": map[string]any{},
	}
	if h, ok := among.host(t.Host); ok {
		v["host_attributes"] = attributes(h)
	}
	return v
}

// applied is how a task is of which all resources are VALID.
func applied(m *manifest.Manifest, state func(resource string) map[string]any) environment.ProbeResult {
	var ill []string
	for _, r := range m.Resources {
		if why := ailment(state(r.Name)); why != "" {
			ill = append(ill, r.Name+" "+why)
		}
	}
	if len(ill) > 0 {
		return environment.ProbeResult{Health: environment.Unhealthy, Detail: strings.Join(ill, "; ")}
	}
	return environment.ProbeResult{Health: environment.Healthy}
}

// seen is how a task is, going by its drift and the states of its resources.
func seen(report *runner.DriftReport, state func(resource string) map[string]any) environment.ProbeResult {
	var ill, unseen, differs []string
	for _, r := range report.Resources {
		why := ailment(state(r.Name))
		switch {
		case r.Missing:
			ill = append(ill, r.Name+" does not exist")
		case why != "":
			ill = append(ill, r.Name+" "+why)
		case r.Status == runner.Unknown:
			unseen = append(unseen, r.Name+": it can not be asked for without the state of "+strings.Join(r.Because, ", "))
		case r.Error != "":
			unseen = append(unseen, r.Name+": "+r.Error)
		case r.Status == runner.Stale && len(r.Diff) == 0:
			differs = append(differs, r.Name+" is not as configured; its type does not tell in what")
		case r.Status == runner.Stale:
			for line := range strings.Lines(runner.DiffText(r.Diff)) {
				differs = append(differs, r.Name+" "+strings.TrimSpace(line))
			}
		}
	}
	switch {
	case len(ill) > 0:
		return environment.ProbeResult{Health: environment.Unhealthy, Detail: strings.Join(ill, "; ")}
	case len(unseen) > 0:
		return environment.ProbeResult{Health: environment.Unknown, Detail: strings.Join(unseen, "; ")}
	case len(differs) > 0:
		return environment.ProbeResult{Health: environment.Drifted, Detail: few(differs)}
	default:
		return environment.ProbeResult{Health: environment.Healthy}
	}
}

// ailment is why a resource in this state is not healthy, "" when it is or does
// not say.
func ailment(state map[string]any) string {
	switch {
	case state["running"] == false:
		return "does not run"
	case state["healthy"] == false:
		return "is not healthy"
	default:
		return ""
	}
}

// few is as many lines as people read.
func few(lines []string) string {
	const most = 5
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}
