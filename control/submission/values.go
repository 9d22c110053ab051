package submission

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/build/plan"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/phrase"
)

// MaxValue is how long a value may be once it is evaluated, in bytes: no argument of a
// program is longer.
const MaxValue = 128 << 10

// evaluate finds out what each package runs.
func (s *collecting) evaluate(p *plan.Plan) error {
	e := &evaluation{collecting: s, known: map[string]string{}, shared: map[*definition.Job]*recipe.Recipe{}}
	s.jobs, s.sources = map[string]*job{}, map[*recipe.Recipe][]string{}
	var order []*definition.Package
	for _, j := range p.Jobs {
		if s.jobs[j.Package] == nil {
			pkg := s.packages[j.Package]
			s.jobs[j.Package] = &job{pkg: pkg}
			order = append(order, pkg)
		}
	}
	released := s.uses(p)
	if err := e.readVariables(order, released); err != nil {
		return err
	}
	for _, pkg := range order {
		if pkg.Job.Image == (definition.Value{}) && !s.unnamed {
			e.problem(pkg.At, pkg, "", "it runs no image; give it one, or give one to all of them in job")
		}
		s.jobs[pkg.Name].recipe = e.recipe(pkg)
	}
	for _, pkg := range released {
		if pkg.Have != nil && pkg.Have.Path.Text != "" {
			pkg.Have.Path.Text = e.path(pkg, "released.path", pkg.Have.Path)
		}
	}
	return nil
}

// uses are the packages of which what was released is used, sorted.
func (s *collecting) uses(p *plan.Plan) []*definition.Package {
	names := map[string]bool{}
	for _, j := range p.Jobs {
		for _, u := range j.Uses {
			if u.Job == 0 {
				names[u.Package] = true
			}
		}
	}
	var all []*definition.Package
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, s.packages[name])
	}
	return all
}

// evaluation evaluates the values of jobs.
type evaluation struct {
	*collecting
	variables
	known  map[string]string                  // what texts come to that do not read their package
	shared map[*definition.Job]*recipe.Recipe // of jobs that do not either
}

// values calls each with the values of a job in which expressions are evaluated.
func values(j *definition.Job, each func(key string, v definition.Value, secret bool)) {
	each("image", j.Image, false)
	each("entrypoint", j.Entrypoint, false)
	for i, v := range j.Args {
		each("args["+strconv.Itoa(i)+"]", v, false)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		each("env."+name, j.Env[name], false)
	}
	for i, v := range j.Sources {
		each("sources["+strconv.Itoa(i)+"]", v, false)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Secrets)) {
		each("secrets."+name, j.Secrets[name], true)
	}
}

// recipe is what a package runs, without the contents of its image and its sources.
func (e *evaluation) recipe(pkg *definition.Package) *recipe.Recipe {
	j := pkg.Job
	if r := e.shared[j]; r != nil {
		return r
	}
	own := false
	values(j, func(_ string, v definition.Value, _ bool) { own = own || e.readsPackage(v.Text) })
	r := &recipe.Recipe{Memory: j.Memory, Pids: j.Pids, Network: j.Network, Timeout: j.Timeout}
	if j.Reuse != nil {
		r.Reuse = map[bool]recipe.Reuse{true: recipe.ReuseAlways, false: recipe.ReuseNever}[*j.Reuse]
	}
	r.Image.Image = e.image(pkg)
	r.Entrypoint = e.value(pkg, "entrypoint", j.Entrypoint)
	if j.Args != nil {
		r.Args = []string{}
	}
	for i, v := range j.Args {
		r.Args = append(r.Args, e.value(pkg, "args["+strconv.Itoa(i)+"]", v))
	}
	for name, v := range j.Env {
		if r.Env == nil {
			r.Env = map[string]string{}
		}
		r.Env[name] = e.value(pkg, "env."+name, v)
	}
	for name, v := range j.Secrets {
		if r.Secrets == nil {
			r.Secrets = map[string]recipe.Secret{}
		}
		secret := recipe.Secret{Value: v.Text}
		if e.readsPackage(v.Text) {
			secret.Package, secret.Version = pkg.Name, pkg.Version
		}
		r.Secrets[name] = secret
		e.value(pkg, "secrets."+name, v) // for what is wrong with it
	}
	var paths []string
	for i, v := range j.Sources {
		at := e.path(pkg, "sources["+strconv.Itoa(i)+"]", v)
		if at != "" {
			paths = append(paths, at)
		}
		e.sources[r] = append(e.sources[r], at)
	}
	for _, at := range outermost(paths) {
		r.Sources = append(r.Sources, recipe.Source{Path: at})
	}
	for _, plug := range j.Plugs {
		r.Plugs = append(r.Plugs, recipe.Plug{Path: plug.Path, ContainerPath: plug.ContainerPath, ReadOnly: plug.ReadOnly})
	}
	if !own {
		e.shared[j] = r
	}
	return r
}

// outermost are paths, sorted, without those that others of them contain.
func outermost(paths []string) (all []string) {
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		if !slices.ContainsFunc(all, func(outer string) bool { return strings.HasPrefix(p, outer+"/") }) {
			all = append(all, p)
		}
	}
	return all
}

func (e *evaluation) image(pkg *definition.Package) string {
	at := pkg.Job.Image
	name := e.value(pkg, "image", at)
	switch {
	case !expression.IsTemplate(at.Text) || e.failed[at.At]: // or it has been checked
	case name == "" || strings.ContainsAny(name, " \t\n"):
		e.problem(at.At, pkg, "image", "%.100q is not an image: its name is not empty and has no spaces", name)
	case strings.HasPrefix(name, "deployster/"):
		e.problem(at.At, pkg, "image", "%.100q is a resource type that ships, and no image that a job could run", name)
	}
	return name
}

// path evaluates a path below the workspace; "" is none, which has been reported.
func (e *evaluation) path(pkg *definition.Package, key string, v definition.Value) string {
	at := e.value(pkg, key, v)
	if e.failed[v.At] {
		return ""
	}
	if why := definition.PathProblem(at); why != "" {
		e.problem(v.At, pkg, key, "%.100q %s", at, why)
		return ""
	}
	return path.Clean(at)
}

// value evaluates a value of a package; "" is also one that has been reported.
func (e *evaluation) value(pkg *definition.Package, key string, v definition.Value) string {
	if !expression.IsTemplate(v.Text) {
		return v.Text
	}
	if known, is := e.known[v.Text]; is {
		return known
	}
	if e.expressions == nil || e.failed[v.At] {
		e.failed[v.At] = true // what it comes to is not known
		return ""
	}
	vars, own := e.values, e.readsPackage(v.Text)
	if own {
		vars = with(vars, pkg.Name, pkg.Version)
	}
	result, err := e.expressions.Evaluate(v.Text, vars)
	var out string
	if err == nil {
		out, err = text(result)
	}
	if err != nil {
		e.problem(v.At, pkg, key, "%s", err)
		return ""
	}
	if !own {
		e.known[v.Text] = out
	}
	return out
}

// text is a value as an argument of a program.
func text(value any) (string, error) {
	var out string
	switch v := value.(type) {
	case string:
		out = v
	case bool, int64, float64:
		out = fmt.Sprint(v)
	default:
		return "", fmt.Errorf("it comes to %s and must be a text", phrase.Kind(value))
	}
	switch {
	case len(out) > MaxValue:
		return "", fmt.Errorf("it comes to %d bytes; at most %d are possible", len(out), MaxValue)
	case strings.ContainsRune(out, 0):
		return "", errors.New("it comes to a text with a NUL character")
	}
	return out, nil
}
