// Package complete proposes the words that may stand on a command line where a
// shell asks for them. It only reads, creates nothing, and reports no errors.
package complete

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// completionTime is how long the shell is kept waiting at most. What was found by
// then is what there is.
const completionTime = 500 * time.Millisecond

// Candidate is a word that may stand where the cursor is.
type Candidate struct{ Word, about string }

// candidates finds words, given what stands on the command line before them.
type candidates func(*Completion) []Candidate

// Completion is one question of a shell.
type Completion struct {
	*app.App
	Command *cobra.Command
	args    []string
	Ctx     context.Context
	Log     deploylog.Log // opened when it is asked for
}

// Register lets the shell propose the words that commands and flags take.
func Register(a *app.App, root *cobra.Command) {
	flag := func(c *cobra.Command, name string, find candidates) {
		if c.Flag(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, answers(a, find))
		}
	}
	flag(root, "engine", words("auto", engines.Docker, engines.OCI))
	flag(root, "oci-runtime", words("runc", "crun", "youki", "runsc"))
	flag(root, "output", func(c *Completion) []Candidate { return words(output.Formats(c.Command)...)(c) })
	for path, find := range map[string][]candidates{
		"pipeline release":  {pipelineNames},
		"pipeline artifact": {pipelineNames, revisionsOf(isRunning), artifactKinds},
		"pipeline approve":  {pipelineNames, approvalStages, revisionsOf(isRunning)},
		"pipeline cancel":   {pipelineNames, revisionsOf(isRunning)},
		"pipeline retry":    {pipelineNames, revisionsOf(hasEnded)},
		"pipeline delete":   {pipelineNames},
		"pipeline history":  {pipelineNames},
		"pipeline explain":  {pipelineTargets},
		"explain":           {allTargets},
		"env update":        {environmentNames},
		"env deploy":        {environmentNames},
		"env rollback":      {environmentNames},
		"env pause":         {environmentNames},
		"env resume":        {environmentNames},
		"env delete":        {environmentNames},
		"env revisions":     {environmentNames},
		"env show":          {environmentNames},
		"env history":       {environmentNames},
		"env diff":          {environmentNames, environmentRevisions, environmentRevisions},
		"log latest":        {logTargets},
	} {
		if c, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			c.ValidArgsFunction = answers(a, func(c *Completion) []Candidate {
				if len(c.args) >= len(find) {
					return nil
				}
				return find[len(c.args)](c)
			})
		}
	}
	for path, find := range map[string]candidates{
		"pipeline run": pipelineNames, "pipeline status": pipelineNames, "env run": environmentNames, "env status": environmentNames, "host check": hostNames,
	} {
		if c, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			c.ValidArgsFunction = answers(a, unused(find))
		}
	}
	for path, flags := range map[string]map[string]candidates{
		"apply": {"target": resourceNames}, "plan": {"target": resourceNames}, "destroy": {"target": resourceNames},
		"drift": {"target": resourceNames}, "validate": {"target": resourceNames}, "graph": {"target": resourceNames},
		"log list":   {"target": logTargets, "event": logEvents, "deployment": logRuns},
		"log follow": {"target": logTargets, "event": logEvents, "deployment": logRuns},
		"log runs":   {"target": runTargets},
		"env update": {"base": environmentRevisions}, "env deploy": {"revision": environmentRevisions},
		"env rollback": {"revision": environmentRevisions}, "env show": {"revision": environmentRevisions},
	} {
		if c, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			for name, find := range flags {
				flag(c, name, find)
			}
		}
	}
	var below func(*cobra.Command)
	below = func(c *cobra.Command) {
		flag(c, "abandon", DeadRuns)
		for _, sub := range c.Commands() {
			below(sub)
		}
	}
	below(root)
}

// answers makes of candidates what cobra asks for.
func answers(a *app.App, find candidates) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) (found []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		asked := &Completion{App: a, Command: c, args: args, Ctx: ctx}
		defer func() {
			if asked.Log != nil {
				_ = asked.Log.Close()
			}
			_ = recover() // a panic here must not reach the terminal
		}()
		for _, f := range find(asked) {
			// What is in a log was written by others.
			if !strings.HasPrefix(f.Word, typed) || strings.ContainsFunc(f.Word+f.about, unicode.IsControl) {
				continue
			}
			word := f.Word
			if f.about != "" {
				word = cobra.CompletionWithDesc(f.Word, f.about)
			}
			if !slices.Contains(found, word) {
				found = append(found, word)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// words are always the same.
func words(list ...string) candidates {
	return func(*Completion) []Candidate {
		found := make([]Candidate, len(list))
		for i, word := range list {
			found[i].Word = word
		}
		return found
	}
}

// unused are the candidates that do not stand on the command line already.
func unused(find candidates) candidates {
	return func(c *Completion) []Candidate {
		return slices.DeleteFunc(find(c), func(f Candidate) bool { return slices.Contains(c.args, f.Word) })
	}
}

// resourceNames are those of the manifests on the command line.
func resourceNames(c *Completion) []Candidate {
	given, _ := c.Command.Flags().GetStringArray("target")
	var found []Candidate
	for _, path := range c.args {
		sources, err := manifest.ReadFiles(slices.DeleteFunc([]string{path}, unreadable))
		if err != nil {
			continue
		}
		for _, s := range sources {
			var document struct {
				Resources map[string]struct {
					Type string `yaml:"type"`
				} `yaml:"resources"`
			}
			_ = yaml.Unmarshal(s.Data, &document) // of what is half written the rest will do
			for name, r := range document.Resources {
				if !slices.Contains(given, name) {
					found = append(found, Candidate{name, r.Type})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Candidate) int { return strings.Compare(a.Word, b.Word) })
	return found
}

// hostNames are those of the inventory.
func hostNames(c *Completion) []Candidate {
	path, err := c.Command.Flags().GetString("inventory")
	if err != nil || unreadable(path) {
		return nil
	}
	inv, err := work.NewHosts(path).Inventory()
	if err != nil {
		return nil
	}
	var found []Candidate
	for _, h := range inv.Hosts {
		found = append(found, Candidate{h.Name, h.Engine})
	}
	return found
}

// events are those of the log that a filter selects, as far as there is time;
// none where there is no log.
func (c *Completion) events(f deploylog.Filter) []deploylog.Event {
	if c.Log == nil {
		path, err := c.LogPath()
		if err != nil || unreadable(path) {
			return nil
		}
		log, err := sqlite.Open(c.Ctx, path, sqlite.Options{ReadOnly: true})
		if err != nil {
			return nil
		}
		c.Log = log
	}
	var events []deploylog.Event
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

func logTargets(c *Completion) []Candidate {
	seen := map[deploylog.Target]bool{}
	var found []Candidate
	for _, e := range slices.Backward(c.events(deploylog.Filter{Last: recent})) {
		if !seen[e.Target] {
			seen[e.Target] = true
			found = append(found, Candidate{Word: string(e.Target)})
		}
	}
	return found
}

func runTargets(c *Completion) []Candidate {
	return slices.DeleteFunc(logTargets(c), func(f Candidate) bool { return deploylog.Target(f.Word).Kind() != "run" })
}

func logEvents(c *Completion) []Candidate {
	seen := map[string]bool{}
	var found []Candidate
	for _, e := range c.events(deploylog.Filter{Last: recent}) {
		if !seen[e.Name] {
			seen[e.Name] = true
			found = append(found, Candidate{Word: e.Name})
		}
	}
	slices.SortFunc(found, func(a, b Candidate) int { return strings.Compare(a.Word, b.Word) })
	return found
}

// logRuns are the newest runs, newest first.
func logRuns(c *Completion) []Candidate {
	const newest = 20
	var found []Candidate
	for _, e := range slices.Backward(c.events(deploylog.Filter{Name: string(runner.RunStarted), Last: newest})) {
		found = append(found, runBegun(e))
	}
	return found
}

func runBegun(e deploylog.Event) Candidate {
	return Candidate{e.Deployment, fmt.Sprintf("%s %s", e.Target, e.CreatedAt.Local().Format(time.DateTime))}
}

// DeadRuns are those that have no end, nor a process, and for which something may
// wait, newest first.
func DeadRuns(c *Completion) []Candidate {
	given, _ := c.Command.Flags().GetStringArray("abandon")
	ended := map[string]bool{}
	var found []Candidate
	for _, e := range slices.Backward(c.events(deploylog.Filter{Target: "run/", Last: recent})) {
		switch e.Name {
		case e.Target.Succeeded(), e.Target.Failed(), runs.EventRunAbandoned:
			ended[e.Deployment] = true
		case e.Target.Started():
			if !ended[e.Deployment] && !slices.Contains(given, e.Deployment) && !runs.Alive(c.Log, e.Deployment) {
				found = append(found, runBegun(e))
			}
		}
	}
	if c.Ctx.Err() != nil {
		return nil // how those of which not all was read have ended is not known
	}
	return found
}
