package definition

import (
	"regexp"
	"slices"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// objectsPrefix begins what a stage of objects in clusters is known as where others are known by
// their environment. No environment has such a name.
const objectsPrefix = "objects:"

// The bounds of the objects of a stage.
const (
	maxObjects    = 100
	maxKind       = 63
	maxNamespace  = 63
	maxObjectName = 253
	maxJSONPath   = 500
)

var (
	validCluster    = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)
	validAPIVersion = pattern.Lazy(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?v[a-z0-9]+$`)
	validKind       = pattern.Lazy(`^[A-Z][A-Za-z0-9]*$`)
	validNamespace  = pattern.Lazy(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	validObjectName = pattern.Lazy(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
)

// Sighted reports whether what the stage runs is in no events of an environment, but is looked at
// on hosts or in clusters, and recorded.
func (s *Stage) Sighted() bool { return s.Targets != nil || len(s.Objects) > 0 }

// readObjects reads the objects of a stage.
func (p *parser) readObjects(fields map[string]*yamlfile.Node, s *Stage) {
	s.Environment = objectsPrefix + p.definition.Name + "/" + s.Name
	if at := fields["environment"]; at != nil {
		at.FailName("a stage is an environment, a manifest on hosts, or objects in clusters, and not both")
	}
	for _, key := range targetsFields {
		if at := fields[key]; at != nil {
			at.FailName("is of a stage that is a manifest on hosts, and this one is objects in clusters")
		}
	}
	n := fields["objects"]
	for _, one := range n.List("objects", maxObjects) {
		o := readObject(one)
		switch first := p.taken["object "+o.String()]; {
		case o.Kind == "" || o.Name == "":
		case first != nil:
			one.Fail("%s is already an object of a stage, at %d:%d: it cannot run two revisions", &o, first.Position.Line, first.Position.Column)
		default:
			p.taken["object "+o.String()] = one
		}
		s.Objects = append(s.Objects, o)
	}
	if n.Kind == yamlfile.List && len(n.Members) == 0 {
		n.Fail("names no object, so nothing could say which revision the stage runs")
	}
}

// readObject reads {cluster: prod, kind: Kustomization, namespace: flux-system, name: shop}.
func readObject(n *yamlfile.Node) (o object.Object) {
	fields, ok := n.Fields("an object", "cluster", "api_version", "kind", "namespace", "name", "revision", "part", "ready")
	if !ok {
		return o
	}
	line := func(key, what string, most int, valid *regexp.Regexp, rule string) string {
		at := fields[key]
		if at == nil {
			return ""
		}
		text, ok := at.Line(what, most)
		if ok && !valid.MatchString(text) {
			at.Fail("%.60q cannot be %s: %s", text, what, rule)
			return ""
		}
		return text
	}
	const lower = "lower-case letters, digits, . and - are possible, with a letter or digit at both ends"
	o.Cluster = line("cluster", "the name of a cluster", maxName, validCluster(), nameRule)
	o.APIVersion = line("api_version", "an API version", maxName, validAPIVersion(), "write GROUP/VERSION, such as kustomize.toolkit.fluxcd.io/v1")
	o.Kind = line("kind", "a kind", maxKind, validKind(), "write it as its objects have it, such as Kustomization")
	o.Namespace = line("namespace", "a namespace", maxNamespace, validNamespace(), "lower-case letters, digits and - are possible, with a letter or digit at both ends")
	o.Name = line("name", "the name of an object", maxObjectName, validObjectName(), lower)
	for _, key := range []string{"cluster", "kind", "name"} {
		if fields[key] == nil {
			n.Fail("the object has no %s; write {cluster: prod, kind: Kustomization, namespace: flux-system, name: shop}", key)
		}
	}
	known := slices.Contains(object.Kinds(), o.Kind)
	switch {
	case o.Kind == "":
	case o.APIVersion == "" && !known:
		fields["kind"].FailLike(o.Kind, object.Kinds(), "the kind %s needs api_version, as its objects have it, such as acme.example/v1", o.Kind)
	case known && o.APIVersion == "" && fields["namespace"] == nil:
		n.Fail("the object has no namespace, which each %s is in", o.Kind)
	case o.IsSecret():
		fields["kind"].Fail("a Secret is not read: what is read of objects is recorded in the log")
	}
	readPaths(fields, &o)
	return o
}

// readPaths reads where an object says what it runs.
func readPaths(fields map[string]*yamlfile.Node, o *object.Object) {
	for key, to := range map[string]*string{"revision": &o.Revision, "ready": &o.Ready} {
		at := fields[key]
		if at == nil {
			continue
		}
		check := object.CheckPath
		if key == "ready" {
			check = object.CheckReady
		}
		text, ok := at.Line("a JSONPath such as {.status.lastAppliedRevision}", maxJSONPath)
		if err := check(text); ok && err != nil {
			at.Fail("%s", err)
		}
		*to = text
	}
	if at := fields["part"]; at != nil {
		text, ok := at.Line("name, digest, commit or tag", maxName)
		if ok && !slices.Contains(object.Parts(), text) {
			at.FailLike(text, object.Parts(), "there is no part %.60q of a revision", text)
		}
		o.Part = object.Part(text)
	}
}

// needsStrategy refuses a stage to which nothing can bring a revision.
func (p *parser) needsStrategy(n *yamlfile.Node, s *Stage) {
	if first := len(p.definition.Stages) == 0; !first && len(s.Objects) > 0 && s.Strategy == "" {
		n.Fail("objects in clusters are not deployed from here, but by who reads a repository or is asked: write strategy: pull-request, or strategy: webhook")
	}
}
