package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view/groups"
)

func newShowCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID [JOB]",
		Short: "Print what a build group carries, or what one of its jobs is",
		Long: `Print what a build group carries since it was submitted: its file, with the hashes of what
else it carries, its variables, and the images of its jobs with their contents; or, of one of
its jobs, what that runs, uses and has built, with the metadata that it wrote.`,
		Example: "  deployster build show base-7 > packages.yaml\n  deployster build show base-7 gcc --output json",
		Args:    arguments.NamedAtLeast(1, "a build group", "a job"),
		RunE: func(c *cobra.Command, args []string) error {
			return withGroups(c.Context(), a, args[:1], 0, func(b *query.Builds) error {
				if len(args) == 2 {
					return showJob(a, b, args[0], args[1])
				}
				return showGroup(a, b, args[0])
			})
		},
	}
}

func showGroup(a *app.App, b *query.Builds, group string) error {
	s, err := b.BuildStatus(group, nil)
	if err != nil {
		return err
	}
	texts, err := a.Texts()
	if err != nil {
		return err
	}
	carries := s.Triggered.Carries
	images, err := imagesOf(texts, carries)
	if err != nil {
		return fmt.Errorf("build group %s: %w", s.ID, err)
	}
	document := map[string]any{"group": s.ID, "triggered": s.Triggered, "images": images}
	if variables, err := texts.Variables(carries); err == nil && variables != nil {
		document["variables"] = variables
	}
	return a.Show(document, func() error {
		text := ""
		if digest, ok := carries[s.Triggered.File]; ok {
			file, err := texts.Load(digest)
			if err != nil {
				return fmt.Errorf("build group %s: %w", s.ID, err)
			}
			text = strings.TrimRight(string(file), "\n") + "\n"
		}
		text += "# The group carries:\n" + output.Carried("#   ", texts, withoutRecipes(carries))
		if of := groups.Source(s.Triggered.Source); of != "" {
			text += "#   sources" + of + "\n"
		}
		for _, i := range images {
			text += fmt.Sprintf("#   image %s %s\n", output.InLine(i.Image), output.InLine(content(i)))
		}
		return a.Printf("%s", text)
	})
}

// withoutRecipes is what a group carries but for what its jobs run.
func withoutRecipes(carries record.Carries) map[string]string {
	rest := maps.Clone(map[string]string(carries))
	maps.DeleteFunc(rest, func(name, _ string) bool { return strings.HasPrefix(name, recipesPrefix) })
	return rest
}

// recipesPrefix begins the names of what jobs run.
var recipesPrefix = strings.TrimSuffix(recipe.Name(0), "0")

// imagesOf are the images of the jobs of a group, each once.
func imagesOf(texts work.Texts, carries record.Carries) ([]recipe.Image, error) {
	known := map[recipe.Image]bool{}
	images := []recipe.Image{}
	for _, name := range slices.Sorted(maps.Keys(carries)) {
		if !strings.HasPrefix(name, recipesPrefix) {
			continue
		}
		text, err := texts.Load(carries[name])
		if err != nil {
			return nil, err
		}
		_, recipes, err := recipe.Decode(text)
		if err != nil {
			return nil, err
		}
		for _, r := range recipes {
			if !known[r.Image] {
				known[r.Image] = true
				images = append(images, r.Image)
			}
		}
	}
	return images, nil
}

// content says in words which content an image has.
func content(i recipe.Image) string {
	return revision.Image{Image: i.Image, ID: i.ID, Digest: i.Digest, Unpinned: i.Unpinned}.Described()
}

func showJob(a *app.App, b *query.Builds, group, job string) error {
	j, err := b.Job(group, job)
	if err != nil {
		return err
	}
	s, err := b.BuildStatus(j.Group, nil)
	if err != nil {
		return err
	}
	r, err := recipeOf(a, s.Triggered.Carries, j.Recipe)
	if err != nil {
		return fmt.Errorf("%s of build group %s: %w", groups.Name(j), j.Group, err)
	}
	return a.Show(map[string]any{"job": j, "recipe": r}, func() error { return a.Printf("%s", jobText(j, r, s.Triggered.Source)) })
}

// recipeOf is what a job runs.
func recipeOf(a *app.App, carries record.Carries, index int) (r recipe.Recipe, err error) {
	texts, err := a.Texts()
	if err != nil {
		return r, err
	}
	text, err := texts.Load(carries[recipe.Name(index)])
	if err != nil {
		return r, err
	}
	return recipe.At(text, index)
}

// jobText is a job, a property a line.
func jobText(j build.JobReport, r recipe.Recipe, from *record.Source) string {
	var b strings.Builder
	say := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name, output.InLine(text))
		}
	}
	say("job", fmt.Sprintf("%s/%d", j.Group, j.Number))
	say("package", groups.Package(j))
	say("version", j.Version)
	say("state", j.State.String())
	say("cause", j.Cause)
	say("platform", j.Place.Platform)
	say("workers", j.Place.Workers)
	say("image", r.Image.Image+" "+content(r.Image))
	say("entrypoint", r.Entrypoint)
	for _, arg := range r.Args {
		say("arg", output.ShellWord(arg))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		say("env", name+"="+r.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Secrets)) {
		say("secret", name+"="+r.Secrets[name].Value)
	}
	for _, s := range r.Sources {
		say("source", s.Path+groups.Source(from))
	}
	for _, p := range r.Plugs {
		say("plug", strings.TrimSpace(p.Path+" at "+p.ContainerPath+" "+p.Content))
	}
	if !r.Reusable() {
		say("reuse", "false")
	}
	say("network", r.Network)
	if r.Memory > 0 {
		say("memory", phrase.Size(r.Memory))
	}
	if r.Timeout > 0 {
		say("timeout", r.Timeout.String())
	}
	for _, u := range j.Uses {
		say("uses", used(u))
	}
	for n := range strings.SplitSeq(numbers(j.Waits, true), ", ") {
		say("waits for", n)
	}
	if j.Finished != nil {
		sayFinished(say, *j.Finished)
	}
	return b.String()
}

// used is what a job uses of a package.
func used(u record.Use) string {
	switch {
	case u.Job > 0:
		return fmt.Sprintf("%s (job %d)", u.Package, u.Job)
	case u.Artifact != "":
		return fmt.Sprintf("%s (released: %s)", u.Package, u.Artifact)
	default:
		return u.Package + " (released)"
	}
}

func sayFinished(say func(name, text string), f record.Finished) {
	say("artifact", f.Artifact)
	if f.Artifact != "" {
		say("size", fmt.Sprintf("%s in %s", phrase.Size(f.Size), phrase.Count(f.Files, "file")))
	}
	say("reused", string(f.Reused))
	say("worker", f.Worker)
	say("engine", f.Engine)
	if f.Took > 0 {
		say("took", phrase.Took(f.Took))
	}
	say("pushed", f.Pushed)
	say("provenance", f.Provenance)
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		say("metadata", key+"="+f.Metadata[key])
	}
}
