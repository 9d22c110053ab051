package work

import (
	"fmt"
	"slices"
	"strings"

	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Bounded finds out what revisions would bring, before anything is done. The same is looked at again where it is done.
type Bounded struct {
	Inputs   Inputs
	Texts    Texts
	Hosts    *Hosts
	Promoted []string // variables that promotions set in definitions of tasks
}

// mostLooked is on how many hosts of a group a manifest is looked at in advance.
const mostLooked = 5

// Release is what a revision of a pipeline would bring that it may not, as far as that is known in advance. own is
// what the definition names itself.
func (b Bounded) Release(d *definition.Definition, own record.Files, r pipeline.Release) (found []allow.Excess) {
	if b.Hosts == nil {
		return nil
	}
	look := func(stage, group, host, name string) {
		at := step.Step{
			Target: record.Target(d.Name), Revision: r.Revision, Takes: r.Takes, Stage: stage, Manifest: name, Group: group, Host: host, Files: r.Carries,
			Bounds: &deployment.Bounds{Allow: d.Allow, Own: own, Revision: true},
		}
		found = append(found, b.look(name, r.Carries, LoadOptions{Builtin: stepVariables(at, nil, b.Hosts)}, func(n ownLoader) *bounds { return n.stepBounds(at, nil) })...)
	}
	for i := range d.Stages {
		s := &d.Stages[i]
		if once, _ := s.Once(); once != "" && (s.Build == nil || s.Build.Group == "") {
			look(s.Name, "", "", once)
		}
		if s.Deploy == nil {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			hosts, err := b.Hosts.Selected(g.Hosts)
			if err != nil {
				continue
			}
			for _, host := range hosts[:min(len(hosts), mostLooked)] {
				for _, one := range s.Deploy.Steps {
					look(s.Name, g.Name, host, one.Manifest)
				}
			}
		}
	}
	return distinct(found)
}

// Update is what a revision of an environment would bring that it may not, as far as that is known in advance.
func (b Bounded) Update(d, own *envdefinition.Definition, hosts []string) (found []allow.Excess) {
	if b.Hosts == nil {
		return nil
	}
	limits := &tasks.Bounds{
		Allow: own.Allow, Own: own.Task, OwnVerify: own.Deployment.VerifyFiles, OwnQuery: own.InstanceGroup.Query, Query: d.InstanceGroup.Query,
	}
	for _, host := range hosts[:min(len(hosts), mostLooked)] {
		t := tasks.Task{Environment: d.Name, Host: host, Revision: 1, Spec: d.Task, Bounds: limits}
		o := LoadOptions{Builtin: TaskVariables(t, b.Hosts), Last: d.Task.Vars}
		found = append(found, b.look(d.Task.Manifest, TaskFiles(d.Task), o, func(n ownLoader) *bounds { return n.taskBounds(t, nil, b.Promoted) })...)
	}
	return distinct(found)
}

// ReleaseNotCompared returns what Release leaves out, as a part of a sentence.
func (b Bounded) ReleaseNotCompared(d *definition.Definition) string {
	others, unknown := map[string]bool{}, []string{}
	for _, g := range d.Groups() {
		if b.Hosts == nil {
			break
		}
		hosts, err := b.Hosts.Selected(g.Hosts)
		if err != nil {
			unknown = append(unknown, "host group "+g.Name)
		}
		for _, host := range hosts[min(len(hosts), mostLooked):] {
			others[host] = true
		}
	}
	return b.notCompared(len(others), unknown...)
}

// UpdateNotCompared returns what Update leaves out, as a part of a sentence.
func (b Bounded) UpdateNotCompared(hosts []string) string {
	return b.notCompared(max(0, len(hosts)-mostLooked))
}

func (b Bounded) notCompared(others int, left ...string) string {
	if b.Hosts == nil {
		return "what its manifests bring"
	}
	switch {
	case others == 1:
		left = append(left, "1 other host")
	case others > 1:
		left = append(left, fmt.Sprintf("%d other hosts", others))
	}
	return strings.Join(append(left, "what depends on secrets or is known only when it is applied"), ", and ")
}

// UpdateHosts is which hosts an environment may not have. selected are those that its query selects.
func (b Bounded) UpdateHosts(d, own *envdefinition.Definition, selected []string) (found []allow.Excess) {
	if b.Hosts == nil {
		return nil
	}
	for _, host := range selected {
		t := tasks.Task{Host: host, Bounds: &tasks.Bounds{Allow: own.Allow, OwnQuery: own.InstanceGroup.Query, Query: d.InstanceGroup.Query}}
		if checkHost(t, b.Hosts) != nil {
			found = append(found, allow.Excess{What: "instance_group.query", Asked: "host " + host, Allowed: allowedHosts(own.InstanceGroup.Query, own.Allow)})
		}
	}
	return found
}

// look is what a manifest brings that it may not. What cannot be evaluated yet is looked at when it is applied, and so
// is what depends on a secret: nothing that is found tells anything of one, for texts that are made up stand for them.
// It is evaluated once more with other texts, and what is not found again depends on them.
func (b Bounded) look(name string, files map[string]string, o LoadOptions, may func(ownLoader) *bounds) []allow.Excess {
	found, made := b.supposing(name, files, o, may)
	if len(found) == 0 || len(made) == 0 {
		return found
	}
	again, madeAgain := b.supposing(name, files, o, may)
	found, again = hidden(found, made), hidden(again, madeAgain)
	return slices.DeleteFunc(found, func(e allow.Excess) bool { return !slices.Contains(again, e) })
}

// hidden is what was found, without texts that were made up in what is allowed.
func hidden(found []allow.Excess, made map[string]string) []allow.Excess {
	out := slices.Clone(found)
	for i := range out {
		for _, text := range made {
			out[i].Allowed = strings.ReplaceAll(out[i].Allowed, text, "***")
		}
	}
	return out
}

// supposing is what a manifest brings that it may not with texts that are made up for secrets, by the names of these.
func (b Bounded) supposing(name string, files map[string]string, o LoadOptions, may func(ownLoader) *bounds) (found []allow.Excess, made map[string]string) {
	made = map[string]string{}
	values := func(files map[string]string) ([]present, error) {
		return b.Inputs.supposed(b.Texts, files, func(name string) string {
			if made[name] == "" {
				made[name] = newNeutral()
			}
			return made[name]
		})
	}
	limits := may(ownLoader{Inputs: b.Inputs, Texts: b.Texts, among: b.Hosts, neutral: newNeutral(), values: values})
	if limits == nil {
		return nil, nil
	}
	text, err := b.Texts.Load(files[name])
	if err != nil {
		return nil, nil
	}
	all, err := values(files)
	if err != nil {
		return nil, nil
	}
	o.Assigned, o.Included, o.Partly, o.Usage = assignments(all), b.Texts.Files(files), true, &usage.Variables{}
	if o.Assigned == nil {
		o.Assigned = assignments([]present{})
	}
	in, err := b.Inputs.Load([]manifest.Source{{Name: name, Data: text}}, o)
	if err != nil {
		return nil, nil
	}
	return limits.exceeds(in), made
}

func distinct(all []allow.Excess) (out []allow.Excess) {
	for _, e := range all {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}
