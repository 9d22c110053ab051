package work

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
	"github.com/deployster-go/deployster/runner/invoke"
)

// bounds are what an input may bring of a revision by who may not bring everything: what the definition comes to by
// itself, and what it allows beyond that.
type bounds struct {
	allow   *allow.Rules
	former  []*allow.Rules // that definitions allowed since the revision was made: what was made within them can be observed and removed
	own     *Input         // what the definition comes to, whatever the revision says; nil is nothing
	unknown string         // why that is not known
	neutral string         // text in own for what a revision says
	removes bool
	secrets []any // of the revision: an error shows none of them
}

// BoundsError is that a revision would bring what it may not.
type BoundsError struct {
	Excess  []allow.Excess
	unknown string
	removes bool
}

// Error implements error.
func (e *BoundsError) Error() string {
	lines := make([]string, len(e.Excess))
	for i, one := range e.Excess {
		lines[i] = one.String()
	}
	text := "the revision may not bring this: " + strings.Join(lines, "; ")
	if e.unknown != "" {
		text += " (what the definition names itself is not known: " + e.unknown + ")"
	}
	if e.removes {
		return text + "; allow it in the definition until it is removed, or remove it by hand"
	}
	return text + "; allow it in the definition, or have the revision made by an operator of everything"
}

// newNeutral returns a text that stands for what a revision says, each time another one: no revision can say the same.
// It may be a part of a tag, of a repository and of a path.
func newNeutral() string { return "x" + strings.ToLower(rand.Text()) }

// neutralized is a value with a text in the place of each of its texts.
func neutralized(value any, neutral string) any {
	switch v := value.(type) {
	case string:
		return neutral
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			out[key] = neutralized(item, neutral)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = neutralized(item, neutral)
		}
		return out
	default:
		return value
	}
}

// ownLoader loads what definitions name themselves.
type ownLoader struct {
	Inputs
	Texts
	among   *Hosts
	neutral string                                           // as of newNeutral
	looks   bool                                             // nothing is made: a secret that is gone may be supposed to be neutral
	values  func(files map[string]string) ([]present, error) // of the variables
}

// ownLoader loads what definitions name themselves, with the present values of their secrets.
func (i Inputs) ownLoader(t Texts, among *Hosts, neutral string) ownLoader {
	return ownLoader{Inputs: i, Texts: t, among: among, neutral: neutral, values: func(files map[string]string) ([]present, error) { return i.present(t, files) }}
}

// stepBounds are those of what a step applies; nil is that it may be everything. artifacts are those that were
// received.
func (n ownLoader) stepBounds(s step.Step, artifacts map[string]string) *bounds {
	if s.Bounds == nil {
		return nil
	}
	b := &bounds{allow: s.Bounds.Allow, neutral: n.neutral, secrets: n.secrets(s.Files)}
	files := s.Bounds.Own
	if files[s.Manifest] == "" {
		b.unknown = fmt.Sprintf("nobody who may define it has applied or released it with %s yet", s.Manifest)
		return b
	}
	if s.Bounds.Revision {
		s.Revision = n.neutral
	}
	refs := map[string]string{}
	for kind := range artifacts {
		refs[kind] = n.neutral
	}
	takes := make([]upstream.Input, len(s.Takes))
	for at, in := range s.Takes {
		takes[at] = in
		takes[at].Revision, takes[at].Artifacts = n.neutral, map[string]string{}
		for kind := range in.Artifacts {
			takes[at].Artifacts[kind] = n.neutral
		}
	}
	if s.Takes = takes; s.Outcome != nil {
		o := *s.Outcome
		o.Cause = n.neutral
		s.Outcome = &o
	}
	b.load(n, s.Manifest, files, LoadOptions{Builtin: stepVariables(s, refs, n.among)})
	return b
}

// taskBounds are those of a task, whatever is done with it; nil is that it may be everything. own are variables that
// nobody else can set; nil are those of a task.
func (n ownLoader) taskBounds(of tasks.Task, own map[string]any, promoted []string) *bounds {
	if of.Bounds == nil || isOwn(of, own != nil) {
		return nil
	}
	b := &bounds{allow: of.Bounds.Allow, neutral: n.neutral, secrets: n.secrets(TaskFiles(of.Spec))}
	spec, name := of.Bounds.Own, of.Spec.Manifest
	files := TaskFiles(spec)
	if own != nil { // of what verifies a step
		files = of.Bounds.OwnVerify
	}
	if files[name] == "" {
		b.unknown = "the revision of whoever may define it has no " + name
		return b
	}
	last := map[string]any{}
	for _, name := range promoted { // the definition need not have them
		if value, given := of.Spec.Vars[name]; given {
			last[name] = neutralized(value, n.neutral)
		}
	}
	maps.Copy(last, spec.Vars)
	if of.Spec = spec; own == nil {
		own = TaskVariables(of, n.among)
	}
	b.load(n, name, files, LoadOptions{Builtin: own, Last: last})
	return b
}

// secrets are the values of the variables of a revision that it carries as secrets, whatever its manifest says of them.
func (n ownLoader) secrets(files map[string]string) (values []any) {
	carried, _, err := n.variables(files)
	if err != nil {
		return nil // so it cannot be applied either
	}
	all, err := n.values(files)
	if err != nil {
		return nil
	}
	for i, p := range all {
		if carried.Variables[i].Secret != "" && !p.gone {
			values = append(values, p.Value)
		}
	}
	return values
}

// isOwn reports whether a task, or what verifies a step of it, is in everything what the definition names itself.
func isOwn(of tasks.Task, verifies bool) bool {
	a, b := of.Bounds.Own, of.Spec
	if verifies {
		a, b = definition.TaskSpec{Includes: of.Bounds.OwnVerify, Vars: a.Vars}, definition.TaskSpec{Includes: b.Includes, Vars: b.Vars}
	}
	return definition.SameTask(&definition.Definition{Task: a}, &definition.Definition{Task: b})
}

// checkHost refuses a task on a host that its revision may not have.
func checkHost(of tasks.Task, among *Hosts) error {
	if of.Bounds == nil || of.Host == "" || of.Bounds.Query == of.Bounds.OwnQuery {
		return nil
	}
	for _, query := range []string{of.Bounds.OwnQuery, hostsOfRules(of.Bounds.Allow)} {
		if query == "" {
			continue
		}
		hosts, err := among.Selected(query)
		if err != nil {
			return err
		}
		if slices.Contains(hosts, of.Host) {
			return nil
		}
	}
	return &BoundsError{Excess: []allow.Excess{{What: "instance_group.query", Asked: "host " + of.Host, Allowed: allowedHosts(of.Bounds.OwnQuery, of.Bounds.Allow)}}}
}

func hostsOfRules(r *allow.Rules) string {
	if r == nil {
		return ""
	}
	return r.Hosts
}

func allowedHosts(own string, r *allow.Rules) string {
	return strings.Join(slices.DeleteFunc([]string{own, hostsOfRules(r)}, func(q string) bool { return q == "" }), " | ")
}

// load evaluates what the definition names itself. What depends on a secret whose file is gone is not known, and all else
// is. To look at something or to remove it, a text that no revision can say stands for the secret, if that is needed.
func (b *bounds) load(n ownLoader, name string, files map[string]string, o LoadOptions) {
	text, err := n.Texts.Load(files[name])
	var all []present
	if err == nil {
		all, err = n.values(files)
	}
	if err != nil {
		b.unknown = err.Error()
		return
	}
	o.Included, o.Partly, o.Usage = n.Files(files), true, &usage.Variables{}
	source := []manifest.Source{{Name: name, Data: text}}
	o.Assigned, o.unknown = without(all, o.Included, slices.Sorted(maps.Keys(files)), isGone)
	if b.own, err = n.Inputs.Load(source, o); err != nil && n.looks && len(o.unknown) > 0 {
		for i := range all {
			if all[i].gone {
				all[i].Value = n.neutral
			}
		}
		o.Assigned, o.unknown = assignments(all), nil
		b.own, err = n.Inputs.Load(source, o)
	}
	if err != nil {
		b.own, b.unknown = nil, err.Error()
	}
}

// check refuses an input that brings what it may not.
func (b *bounds) check(in *Input) error {
	return b.refusal(func(b *bounds) []allow.Excess { return b.exceeds(in) })
}

// refusal refuses what exceeds the bounds, and also those that there were before, if these count. What was made
// within one of them was accepted as a whole.
func (b *bounds) refusal(exceeds func(*bounds) []allow.Excess) error {
	found := exceeds(b)
	if len(found) == 0 {
		return nil
	}
	for _, rules := range b.former {
		was := *b
		was.allow = rules
		if len(exceeds(&was)) == 0 {
			return nil
		}
	}
	return b.masked(&BoundsError{Excess: found, unknown: b.unknown, removes: b.removes})
}

// masked is an error without secrets of the definition and of the revision.
func (b *bounds) masked(err error) error {
	if b.own != nil {
		err = b.own.Masked(err)
	}
	hidden := &invoke.Secrets{}
	for _, value := range b.secrets {
		hidden.Add(value, [][]string{{}})
	}
	if text := hidden.Mask(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// exceeds is what an input brings that it may not, as far as that is known before it is applied.
func (b *bounds) exceeds(in *Input) (found []allow.Excess) {
	note := func(e allow.Excess) {
		if !slices.Contains(found, e) {
			found = append(found, e)
		}
	}
	for _, r := range in.Whole.Resources {
		if ok, _ := b.typ(r.Type); !ok {
			note(allow.Excess{What: "resource " + r.Name, Asked: "type " + r.Type, Allowed: b.types()})
		}
		config := map[string]any{}
		for _, key := range []string{imageProperty(r.Type), mountsProperty} {
			if written, given := r.Config[key]; key != "" && given {
				value, err := r.Resolve(written, manifest.Scope{Expressions: in.Expressions, Variables: in.Variables})
				if err == nil { // else it is known when it is applied
					config[key] = value
				}
			}
		}
		for _, e := range b.configured(r, config, in.Workspace) {
			note(e)
		}
	}
	for _, p := range in.Whole.Plugs {
		if !b.plug(p, in.Workspace) {
			note(b.plugExcess(p, in.Below))
		}
	}
	return found
}

// typ reports whether there may be resources of a type; fixed is as of allow.Rules.
func (b *bounds) typ(typ string) (ok, fixed bool) {
	if b.own != nil && slices.ContainsFunc(b.own.Whole.Resources, func(r *manifest.Resource) bool { return r.Type == typ }) {
		return true, false
	}
	return b.allow.Type(typ)
}

func (b *bounds) types() string {
	var all []string
	if b.own != nil {
		for _, r := range b.own.Whole.Resources {
			all = append(all, r.Type)
		}
	}
	if b.allow != nil {
		all = append(all, b.allow.Types...)
	}
	return listed(all)
}

func listed(all []string) string {
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// plug reports whether a plug may lead where it does.
func (b *bounds) plug(p *manifest.Plug, workspace string) bool {
	if b.own != nil {
		i := slices.IndexFunc(b.own.Whole.Plugs, func(own *manifest.Plug) bool { return own.Name == p.Name })
		if i >= 0 && samePlug(b.own.Whole.Plugs[i], p) {
			return true
		}
	}
	allowed, known := b.allow.PlugPath(p.Name)
	return known && (p.ReadOnly || !allowed.ReadOnly) && allow.Within(workspace, allowed.Path, p.Path)
}

// samePlug reports whether a plug gives no more than one that the definition names.
func samePlug(own, p *manifest.Plug) bool {
	return own.Path != "" && own.Path == p.Path && (p.ReadOnly || !own.ReadOnly) &&
		slices.Equal(own.ResourceNames, p.ResourceNames) && slices.Equal(own.ResourceTypes, p.ResourceTypes)
}

// plugExcess says where a plug leads, and where it may. below names a path as the workspace has it.
func (b *bounds) plugExcess(p *manifest.Plug, below func(path string) string) allow.Excess {
	e := allow.Excess{What: "plug " + p.Name, Asked: "path " + below(p.Path)}
	if !p.ReadOnly {
		e.Asked += ", writable"
	}
	var all []string
	if b.own != nil {
		for _, own := range b.own.Whole.Plugs {
			if own.Name == p.Name && own.Path != "" && b.isFixed(own.Path) {
				all = append(all, "path "+below(own.Path)+readOnly(own.ReadOnly))
			}
		}
	}
	if allowed, known := b.allow.PlugPath(p.Name); known {
		all = append(all, "at or below "+allowed.Path+readOnly(allowed.ReadOnly))
	}
	e.Allowed = listed(all)
	return e
}

func readOnly(is bool) string {
	if is {
		return ", read_only"
	}
	return ""
}

// isFixed reports whether a text of the definition is the same whatever a revision says.
func (b *bounds) isFixed(text string) bool {
	return b.neutral == "" || !strings.Contains(text, b.neutral)
}

// written are the paths to which types may have written for other revisions within the same bounds, nil of an input
// that may bring everything. A link in one of them may lead out of all bounds.
func (in *Input) written() (paths []string) {
	b := in.bounds
	if b == nil {
		return nil
	}
	add := func(path string, readOnly bool) {
		if path = absolute(in.Workspace, path); !readOnly && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	if b.own != nil {
		for _, p := range b.own.Whole.Plugs {
			add(p.Path, p.ReadOnly)
		}
	}
	for _, m := range b.ownMounts() {
		add(m.path, m.readOnly)
	}
	for _, rules := range append([]*allow.Rules{b.allow}, b.former...) {
		if rules != nil {
			for _, name := range slices.Sorted(maps.Keys(rules.Plugs)) {
				add(rules.Plugs[name].Path, rules.Plugs[name].ReadOnly)
			}
		}
	}
	return paths
}

func absolute(workspace, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(workspace, path)
	}
	return filepath.Clean(path)
}

// mountsProperty is the property of types that ship with what a container sees of its host.
const mountsProperty = "mounts"

// configured is what the configuration of a resource names that it may not: an image, or paths of the host.
func (b *bounds) configured(r *manifest.Resource, config map[string]any, workspace string) (found []allow.Excess) {
	if !ships(r.Type) {
		return nil
	}
	if property := imageProperty(r.Type); property != "" {
		if ref, _ := config[property].(string); ref != "" {
			if ok, _ := b.image(ref); !ok {
				found = append(found, allow.Excess{What: "resource " + r.Name, Asked: "image " + ref, Allowed: b.images()})
			}
		}
	}
	all, ok := mounted(config)
	if !ok {
		found = append(found, allow.Excess{What: "resource " + r.Name, Asked: "mounts of another form", Allowed: "a list of mounts"})
	}
	for _, m := range all {
		if !b.mount(m, workspace) {
			found = append(found, allow.Excess{What: "resource " + r.Name, Asked: "a mount of " + m.asked(), Allowed: b.mounts()})
		}
	}
	return found
}

// mount is a path of its host that a container sees.
type mount struct {
	path     string
	readOnly bool
}

func (m mount) asked() string {
	if m.readOnly {
		return "path " + m.path
	}
	return "path " + m.path + ", writable"
}

// mounted are the paths of the host that a configuration lets a container see; ok is false if they cannot be read.
func mounted(config map[string]any) (all []mount, ok bool) {
	text, err := json.Marshal(config[mountsProperty])
	if err != nil {
		return nil, false
	}
	var written []struct {
		Path     string `json:"path"`
		ReadOnly any    `json:"read_only"` // its text before the configuration is fitted to its schema
	}
	if err := json.Unmarshal(text, &written); err != nil {
		return nil, false
	}
	for _, m := range written {
		if m.Path != "" {
			all = append(all, mount{filepath.Clean(m.Path), m.ReadOnly == true || m.ReadOnly == "true"})
		}
	}
	return all, true
}

// image reports whether a configuration may name an image; fixed is as of allow.Rules.
func (b *bounds) image(ref string) (ok, fixed bool) {
	own, _ := b.ownImages()
	if slices.ContainsFunc(own, func(own string) bool { return allow.SameImage(own, ref) }) {
		return true, false
	}
	return b.allow.Image(ref)
}

// images are those that are allowed. One whose tag depends on what a revision says stands for all tags.
func (b *bounds) images() string {
	own, late := b.ownImages()
	var all []string
	for _, ref := range own {
		name, tag := ref, ""
		if i := strings.LastIndexByte(ref, ':'); i >= 0 {
			name, tag = ref[:i], strings.ReplaceAll(ref[i:], b.neutral, "*")
		}
		if b.isFixed(name) {
			all = append(all, name+tag)
		}
	}
	if b.allow != nil {
		all = append(all, b.allow.Images...)
	}
	if text := listed(all); !late {
		return text
	} else if text != "" {
		return text + lateImage
	}
	return "nothing" + lateImage
}

// lateImage is said where an image of the definition is not known in advance.
const lateImage = " (an image of the definition depends on a state: it counts only if images of allow cover it)"

// ownImages are those that configurations of the definition itself name. late is that one depends on a state, or on
// something else that is known only where it is applied.
func (b *bounds) ownImages() (refs []string, late bool) {
	b.eachOwn(func(r *manifest.Resource, resolved func(property string) (any, error)) {
		if property := imageProperty(r.Type); property != "" {
			value, err := resolved(property)
			if ref, _ := value.(string); ref != "" {
				refs = append(refs, ref)
			}
			late = late || err != nil
		}
	})
	return refs, late
}

// ownMounts are the paths of the host that containers of the definition itself see.
func (b *bounds) ownMounts() (all []mount) {
	b.eachOwn(func(r *manifest.Resource, resolved func(property string) (any, error)) {
		if !ships(r.Type) {
			return
		}
		if value, err := resolved(mountsProperty); err == nil {
			some, _ := mounted(map[string]any{mountsProperty: value})
			all = append(all, some...)
		}
	})
	return all
}

func (b *bounds) eachOwn(visit func(r *manifest.Resource, resolved func(property string) (any, error))) {
	if b.own == nil {
		return
	}
	for _, r := range b.own.Whole.Resources {
		visit(r, func(property string) (any, error) {
			return r.Resolve(r.Config[property], manifest.Scope{Expressions: b.own.Expressions, Variables: b.own.Variables})
		})
	}
}

// mount reports whether a container may see a path of its host.
func (b *bounds) mount(m mount, workspace string) bool {
	own := slices.ContainsFunc(b.ownMounts(), func(own mount) bool { return own.path == m.path && (m.readOnly || !own.readOnly) })
	return own || b.allow.Mount(workspace, m.path, m.readOnly)
}

func (b *bounds) mounts() string {
	var all []string
	for _, m := range b.ownMounts() {
		if b.isFixed(m.path) {
			all = append(all, "path "+m.path+readOnly(m.readOnly))
		}
	}
	if b.allow != nil {
		for _, p := range b.allow.Plugs {
			all = append(all, "at or below "+p.Path+readOnly(p.ReadOnly))
		}
	}
	return listed(all)
}

// believed are the contents of images that a revision says which need not be believed in everything: a content
// without its repository could be any that an engine has, and one for a tag that the rules name another one.
func (b *bounds) believed(c *revision.Images) *revision.Images {
	if c == nil {
		return nil
	}
	out := *c
	out.Images = slices.DeleteFunc(slices.Clone(c.Images), func(i revision.Image) bool { return ships(i.Image) }) // or a type that ships would be pulled
	for n, i := range out.Images {
		_, typed := b.typ(i.Image)
		_, named := b.image(i.Image)
		switch {
		case i.Unpinned != "" || i.Late:
			continue
		case i.Digest == "":
			i.Unpinned = "it is of no registry"
		case typed || named:
			i.Unpinned = "the definition allows the tag, and no content"
		}
		if i.ID = ""; i.Unpinned != "" {
			i.Digest = ""
		}
		out.Images[n] = i
	}
	return &out
}
