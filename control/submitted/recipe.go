package submitted

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/submission"
)

// checkRecipe refuses what no definition comes to.
func checkRecipe(r recipe.Recipe) error {
	for _, check := range []func(recipe.Recipe) error{checkImage, checkProgram, checkEnvironment, checkSources, checkPlugs} {
		if err := check(r); err != nil {
			return err
		}
	}
	switch {
	case r.Memory != 0 && (r.Memory < definition.MinMemory || r.Memory > definition.MaxMemory):
		return fmt.Errorf("it is to have %d bytes of memory", r.Memory)
	case r.Pids < 0 || r.Pids > definition.MaxPids:
		return fmt.Errorf("it is to have %d processes", r.Pids)
	case r.Timeout != 0 && (r.Timeout < definition.MinTimeout || r.Timeout > definition.MaxTimeout):
		return fmt.Errorf("it is to end within %s", r.Timeout)
	case r.Reuse != "" && r.Reuse != recipe.ReuseNever && r.Reuse != recipe.ReuseAlways:
		return fmt.Errorf("%.60q does not say whether what it builds is used again", r.Reuse)
	case !isText(r.Network):
		return fmt.Errorf("%.60q is no network", r.Network)
	}
	return nil
}

func checkImage(r recipe.Recipe) error {
	i := r.Image
	switch why := definition.ImageProblem(i.Image); {
	case i.Image == "" || !isText(i.Image):
		return fmt.Errorf("%.100q is no image", i.Image)
	case why != "":
		return fmt.Errorf("%.100q %s", i.Image, why)
	case i.ID == "" && i.Unpinned == "" && (i.Digest == "" || !revision.IsContent(i.Image)):
		return fmt.Errorf("which content image %s has is not said, nor why", i.Image)
	case !isText(i.ID) || !isText(i.Digest) || len(i.Unpinned) > maxCause || strings.ContainsFunc(i.Unpinned, isControl):
		return fmt.Errorf("what is said of image %s are no short texts", i.Image)
	}
	return nil
}

func checkProgram(r recipe.Recipe) error {
	if len(r.Args) > definition.MaxArgs {
		return fmt.Errorf("it has %d arguments, at most %d are possible", len(r.Args), definition.MaxArgs)
	}
	for _, text := range append([]string{r.Entrypoint}, r.Args...) {
		if !isValue(text) {
			return fmt.Errorf("%.60q cannot be an argument", text)
		}
	}
	return nil
}

// isValue reports whether a value can be given to a program.
func isValue(text string) bool {
	return len(text) <= submission.MaxValue && !strings.ContainsRune(text, 0)
}

func checkEnvironment(r recipe.Recipe) error {
	if len(r.Env) > definition.MaxEnv || len(r.Secrets) > definition.MaxEnv {
		return fmt.Errorf("it has %d variables, at most %d are possible", max(len(r.Env), len(r.Secrets)), definition.MaxEnv)
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(r.Env)), slices.Sorted(maps.Keys(r.Secrets))) {
		if why := definition.VariableProblem(name); why != "" {
			return fmt.Errorf("%.60q %s", name, why)
		}
		_, both := r.Secrets[name]
		if _, plain := r.Env[name]; plain && both {
			return fmt.Errorf("variable %s is a secret, and none", name)
		}
		if s := r.Secrets[name]; !isValue(r.Env[name]) || !isValue(s.Value) || !isText(s.Package) || !isText(s.Version) {
			return fmt.Errorf("variable %s cannot have its value", name)
		}
	}
	return nil
}

func checkSources(r recipe.Recipe) error {
	switch {
	case len(r.Sources) > definition.MaxSources:
		return fmt.Errorf("it has %d sources, at most %d are possible", len(r.Sources), definition.MaxSources)
	case r.Artifact == "" != (len(r.Sources) == 0):
		return fmt.Errorf("it has %d sources, and their artifact is %.90q", len(r.Sources), r.Artifact)
	case r.Artifact != "" && !definition.IsDigest(r.Artifact):
		return fmt.Errorf("%.90q is not the digest of an artifact", r.Artifact)
	}
	for _, s := range r.Sources {
		if why := definition.PathProblem(s.Path); why != "" {
			return fmt.Errorf("source %.100q %s", s.Path, why)
		}
	}
	return nil
}

func checkPlugs(r recipe.Recipe) error {
	if len(r.Plugs) > definition.MaxPlugs {
		return fmt.Errorf("it has %d plugs, at most %d are possible", len(r.Plugs), definition.MaxPlugs)
	}
	taken := map[string]bool{}
	for _, p := range r.Plugs {
		for _, at := range []string{p.Path, p.ContainerPath} {
			if !isText(at) || !strings.HasPrefix(at, "/") || path.Clean(at) != at {
				return fmt.Errorf("%.100q cannot be the path of a plug", at)
			}
		}
		if why := definition.PlugProblem(p.ContainerPath); why != "" {
			return fmt.Errorf("%s %s", p.ContainerPath, why)
		}
		if p.Content != "" && (!p.ReadOnly || !definition.IsDigest(p.Content)) {
			return fmt.Errorf("%.90q cannot be the content of plug %s", p.Content, p.Path)
		}
		if taken[p.ContainerPath] {
			return fmt.Errorf("there is another plug at %s", p.ContainerPath)
		}
		taken[p.ContainerPath] = true
	}
	return nil
}
