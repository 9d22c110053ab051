package complete

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/runner/report"
)

// unreadable reports whether a path is of no regular file: reading it could make
// the shell wait, or take away what somebody else is to read.
func unreadable(path string) bool {
	info, err := os.Stat(path)
	return err != nil || !info.Mode().IsRegular()
}

// resourceNames are those of the manifests on the command line, and of the modules around them.
func resourceNames(flag string) candidates {
	return func(c *Completion) {
		about := map[string]string{}
		included := expression.New(c.Workspace)
		files, _ := c.Command.Flags().GetStringArray("file") // other commands have them as arguments
		for _, path := range slices.DeleteFunc(append(files, c.args...), unreadable) {
			sources, _ := manifest.ReadFiles([]string{path})
			for _, s := range sources {
				outline, _ := manifest.Outline(s, included) // of what is half written the rest will do
				for _, r := range outline.Resources {
					about[r.Name] = r.Type
					for i, dot := range r.Name {
						if dot == '.' {
							about[r.Name[:i]] = "module"
						}
					}
				}
			}
		}
		given, _ := c.Command.Flags().GetStringArray(flag)
		c.pass(given...)
		for _, name := range slices.Sorted(maps.Keys(about)) {
			c.propose(name, about[name])
		}
	}
}

// hostNames are those of the inventory.
func hostNames(c *Completion) {
	path, err := c.Command.Flags().GetString("inventory")
	if err != nil || unreadable(path) {
		return
	}
	inv, err := work.NewHosts(path).Inventory()
	if err != nil {
		return
	}
	for _, h := range inv.Hosts {
		c.propose(h.Name, h.Engine)
	}
}

// events are those of the log that a filter selects, as far as there is time;
// none where there is no log.
func (c *Completion) events(f deploylog.Filter) (events []deploylog.Event) {
	if c.Log == nil {
		log, err := c.ReadLog(c.Ctx)
		if err != nil {
			return nil
		}
		c.Log = log
	}
	for e, err := range c.Log.Read(c.Ctx, f) {
		if err != nil {
			break
		}
		events = append(events, e)
	}
	return events
}

// recent is how many events are looked at for names that have no list.
const recent = 5000

func logTargets(c *Completion) { c.recentTargets("") }
func runTargets(c *Completion) { c.recentTargets("run/") }

func (c *Completion) recentTargets(kind string) {
	for _, e := range slices.Backward(c.events(deploylog.Filter{Last: recent})) {
		if strings.HasPrefix(string(e.Target), kind) {
			c.propose(string(e.Target), "")
		}
	}
}

func logEvents(c *Completion) {
	for _, e := range c.events(deploylog.Filter{Last: recent}) {
		c.propose(e.Name, "")
	}
	slices.Sort(c.Found)
}

// logRuns are the newest runs, newest first.
func logRuns(c *Completion) {
	const newest = 20
	for _, e := range slices.Backward(c.events(deploylog.Filter{Name: string(report.RunStarted), Last: newest})) {
		c.proposeRun(e)
	}
}

func (c *Completion) proposeRun(began deploylog.Event) {
	c.propose(began.Deployment, fmt.Sprintf("%s %s", began.Target, phrase.Moment(began.CreatedAt)))
}

// DeadRuns are those that have no end, nor a process, and for which something may
// wait, newest first.
func DeadRuns(c *Completion) {
	given, _ := c.Command.Flags().GetStringArray("abandon")
	c.pass(given...)
	for _, e := range slices.Backward(c.events(deploylog.Filter{Target: "run/", Last: recent})) {
		switch e.Name {
		case e.Target.Succeeded(), e.Target.Failed(), runs.EventRunAbandoned:
			c.pass(e.Deployment)
		case e.Target.Started():
			if !c.passed[e.Deployment] && !runs.Alive(c.Log, e.Deployment) {
				c.proposeRun(e)
			}
		}
	}
	if c.Ctx.Err() != nil {
		c.Found = nil // how those of which not all was read have ended is not known
	}
}

// living are the names that were begun and not ended since, sorted.
func (c *Completion) living(kind, begins, ends string) []string {
	all := deploylog.Target(kind + "/")
	ended := map[deploylog.Target]int64{}
	for _, e := range c.events(deploylog.Filter{Target: all, Name: ends}) {
		ended[e.Target] = e.Seq
	}
	begun := map[string]bool{}
	for _, e := range c.events(deploylog.Filter{Target: all, Name: begins}) {
		if e.Seq > ended[e.Target] {
			begun[strings.TrimPrefix(string(e.Target), string(all))] = true
		}
	}
	return slices.Sorted(maps.Keys(begun))
}

func (c *Completion) pipelines() []string {
	return slices.Concat(c.living("pipeline", record.PipelineDefined, record.PipelineDeleted), c.living("pipeline", promotion.PipelineDefined, promotion.PipelineDeleted))
}

func (c *Completion) environments() []string {
	return c.living("environment", envrecord.EnvironmentCreated, envrecord.EnvironmentDeleted)
}

func pipelineNames(c *Completion)    { words(c.pipelines()...)(c) }
func environmentNames(c *Completion) { words(c.environments()...)(c) }

// pipeline is folded from its own events, without those of its stages.
func (c *Completion) pipeline(name string) *pipeline.State {
	s := pipeline.New(name)
	for _, e := range c.events(deploylog.Filter{Target: record.Target(name)}) {
		s.Apply(e)
	}
	return s
}

// revisions are those of the pipeline on the command line that have come to one of
// these, newest first.
func revisions(have ...deployment.Status) candidates {
	return func(c *Completion) {
		for _, r := range slices.Backward(c.pipeline(c.args[0]).Registrations()) {
			if slices.Contains(have, r.Status) {
				c.propose(r.Revision, string(r.Status))
			}
		}
	}
}

// pipelineInputs are the newest revisions of other pipelines of which a release takes one,
// whether they have passed or not.
func pipelineInputs(c *Completion) {
	if len(c.args) == 0 {
		return
	}
	d := c.pipeline(c.args[0]).Definition()
	if d == nil {
		return
	}
	const newest = 20
	for _, n := range d.Needs() {
		all := c.pipeline(n.Pipeline).Registrations()
		for _, r := range slices.Backward(all[max(0, len(all)-newest):]) {
			if r.Rollback == nil {
				c.propose(n.Pipeline+"="+r.Revision, string(r.Status))
			}
		}
	}
}

// stages are those of the pipeline on the command line.
func (c *Completion) stages() []definition.Stage {
	if d := c.pipeline(c.args[0]).Definition(); d != nil {
		return d.Stages
	}
	return nil
}

func approvalStages(c *Completion) {
	for _, s := range c.stages() {
		if s.Approval != nil {
			c.propose(s.Name, "")
		}
	}
}

// approvalKeys are the keys of a pipeline that are not revoked.
func approvalKeys(c *Completion) {
	for _, k := range c.pipeline(c.args[0]).Keys().All() {
		if k.Revoked == 0 {
			c.propose(k.ID, k.Identity())
		}
	}
}

func stageNames(c *Completion) {
	for _, s := range c.stages() {
		c.propose(s.Name, "")
	}
}

// hostStages are those that deploy to hosts, or to an environment.
func hostStages(c *Completion) {
	for _, s := range c.stages() {
		if s.Deploy != nil || s.Environment != "" {
			c.propose(s.Name, "")
		}
	}
}

// deployStages are those that deploy to hosts.
func deployStages(c *Completion) {
	for _, s := range c.stages() {
		if s.Deploy != nil {
			c.propose(s.Name, "")
		}
	}
}

// workingStages are those that do something by themselves.
func workingStages(c *Completion) {
	for _, s := range c.stages() {
		if s.Approval == nil && !s.Build.Elsewhere() {
			c.propose(s.Name, "")
		}
	}
}

func hostGroups(c *Completion) {
	for _, s := range c.stages() {
		if s.Deploy != nil {
			for _, g := range s.Deploy.HostGroups {
				c.propose(g.Name, "")
			}
		}
	}
}

func artifactKinds(c *Completion) {
	for _, s := range c.stages() {
		if s.Build.Elsewhere() {
			words(s.Build.Artifacts...)(c)
		}
	}
}

// pipelineTargets are what of pipelines can be explained.
func pipelineTargets(c *Completion) {
	for _, name := range c.pipelines() {
		s := c.pipeline(name)
		for _, e := range c.events(deploylog.Filter{Target: deploylog.Target("host-group/" + name + "/"), Name: record.MembersChanged}) {
			s.Apply(e)
		}
		for _, place := range s.Places() {
			c.propose(string(place.Target), "")
		}
	}
}

func allTargets(c *Completion) {
	for _, name := range c.environments() {
		c.propose(string(envrecord.Target(name)), "")
	}
	pipelineTargets(c)
}

// environmentRevisions are those of the environment on the command line, newest
// first.
func environmentRevisions(c *Completion) {
	if len(c.args) == 0 {
		return
	}
	var made []deploylog.Event
	for _, name := range []string{envrecord.EnvironmentCreated, envrecord.EnvironmentUpdated} {
		made = append(made, c.events(deploylog.Filter{Target: envrecord.Target(c.args[0]), Name: name})...)
	}
	for _, e := range slices.Backward(made) {
		c.propose(e.Revision, phrase.Moment(e.CreatedAt))
	}
}
