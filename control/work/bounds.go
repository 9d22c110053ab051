package work

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// bounds are what an input may bring of a revision by who may not bring everything: what the definition comes to by
// itself, and what it allows beyond that.
type bounds struct {
	allow   *allow.Rules
	own     *Input // what the definition comes to, whatever the revision says; nil is nothing
	unknown string // why that is not known
}

// BoundsError is that a revision would bring what it may not.
type BoundsError struct {
	Excess  []allow.Excess
	unknown string
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
	return text + "; allow it in the definition, or have the revision made by an operator of everything"
}

// neutral is a text in the place of what a revision says.
const neutral = "x"

// neutralized is a value with other texts in the same places.
func neutralized(value any) any {
	switch v := value.(type) {
	case string:
		return neutral
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			out[key] = neutralized(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = neutralized(item)
		}
		return out
	default:
		return value
	}
}

// stepBounds are those of what a step applies; nil is that it may be everything. artifacts are those that were
// received.
func (i Inputs) stepBounds(t Texts, s step.Step, artifacts map[string]string, among *Hosts) *bounds {
	if s.Bounds == nil {
		return nil
	}
	b := &bounds{allow: s.Bounds.Allow}
	files := s.Bounds.Own
	if files[s.Manifest] == "" {
		b.unknown = fmt.Sprintf("nobody who may define it has applied or released it with %s yet", s.Manifest)
		return b
	}
	if s.Bounds.Revision {
		s.Revision = neutral
	}
	refs := map[string]string{}
	for kind := range artifacts {
		refs[kind] = neutral
	}
	takes := make([]upstream.Input, len(s.Takes))
	for n, in := range s.Takes {
		takes[n] = in
		takes[n].Revision, takes[n].Artifacts = neutral, map[string]string{}
		for kind := range in.Artifacts {
			takes[n].Artifacts[kind] = neutral
		}
	}
	if s.Takes = takes; s.Outcome != nil {
		o := *s.Outcome
		o.Cause = neutral
		s.Outcome = &o
	}
	b.load(i, t, s.Manifest, files, LoadOptions{Builtin: stepVariables(s, refs, among)})
	return b
}

// taskBounds are those of what a task applies; nil is that it may be everything. own are variables that nobody else
// can set; nil are those of a task.
func (i Inputs) taskBounds(t Texts, of tasks.Task, own map[string]any, among *Hosts, promoted []string) (*bounds, error) {
	if of.Bounds == nil {
		return nil, nil
	}
	b := &bounds{allow: of.Bounds.Allow}
	spec, name := of.Bounds.Own, of.Spec.Manifest
	if err := b.checkHost(of, among); err != nil {
		return nil, err
	}
	files := TaskFiles(spec)
	if own != nil { // of what verifies a step
		files = of.Bounds.OwnVerify
	}
	if files[name] == "" {
		b.unknown = "the revision of whoever may define it has no " + name
		return b, nil
	}
	last := map[string]any{}
	for _, name := range promoted { // the definition need not have them
		if value, given := of.Spec.Vars[name]; given {
			last[name] = neutralized(value)
		}
	}
	maps.Copy(last, spec.Vars)
	if of.Spec = spec; own == nil {
		own = TaskVariables(of, among)
	}
	b.load(i, t, name, files, LoadOptions{Builtin: own, Last: last})
	return b, nil
}

// checkHost refuses a task on a host that its revision may not have.
func (b *bounds) checkHost(of tasks.Task, among *Hosts) error {
	if of.Host == "" || of.Bounds.Query == of.Bounds.OwnQuery {
		return nil
	}
	for _, query := range []string{of.Bounds.OwnQuery, hostsOfRules(b.allow)} {
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
	return &BoundsError{Excess: []allow.Excess{{What: "instance_group.query", Asked: "host " + of.Host, Allowed: allowedHosts(of.Bounds.OwnQuery, b.allow)}}}
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

// load evaluates what the definition names itself.
func (b *bounds) load(i Inputs, t Texts, name string, files map[string]string, o LoadOptions) {
	text, err := t.Load(files[name])
	if err == nil {
		var all []present
		all, err = i.present(t, files)
		if o.Assigned = assignments(all); o.Assigned == nil {
			o.Assigned = assignments([]present{})
		}
	}
	if err != nil {
		b.unknown = err.Error()
		return
	}
	o.Included, o.Partly, o.Usage = t.Files(files), true, &usage.Variables{}
	if b.own, err = i.Load([]manifest.Source{{Name: name, Data: text}}, o); err != nil {
		b.own, b.unknown = nil, err.Error()
	}
}

// check refuses an input that brings what it may not.
func (b *bounds) check(in *Input) error {
	if found := b.exceeds(in); len(found) > 0 {
		return &BoundsError{Excess: found, unknown: b.unknown}
	}
	return nil
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
		for _, e := range b.configured(r, config) {
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
			if own.Name == p.Name && own.Path != "" {
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

// mountsProperty is the property of types that ship with what a container sees of its host.
const mountsProperty = "mounts"

// configured is what the configuration of a resource names that it may not: an image, or paths of the host.
func (b *bounds) configured(r *manifest.Resource, config map[string]any) (found []allow.Excess) {
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
	for _, path := range mounted(config) {
		if !b.mount(path) {
			found = append(found, allow.Excess{What: "resource " + r.Name, Asked: "a mount of path " + path, Allowed: b.mounts()})
		}
	}
	return found
}

// mounted are the paths of the host that a configuration lets a container see.
func mounted(config map[string]any) (paths []string) {
	all, _ := config[mountsProperty].([]any)
	for _, one := range all {
		mount, _ := one.(map[string]any)
		if path, _ := mount["path"].(string); path != "" {
			paths = append(paths, filepath.Clean(path))
		}
	}
	return paths
}

// image reports whether a configuration may name an image; fixed is as of allow.Rules.
func (b *bounds) image(ref string) (ok, fixed bool) {
	if slices.ContainsFunc(b.ownImages(), func(own string) bool { return allow.SameImage(own, ref) }) {
		return true, false
	}
	return b.allow.Image(ref)
}

func (b *bounds) images() string {
	all := b.ownImages()
	if b.allow != nil {
		all = append(all, b.allow.Images...)
	}
	return listed(all)
}

// ownImages are those that configurations of the definition itself name.
func (b *bounds) ownImages() (refs []string) {
	b.eachOwn(func(r *manifest.Resource, resolved func(property string) any) {
		if property := imageProperty(r.Type); property != "" {
			if ref, _ := resolved(property).(string); ref != "" {
				refs = append(refs, ref)
			}
		}
	})
	return refs
}

// ownMounts are the paths of the host that containers of the definition itself see.
func (b *bounds) ownMounts() (paths []string) {
	b.eachOwn(func(r *manifest.Resource, resolved func(property string) any) {
		if ships(r.Type) {
			paths = append(paths, mounted(map[string]any{mountsProperty: resolved(mountsProperty)})...)
		}
	})
	return paths
}

func (b *bounds) eachOwn(visit func(r *manifest.Resource, resolved func(property string) any)) {
	if b.own == nil {
		return
	}
	for _, r := range b.own.Whole.Resources {
		visit(r, func(property string) any {
			value, err := r.Resolve(r.Config[property], manifest.Scope{Expressions: b.own.Expressions, Variables: b.own.Variables})
			if err != nil {
				return nil
			}
			return value
		})
	}
}

func (b *bounds) mount(path string) bool {
	return slices.Contains(b.ownMounts(), path) || b.allow.AnyPath("/", path)
}

func (b *bounds) mounts() string {
	all := b.ownMounts()
	if b.allow != nil {
		for _, p := range b.allow.Plugs {
			all = append(all, "at or below "+p.Path)
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
