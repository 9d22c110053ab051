package work

import (
	"slices"

	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Place is where a manifest is applied.
type Place struct {
	Host string                 // "" is the default engine
	Load func() (*Input, error) // the manifest with the variables there, as far as they are known
}

func hostsOf(places []*Place) (hosts []string) {
	for _, p := range places {
		hosts = append(hosts, p.Host)
	}
	return hosts
}

// Places are where the manifests of a pipeline are applied: those of its steps on their hosts,
// those of stages on the default engine. revision is "" where it is not known; takes are what
// it takes of other pipelines.
func (c *Collection) Places(i Inputs, among *Hosts, d *definition.Definition, revision string, takes []upstream.Input) func(name string) ([]Place, error) {
	return func(name string) (places []Place, err error) {
		add := func(stage, group, host string) {
			at := step.Step{Target: record.Target(d.Name), Revision: revision, Takes: takes, Stage: stage, Manifest: name, Group: group, Host: host}
			own := stepVariables(at, nil, among)
			if revision == "" {
				delete(own, "revision")
			}
			source := manifest.Source{Name: name, Data: c.Files[name]}
			o := LoadOptions{Builtin: own, Included: c.Files.Files(), Assigned: append([]vars.Assignment{}, c.Assignments...), Partly: true, Usage: &usage.Variables{}}
			places = append(places, Place{host, func() (*Input, error) { return i.Load([]manifest.Source{source}, o) }})
		}
		for _, s := range d.Stages {
			if s.Deploy == nil || !slices.ContainsFunc(s.Deploy.Steps, func(step definition.HostStep) bool { return step.Manifest == name }) {
				continue
			}
			for _, g := range s.Deploy.HostGroups {
				hosts, err := among.Selected(g.Hosts)
				if err != nil {
					return nil, &InputError{err}
				}
				for _, host := range hosts {
					add(s.Name, g.Name, host)
				}
			}
		}
		for _, s := range d.Stages {
			if once, _ := s.Once(); once == name {
				add(s.Name, "", "")
			}
		}
		return places, nil
	}
}

// Places are where the manifest of an environment is applied.
func (i Identities) Places(d *envdefinition.Definition, hosts []string) func(name string) ([]Place, error) {
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	return func(string) (places []Place, _ error) {
		for _, host := range hosts {
			t := tasks.Task{Environment: d.Name, Host: host, Spec: d.Task}
			places = append(places, Place{host, func() (*Input, error) { return i.load(t, "revision", "task") }})
		}
		return places, nil
	}
}
