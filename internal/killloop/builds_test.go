package killloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// The build of a distribution, of real containers, is begun by dispatchers that are killed all
// the time. One job in its middle fails, and is retried. What comes of it is what comes of a
// build that nobody disturbs. With few kills it is a slice of the distribution.
func TestBuildsOfADistributionSurviveKills(t *testing.T) {
	rounds(t, max(*kills, 1), func(w *world, kills int) {
		d := newDistribution(w, "--engine", "oci")
		require.NoError(w, w.engine(func(e *oci.Engine) error { return d.load(e) }))
		d.survive(kills, 2*time.Second, "--parallelism", "4")
	})
}

const (
	// wholeFrom is from how many kills on a distribution is built whole.
	wholeFrom = 20
	// slice is how many of its jobs are built with fewer.
	slice = failing + 3
	// failing is the place of the job that fails.
	failing = 30
)

// survive builds the distribution, or a slice of it, while dispatchers are killed.
func (d *distribution) survive(kills int, most time.Duration, flags ...string) {
	d.Helper()
	d.write("all/journal", "") // in which those write who do steps
	jobs := slice
	if kills >= wholeFrom {
		jobs = d.jobs
	}
	id := d.submit(jobs, "1")
	d.write("world/takes", "60ms")
	d.write("world/"+d.failing+".fail", "")
	for range 2 {
		d.work(d.run(flags...)...)
	}
	for range kills {
		d.kill(most)
		if d.between != nil {
			d.between()
		}
	}
	d.until(id, record.GroupFailed)
	require.NoError(d, os.Remove(d.path("world", d.failing+".fail")))
	d.command(build.Retry{Group: id})
	d.kill(most)
	d.until(id, record.GroupFinished)
	d.stop()
	d.checkBuild(id)

	require.NoError(d, os.Remove(d.path("world", "takes")))
	again := d.submit(jobs, "1", "--no-reuse")
	d.must(d.run("--until-idle")...)
	d.checkBuild(again)
	disturbed, calm := d.artifacts(id), d.artifacts(again)
	for job, digest := range calm {
		assert.Equal(d, digest, disturbed[job], "job %d", job)
	}
}

func (d *distribution) run(flags ...string) []string {
	return slices.Concat([]string{"build", "run"}, d.engine, flags)
}

// distribution is a world in which the packages of a distribution are built.
type distribution struct {
	*world
	lines   []string // of its manifest
	jobs    int
	failing string   // job in the middle
	engine  []string // flags that say where jobs are done
	between func()   // is called after each kill; nil is nothing
	image   []byte   // of all jobs
}

func newDistribution(w *world, engine ...string) *distribution {
	text := must.Get(os.ReadFile("../../build/plan/testdata/distribution.tsv"))(w)
	program := filepath.Join(w.path("home"), "maker")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "../cli/testdata/maker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(w, err, "%v\n%s", err, out)
	image := must.Get(enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Entrypoint: []string{"/maker"}}))(w)
	tar := must.Get(enginetest.ImageTar("maker:1", image))(w)
	d := &distribution{world: w, lines: strings.Split(strings.TrimSpace(string(text)), "\n"), engine: engine, image: tar}
	d.jobs = len(d.lines)
	d.failing = name(strings.Split(d.lines[failing], "\t")[1])
	return d
}

// load gives an engine the image of the jobs.
func (d *distribution) load(e engine.Engine) error {
	return e.Load(context.Background(), bytes.NewReader(d.image))
}

func name(ident string) string {
	parts := strings.Split(ident, "/")
	return parts[1] + "." + strings.TrimPrefix(parts[3], "N-")
}

// submit queues a group of the first jobs of the manifest, and returns its id.
func (d *distribution) submit(jobs int, version string, flags ...string) string {
	d.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "group: dist\njob: {image: 'maker:1', args: ['{{ package.name }}'], env: {VERSION: '%s'}, network: none, plugs: [{path: '%s', container_path: /world}], reuse: true}\njobs:\n", version, d.path("world"))
	for _, line := range d.lines[:jobs] {
		fields := strings.Split(line, "\t")
		var needs []string
		seen := map[string]bool{}
		for _, ident := range strings.Split(fields[2], ",") {
			if strings.Contains(ident, "/N-") && !seen[ident] {
				seen[ident] = true
				needs = append(needs, name(ident))
			}
		}
		fmt.Fprintf(&text, "- {name: %s, needs: [%s]}\n", name(fields[1]), strings.Join(needs, ", "))
	}
	d.write("jobs.yaml", text.String())
	d.must(append([]string{"build", "submit", "-f", "jobs.yaml", "--pull", "never"}, slices.Concat(d.engine, flags)...)...)
	id := ""
	for _, e := range d.events() {
		if e.Name == record.GroupTriggered {
			id = e.Deployment
		}
	}
	return id
}

func (d *distribution) command(c build.Command) {
	d.openLog(func(log deploylog.Log) error {
		_, err := builds.New(log, time.Now).Command(context.Background(), c)
		return err
	})
}

// until waits for an event of a group after its last retry.
func (d *distribution) until(id, event string) {
	d.Helper()
	ctx := waittest.Context(d)
	after := int64(0)
	for _, e := range d.events() {
		if e.Deployment == id && e.Name == record.GroupRetried {
			after = e.Seq
		}
	}
	d.openLog(func(log deploylog.Log) error {
		for e, err := range log.Watch(ctx, deploylog.Filter{After: after, Deployment: id}) {
			switch {
			case err != nil:
				return fmt.Errorf("waiting for %s of %s: %w", event, id, err)
			case e.Name == event:
				return nil
			case e.Target == record.Group(id) && (e.Name == record.GroupFailed || e.Name == record.GroupFinished || e.Name == record.GroupStalled):
				return fmt.Errorf("%s of %s came, and %s was to come: %s", e.Name, id, event, e.Data)
			}
		}
		return errors.New("the log ended")
	})
}

// artifacts are what the jobs of a group have built.
func (d *distribution) artifacts(id string) map[int]string {
	all := map[int]string{}
	for _, e := range d.events() {
		if group, job, _ := record.Parse(e.Target); group == id && e.Name == record.JobFinished {
			all[job] = record.Decode[record.Finished](e).Artifact
		}
	}
	return all
}

// checkBuild checks that each job of a group was built once, after all that it needs, and that
// no container did a job of which the log does not say that it began.
func (d *distribution) checkBuild(id string) {
	d.Helper()
	var jobs []record.JobSpec
	built, began, running := map[int]bool{}, 0, map[int]bool{}
	for _, e := range d.events() {
		group, job, ok := record.Parse(e.Target)
		if !ok || group != id {
			continue
		}
		switch e.Name {
		case record.JobsCreated:
			jobs = append(jobs, record.Decode[record.Jobs](e).Jobs...)
		case record.JobStarted:
			began++
			assert.False(d, running[job] || built[job], "event %d: job %d begins beside itself, or is built already", e.Seq, job)
			running[job] = true
			for _, u := range jobs[job-1].Uses {
				assert.True(d, built[u.Job], "event %d: job %d begins before job %d is built", e.Seq, job, u.Job)
			}
		case record.JobFinished:
			assert.False(d, built[job], "event %d: job %d is built twice", e.Seq, job)
			built[job] = true
			delete(running, job)
		case record.JobFailed, record.JobLost, record.JobCanceled:
			delete(running, job)
		}
	}
	require.Len(d, built, len(jobs))
	assert.Empty(d, running, "%d of %d jobs of %s are built", len(built), len(jobs), id)
	d.Logf("%s: %d jobs, begun %d times", id, len(jobs), began)
}

// batch is what one revision at a time may be in: the stages from one to another.
type batch struct {
	name   string
	stages []string
}

// inside is which deployments are in which batches, as the log tells it.
type inside struct {
	*world
	pipeline string
	batches  []batch
	group    map[string]string // stage of each host group
	in       map[string]map[string]bool
	work     map[string]map[string]string // by deployment and step: stage
	finished map[string]map[string]bool   // stages, by deployment
	ended    map[string]bool
	rollback map[string]bool
}

// checkBatches checks that no two deployments were in one batch, be it only because a step
// of one was still being done.
func (w *world) checkBatches(events []deploylog.Event, pipeline string, group map[string]string, batches ...batch) {
	w.Helper()
	s := &inside{
		world: w, pipeline: pipeline, batches: batches, group: group, in: map[string]map[string]bool{}, work: map[string]map[string]string{},
		finished: map[string]map[string]bool{}, ended: map[string]bool{}, rollback: map[string]bool{},
	}
	for _, e := range events {
		s.event(e)
	}
}

// stage is the stage of a target; "" is none.
func (s *inside) stage(t deploylog.Target) string {
	parts := strings.Split(string(t), "/")
	if len(parts) < 3 || parts[1] != s.pipeline {
		return ""
	}
	if parts[0] == "stage" {
		return parts[2]
	}
	return s.group[parts[2]]
}

func (s *inside) event(e deploylog.Event) {
	if e.Target == deploylog.Target("pipeline/"+s.pipeline) {
		s.whole(e)
		return
	}
	stage, d := s.stage(e.Target), e.Deployment
	if stage == "" || e.Target.Kind() == "run" {
		return
	}
	key := string(e.Target) + " " + strings.TrimSuffix(e.Name, "-failed")
	switch {
	case e.Name == e.Target.Started():
		s.enter(e, d, stage)
	case s.work[d][key] != "":
		delete(s.work[d], key)
	case e.Name == "stage-finished-successfully":
		if s.finished[d] == nil {
			s.finished[d] = map[string]bool{}
		}
		s.finished[d][stage] = true
	}
	s.leave(d)
}

// whole is an event of the pipeline itself.
func (s *inside) whole(e deploylog.Event) {
	details := s.details(e)
	for _, step := range details.Steps {
		key := string(step.Target) + " " + step.Event
		switch e.Name {
		case "pipeline-steps-begun":
			if s.work[step.Deployment] == nil {
				s.work[step.Deployment] = map[string]string{}
			}
			s.work[step.Deployment][key] = s.stage(step.Target)
			s.enter(e, step.Deployment, s.stage(step.Target))
		case "pipeline-steps-ended":
			if step.Outcome != "lost" {
				delete(s.work[step.Deployment], key)
			}
			s.leave(step.Deployment)
		}
	}
	switch status := ends[e.Name]; status {
	case "":
	case "running":
		s.ended[e.Deployment] = false
		s.rollback[e.Deployment] = s.rollback[e.Deployment] || details.Rollback != nil
	default:
		s.ended[e.Deployment] = true
		s.leave(e.Deployment)
	}
}

func (s *inside) enter(e deploylog.Event, deployment, stage string) {
	for _, b := range s.batches {
		if !has(b.stages, stage) || s.rollback[deployment] && len(b.stages) > 1 {
			continue
		}
		for other, in := range s.in[b.name] {
			if in && other != deployment {
				s.Errorf("event %d: %s is at work in batch %s, in which is %s", e.Seq, deployment, b.name, other)
			}
		}
		if s.in[b.name] == nil {
			s.in[b.name] = map[string]bool{}
		}
		s.in[b.name][deployment] = true
	}
}

// leave takes a deployment out of the batches in which nothing of it is running any more.
func (s *inside) leave(deployment string) {
	for _, b := range s.batches {
		running := false
		for _, stage := range s.work[deployment] {
			running = running || has(b.stages, stage)
		}
		if !running && (s.ended[deployment] || s.finished[deployment][b.stages[len(b.stages)-1]]) {
			delete(s.in[b.name], deployment)
		}
	}
}

func has(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}
