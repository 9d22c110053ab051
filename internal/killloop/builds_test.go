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

// run is the command of a dispatcher.
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

// name is that of the job of an ident, such as core/glibc/2.29/N-1.
func name(ident string) string {
	parts := strings.Split(ident, "/")
	return parts[1] + "." + strings.TrimPrefix(parts[3], "N-")
}

// submit queues a group of the first jobs of the manifest, and returns its id.
func (d *distribution) submit(jobs int, version string, flags ...string) string {
	d.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "group: dist\njob: {image: 'maker:1', args: ['{{ package.name }}'], env: {VERSION: '%s'}, network: none, plugs: [{path: '%s', container_path: /world}]}\njobs:\n", version, d.path("world"))
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
