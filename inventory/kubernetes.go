package inventory

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Kubernetes says which namespace of which cluster a host is, and how Pods run there.
type Kubernetes struct {
	Kubeconfig     string            `json:"kubeconfig,omitempty"`   // file, as it is written in the inventory; "" is the user's
	Context        string            `json:"context,omitempty"`      // of the kubeconfig; "" is its current one
	InCluster      bool              `json:"in_cluster,omitempty"`   // it is the cluster of the Pod in which this runs, and has neither
	Namespace      string            `json:"namespace,omitempty"`    // "" is that of the context
	TypesImage     string            `json:"types_image,omitempty"`  // repository to which this program is pushed
	PodSecurity    string            `json:"pod_security,omitempty"` // restricted or baseline; "" is restricted
	PullSecrets    []string          `json:"image_pull_secrets,omitempty"`
	NodeSelector   map[string]string `json:"node_selector,omitempty"`   // labels of the nodes on which Pods may run
	Tolerations    []string          `json:"tolerations,omitempty"`     // of taints, each KEY[=VALUE][:EFFECT]
	ServiceAccount string            `json:"service_account,omitempty"` // that Pods run as; "" is none whose token they have
	CopyWorkspace  bool              `json:"copy_workspace,omitempty"`  // Pods have a copy of the workspace
}

// String says where its Pods are, as far as the inventory does.
func (k *Kubernetes) String() string {
	var parts []string
	where := k.Context
	if k.InCluster {
		where = "in-cluster"
	}
	for _, part := range []string{where, k.Namespace} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// Where is the address of its engine for people; "" is that of this machine.
func (h Host) Where() string {
	if h.Kubernetes != nil {
		return h.Kubernetes.String()
	}
	if h.Context != "" {
		return "context " + h.Context
	}
	return h.Endpoint
}

// Reach says how its engine is reached and used, as a text that only hosts have in common of
// which that is the same.
func (h Host) Reach() string {
	if h.TLS == nil && h.Kubernetes == nil {
		return h.Engine + " " + h.Where()
	}
	encoded, err := json.Marshal([]any{h.Engine, h.Endpoint, h.TLS, h.Kubernetes})
	if err != nil {
		panic(err) // texts can be encoded
	}
	return string(encoded)
}

const (
	maxNames     = 20 // secrets, labels and tolerations of a host
	maxNamespace = 63 // as Kubernetes bounds it, and values of labels
)

var (
	validNamespace  = pattern.Lazy(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	validObject     = pattern.Lazy(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)
	validRepository = pattern.Lazy(`^([^/@\s]+/)?[^:@\s]+$`)
	validLabel      = pattern.Lazy(`^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$`)
	validValue      = pattern.Lazy(`^([a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?)?$`)
	validToleration = pattern.Lazy(`^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?(=([a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?)?)?(:(NoSchedule|PreferNoSchedule|NoExecute))?$`)
)

func (v *Inventory) readKubernetes(n *yamlfile.Node) *Kubernetes {
	fields, ok := n.Fields("kubernetes", "cluster", "kubeconfig", "context", "in_cluster", "namespace", "types_image", "pod_security", "image_pull_secrets", "node_selector", "tolerations", "service_account", "copy_workspace")
	if !ok {
		return nil
	}
	text := func(name, what string, valid *regexp.Regexp, rule string) string {
		if fields[name] == nil {
			return ""
		}
		return readName(fields[name], what, valid, rule)
	}
	k := &Kubernetes{
		Kubeconfig:     text("kubeconfig", "the path of a file", nil, ""),
		Context:        text("context", "a context of the kubeconfig", nil, ""),
		Namespace:      text("namespace", "the name of a namespace", validNamespace(), "small letters, digits and - are possible"),
		TypesImage:     text("types_image", "a repository of a registry", validRepository(), "it has neither a tag nor a digest, as registry.example/team/deployster"),
		ServiceAccount: text("service_account", "the name of a service account", validObject(), "small letters, digits, - and . are possible"),
	}
	v.readReach(n, fields, k)
	if fields["types_image"] == nil {
		n.Fail("there is no types_image: name a repository of a registry to which you may push this program, and from which the cluster pulls it, as in registry.example/team/deployster")
	}
	if at := fields["pod_security"]; at != nil {
		known := []string{"restricted", "baseline"}
		if k.PodSecurity, ok = at.Line("restricted or baseline", maxText); ok && k.PodSecurity != known[0] && k.PodSecurity != known[1] {
			at.FailLike(k.PodSecurity, known, "there is no level %.60q", k.PodSecurity)
		}
	}
	if at := fields["copy_workspace"]; at != nil {
		k.CopyWorkspace = readFlag(at)
	}
	if at := fields["image_pull_secrets"]; at != nil {
		for _, secret := range at.List("secrets", maxNames) {
			k.PullSecrets = append(k.PullSecrets, readName(secret, "the name of a Secret", validObject(), "small letters, digits, - and . are possible"))
		}
	}
	if at := fields["tolerations"]; at != nil {
		for _, toleration := range at.List("tolerations", maxNames) {
			k.Tolerations = append(k.Tolerations, readName(toleration, "a toleration such as dedicated=deploy:NoSchedule", validToleration(),
				"write KEY=VALUE:EFFECT, KEY:EFFECT or KEY, with the effect NoSchedule, PreferNoSchedule or NoExecute"))
		}
	}
	if at := fields["node_selector"]; at != nil {
		k.NodeSelector = readSelector(at)
	}
	return k
}

// readReach reads which cluster it is. That is always said: whoever handles the host would use
// whatever cluster is current there, or the one that it runs in.
func (v *Inventory) readReach(n *yamlfile.Node, fields map[string]*yamlfile.Node, k *Kubernetes) {
	own := []string{"kubeconfig", "context", "in_cluster"}
	if at := fields["in_cluster"]; at != nil {
		k.InCluster = readFlag(at)
	}
	if at := fields["cluster"]; at != nil {
		for _, key := range own {
			if fields[key] != nil {
				fields[key].Fail("is that of the cluster, which is named beside it: leave one of them out")
			}
		}
		if c, ok := v.named(at); ok {
			k.Kubeconfig, k.Context, k.InCluster = c.Kubeconfig, c.Context, c.InCluster
		}
		return
	}
	switch named := fields["kubeconfig"] != nil || fields["context"] != nil; {
	case k.InCluster && named:
		fields["in_cluster"].Fail("it is the cluster in which this runs, and has a kubeconfig or context: give only one of these")
	case !k.InCluster && !named:
		n.Fail("it is not said which cluster it is: name one of the clusters of the inventory (cluster: NAME), a kubeconfig or a context, or say in_cluster: true for the cluster of the Pod in which whoever handles the host runs")
	}
}

// named is a cluster of the inventory.
func (v *Inventory) named(n *yamlfile.Node) (Cluster, bool) {
	name, ok := n.Line("the name of a cluster of the inventory", maxName)
	if !ok {
		return Cluster{}, false
	}
	c, ok := v.Cluster(name)
	if !ok {
		n.FailLike(name, v.clusterNames(), "there is no cluster %.60q in clusters", name)
	}
	return c, ok
}

// readName reads a text that has to be as the cluster wants it; nil is any.
func readName(n *yamlfile.Node, what string, valid *regexp.Regexp, rule string) string {
	text, ok := n.Line(what, maxText)
	if ok && valid != nil && (!valid.MatchString(text) || valid == validNamespace() && len(text) > maxNamespace) {
		n.Fail("%.100q cannot be %s: %s", text, what, rule)
	}
	return text
}

func readFlag(n *yamlfile.Node) bool {
	value, ok := n.Bool()
	if !ok || n.Kind != yamlfile.Boolean {
		n.Fail("must be true or false, not %s", n.Kind)
	}
	return value
}

func readSelector(n *yamlfile.Node) map[string]string {
	if n.Kind != yamlfile.Mapping {
		n.Fail("must be a mapping of labels of nodes to their values, not %s", n.Kind)
		return nil
	}
	if len(n.Members) > maxNames {
		n.Fail("has %d labels; at most %d are possible", len(n.Members), maxNames)
		return nil
	}
	selector := make(map[string]string, len(n.Members))
	for _, label := range n.Members {
		if len(label.Name) > maxName || !validLabel().MatchString(label.Name) {
			label.FailName("%.60q cannot be a label of a node", label.Name)
		}
		if label.Kind == yamlfile.Text && label.Value == "" {
			selector[label.Name] = "" // as the labels of roles have it
			continue
		}
		if value, ok := label.Line("the value of a label", maxText); ok {
			if len(value) > maxNamespace || !validValue().MatchString(value) {
				label.Fail("%.100q cannot be the value of a label: letters, digits, ., _ and - are possible, with a letter or digit at both ends", value)
			}
			selector[label.Name] = value
		}
	}
	return selector
}
