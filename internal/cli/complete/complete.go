// Package complete proposes the words that may stand on a command line where a
// shell asks for them. It only reads, creates nothing, and reports no errors.
package complete

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/pipeline/deployment"
)

// completionTime is how long the shell is kept waiting at most. What was found by
// then is what there is.
const completionTime = 2 * time.Second

// Completion is one question of a shell.
type Completion struct {
	*app.App
	Command *cobra.Command
	args    []string // that stand on the command line before what is typed
	typed   string
	Ctx     context.Context
	Log     deploylog.Log // opened when it is asked for
	Found   []string      // words that may stand there, with what is known about them after a tab
	passed  map[string]bool
}

// candidates proposes words.
type candidates func(*Completion)

// propose adds a word to what was found, once.
func (c *Completion) propose(word, about string) {
	// What is in a log was written by others.
	if c.passed[word] || !strings.HasPrefix(word, c.typed) || strings.ContainsFunc(word+about, unicode.IsControl) {
		return
	}
	c.pass(word)
	if about != "" {
		word = cobra.CompletionWithDesc(word, about)
	}
	c.Found = append(c.Found, word)
}

// pass keeps words from being proposed.
func (c *Completion) pass(words ...string) {
	if c.passed == nil {
		c.passed = map[string]bool{}
	}
	for _, word := range words {
		c.passed[word] = true
	}
}

// words proposes what is always the same.
func words(list ...string) candidates {
	return func(c *Completion) {
		for _, word := range list {
			c.propose(word, "")
		}
	}
}

// table has the candidates of arguments, by what usage lines call them, and of flags:
// those of a command, of all commands below one, or of all.
type table map[string]candidates

func newTable() table {
	return table{
		"PIPELINE":                  pipelineNames,
		"pipeline STAGE":            approvalStages,
		"pipeline rollback STAGE":   hostStages,
		"pipeline --revision":       revisions(deployment.Finished, deployment.Running),
		"pipeline repair STAGE":     deployStages,
		"pipeline rerun STAGE":      workingStages,
		"pipeline rerun REVISION":   revisions(deployment.Finished, deployment.Running),
		"pipeline pause STAGE":      stageNames,
		"pipeline resume STAGE":     stageNames,
		"pipeline key ID":           approvalKeys,
		"pipeline key create ID":    words(),
		"pipeline key add ID":       words(),
		"pipeline key --stage":      approvalStages,
		"pipeline KIND":             artifactKinds,
		"pipeline GROUP":            hostGroups,
		"pipeline REVISION":         revisions(deployment.Running),
		"pipeline release --input":  pipelineInputs,
		"pipeline release REVISION": words(), // it is a new one
		"pipeline retry REVISION":   revisions(deployment.Failed, deployment.Cancelled, deployment.PassedOver),
		"env NAME":                  environmentNames,
		"env A":                     environmentRevisions,
		"env B":                     environmentRevisions,
		"env --base":                environmentRevisions,
		"env --revision":            environmentRevisions,
		"build ID":                  buildGroups,
		"build JOB":                 buildJobs,
		"HOST":                      hostNames,
		"explain TARGET":            allTargets,
		"pipeline TARGET":           pipelineTargets,
		"log TARGET":                logTargets,
		"log --target":              logTargets,
		"log runs --target":         runTargets,
		"log --event":               logEvents,
		"log --deployment":          logRuns,
		"--target":                  resourceNames("target"),
		"--replace":                 resourceNames("replace"),
		"adopt RESOURCE":            resourceNames("target"),
		"--abandon":                 DeadRuns,
		"--engine":                  words("auto", engines.Docker, engines.OCI, engines.Kubernetes),
		"--pod-security":            words("restricted", "baseline"),
		"--oci-runtime":             words("runc", "crun", "youki", "runsc"),
		"--output":                  func(c *Completion) { words(output.Formats(c.Command)...)(c) },
	}
}

// of finds the candidates of an argument or flag of a command; nil are none.
func (t table) of(c *cobra.Command, what string) candidates {
	for ; c != nil; c = c.Parent() {
		_, path, _ := strings.Cut(c.CommandPath()+" ", " ")
		if find, ok := t[path+what]; ok {
			return find
		}
	}
	return nil
}

// arguments finds the candidates of the arguments in the usage line of a command;
// nil are none.
func (t table) arguments(c *cobra.Command) candidates {
	var find []candidates
	for _, argument := range strings.Fields(c.Use)[1:] {
		f := t.of(c, strings.Trim(argument, "[…]"))
		switch {
		case f == nil || argument[0] == '-':
		case strings.Contains(argument, "…"): // any number, each once
			return func(c *Completion) {
				if len(c.args) < len(find) {
					find[len(c.args)](c)
					return
				}
				c.pass(c.args[len(find):]...)
				f(c)
			}
		default:
			find = append(find, f)
		}
	}
	if find == nil {
		return nil
	}
	return func(c *Completion) {
		if len(c.args) < len(find) {
			find[len(c.args)](c)
		}
	}
}

// Register lets the shell propose the words that commands and flags take.
func Register(a *app.App, root *cobra.Command) { newTable().register(a, root) }

func (t table) register(a *app.App, c *cobra.Command) {
	if find := t.arguments(c); find != nil {
		c.ValidArgsFunction = answers(a, find)
	}
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if find := t.of(c, "--"+flag.Name); find != nil {
			_ = c.RegisterFlagCompletionFunc(flag.Name, answers(a, find))
		}
	})
	for _, below := range c.Commands() {
		t.register(a, below)
	}
}

// answers makes of candidates what cobra asks for.
func answers(a *app.App, find candidates) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, typed string) (_ []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		c := &Completion{App: a, Command: command, args: args, typed: typed, Ctx: ctx}
		defer func() {
			if c.Log != nil {
				_ = c.Log.Close()
			}
			_ = recover() // a panic here must not reach the terminal
		}()
		find(c)
		return c.Found, cobra.ShellCompDirectiveNoFileComp
	}
}
