package inventory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// maxClusters is how many clusters an inventory may have.
const maxClusters = 1000

// Cluster is a cluster of Kubernetes of which stages of pipelines name objects, and hosts namespaces.
type Cluster struct {
	Name       string
	Kubeconfig string // path as it is written: relative ones are below the directory of the inventory; "" is the usual one
	Context    string // of it; "" is the current one of a file that is named
	InCluster  bool   // it is the cluster of the Pod in which this runs, and has neither
}

// Cluster finds a cluster by its name.
func (v *Inventory) Cluster(name string) (Cluster, bool) {
	i := slices.IndexFunc(v.Clusters, func(c Cluster) bool { return c.Name == name })
	if i < 0 {
		return Cluster{}, false
	}
	return v.Clusters[i], true
}

func (v *Inventory) clusterNames() []string {
	names := make([]string, 0, len(v.Clusters))
	for _, c := range v.Clusters {
		names = append(names, c.Name)
	}
	return names
}

// NoClusterError is that an inventory has no cluster of a name.
type NoClusterError struct {
	Cluster string
	Known   []string // those that it has
}

// Error names the one that was meant, or those that there are.
func (e *NoClusterError) Error() string {
	text := fmt.Sprintf("there is no cluster %s in the inventory", e.Cluster)
	if meant := suggest.Closest(e.Cluster, e.Known); meant != "" {
		text += fmt.Sprintf(", did you mean %q?", meant)
	} else if known := e.Known[:min(len(e.Known), namedClusters)]; len(known) > 0 {
		text += ", which has " + strings.Join(known, ", ")
		if more := len(e.Known) - len(known); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return text + fmt.Sprintf(": add it to clusters there, as {name: %s, kubeconfig: FILE, context: NAME}", e.Cluster)
}

// namedClusters is how many clusters an error names at most.
const namedClusters = 10

// FindCluster is Cluster, and says with a NoClusterError which ones there are instead.
func (v *Inventory) FindCluster(name string) (Cluster, error) {
	c, is := v.Cluster(name)
	if !is {
		return c, &NoClusterError{Cluster: name, Known: v.clusterNames()}
	}
	return c, nil
}

// readClusters reads a list of {name: prod, kubeconfig: FILE, context: NAME}. What it is
// is always said: whatever cluster happens to be current is not the one that is meant.
func readClusters(n *yamlfile.Node) (all []Cluster) {
	first := map[string]*yamlfile.Node{}
	for _, one := range n.List("clusters", maxClusters) {
		fields, ok := one.Fields("a cluster", "name", "kubeconfig", "context", "in_cluster")
		if !ok {
			continue
		}
		c := Cluster{}
		if at := fields["name"]; at == nil {
			one.Fail("the cluster has no name")
		} else if text, ok := at.Line("the name of a cluster", maxName); ok {
			switch before := first[text]; {
			case !validName().MatchString(text):
				at.Fail("%q cannot be the name of a cluster: %s", text, nameRule)
			case before != nil:
				at.Fail("duplicate cluster %q, first at %s", text, before.Position)
			}
			c.Name, first[text] = text, at
		}
		for key, to := range map[string]*string{"kubeconfig": &c.Kubeconfig, "context": &c.Context} {
			if at := fields[key]; at != nil {
				*to, _ = at.Line("a text", maxText)
			}
		}
		if at := fields["in_cluster"]; at != nil {
			c.InCluster = readFlag(at)
		}
		switch named := fields["kubeconfig"] != nil || fields["context"] != nil; {
		case c.InCluster && named:
			one.Fail("cluster %q is the one in which this runs, and has a kubeconfig or context: give only one of these", c.Name)
		case !c.InCluster && c.Kubeconfig == "" && c.Context == "":
			one.Fail("it is not said which cluster %q is: give a kubeconfig or a context, or in_cluster: true for the one in which this runs", c.Name)
		}
		all = append(all, c)
	}
	return all
}
