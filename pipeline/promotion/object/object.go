// Package object knows what an object of a cluster runs by what its controllers say of it: an
// object of Flux, an application of Argo CD, a workload of Kubernetes, or any other that says so
// in a place that is named.
//
// Object is how a definition names one, and Read reads it as it is at one moment. That is a pure
// function. Whoever writes the object, or a definition, chooses what is read, so nothing of it is
// trusted: what says nothing for certain is unknown, and never healthy.
package object

import (
	"strings"
)

// Object is an object of a cluster, and where it says what it runs.
type Object struct {
	Cluster    string `json:"cluster"`               // by its name in the inventory
	APIVersion string `json:"api_version,omitempty"` // "" is the one that the cluster prefers, of a kind that is known
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"` // "" of an object that is in none
	Name       string `json:"name"`

	// Revision and Ready are JSONPaths of where the object says what it runs, and whether that is
	// well. Ready may end with =VALUE. "" is where objects of its kind say so.
	Revision string `json:"revision,omitempty"`
	Part     Part   `json:"part,omitempty"` // of what is read that is the revision
	Ready    string `json:"ready,omitempty"`
}

// Part is which part of what an object says the revision is.
type Part string

// The parts. The first three are of revisions as Flux writes them, such as main@sha1:4a5b.
const (
	All     Part = ""
	Name    Part = "name"    // the text before the last @: a branch, a tag, a version
	Digest  Part = "digest"  // the text after it, with its algorithm
	Commit  Part = "commit"  // the digest without the algorithm
	Tag     Part = "tag"     // the tag of an image, or its digest if it has no tag
	Version Part = "version" // the version of a chart without build metadata: 1.0.0 of 1.0.0+78f492005649
	Path    Part = "path"    // the value that a file of the repository has at the commit; Read gives the commit
)

// Parts are the names of those that a definition may give.
func Parts() []string {
	return []string{string(Name), string(Digest), string(Commit), string(Tag), string(Version), string(Path)}
}

// The kinds whose objects say by themselves what they run.
const (
	kustomization = "Kustomization"
	helmRelease   = "HelmRelease"
	application   = "Application"
	deployment    = "Deployment"
	statefulSet   = "StatefulSet"
	daemonSet     = "DaemonSet"
)

// groups are those of the kinds that need no api_version.
var groups = map[string]string{
	kustomization: "kustomize.toolkit.fluxcd.io", helmRelease: "helm.toolkit.fluxcd.io", application: "argoproj.io",
	deployment: "apps", statefulSet: "apps", daemonSet: "apps",
}

// Kinds are those that need no api_version.
func Kinds() []string {
	return []string{kustomization, helmRelease, application, deployment, statefulSet, daemonSet}
}

// GroupVersion is the API of the object; version is "" where the cluster chooses one.
func (o *Object) GroupVersion() (group, version string) {
	if o.APIVersion == "" {
		return groups[o.Kind], ""
	}
	group, version, found := strings.Cut(o.APIVersion, "/")
	if !found {
		return "", o.APIVersion
	}
	return group, version
}

// known reports whether it is of a kind of which is known how it says what it runs.
func (o *Object) known(kind string) bool {
	group, _ := o.GroupVersion()
	return o.Kind == kind && groups[kind] == group
}

// String names the object, as a path that begins with its cluster.
func (o *Object) String() string {
	kind := o.Kind
	if group, _ := o.GroupVersion(); group != groups[kind] {
		kind += "." + group
	}
	if o.Namespace == "" {
		return o.Cluster + "/" + kind + "/" + o.Name
	}
	return o.Cluster + "/" + o.Namespace + "/" + kind + "/" + o.Name
}

// IsSecret reports whether the object is one whose content is for nobody's log.
func (o *Object) IsSecret() bool {
	group, _ := o.GroupVersion()
	return group == "" && strings.EqualFold(o.Kind, "Secret")
}

// RunsCommits reports whether the revision of the object is a commit of the repository that declares
// it.
func (o *Object) RunsCommits() bool {
	return o.Revision == "" && o.Part != Path && (o.known(kustomization) || o.known(application))
}
