package kubernetes

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
)

// key is which object is meant, whatever version of its kind.
type key struct{ group, kind, namespace, name string }

// String names an object for people.
func (k key) String() string {
	if k.namespace == "" {
		return k.kind + " " + k.name
	}
	return k.kind + " " + k.namespace + "/" + k.name
}

// declared is an object of a configuration.
type declared struct {
	object   map[string]any // as it was written
	property string         // of the configuration
	index    int            // in its list

	apiVersion, kind, namespace, name string
}

func (d declared) place() string {
	if d.property == "manifest" {
		return d.property
	}
	return fmt.Sprintf("%s[%d]", d.property, d.index)
}

// tier orders what others need first: namespaces, and the definitions of kinds.
func (d declared) tier() int { return tierOf(d.apiVersion, d.kind) }

func tierOf(apiVersion, kind string) int {
	switch {
	case apiVersion == "v1" && kind == "Namespace":
		return 0
	case groupOf(apiVersion) == "apiextensions.k8s.io" && kind == "CustomResourceDefinition":
		return 1
	}
	return 2
}

func groupOf(apiVersion string) string {
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		return ""
	}
	return group
}

// declare reads the objects of a configuration, in the order in which they are applied.
func declare(c Config) ([]declared, error) {
	var all []declared
	if len(c.Manifest) > 0 && !bytes.Equal(c.Manifest, []byte("null")) {
		all = append(all, declared{property: "manifest", index: -1})
	}
	for i := range c.Secrets {
		all = append(all, declared{property: "secrets", index: i})
	}
	for i := range c.Objects {
		all = append(all, declared{property: "objects", index: i})
	}
	if len(all) == 0 {
		return nil, errors.New(`there is no object: give one in "manifest", or several in "objects" or "secrets"`)
	}
	for i := range all {
		text := c.Manifest
		switch all[i].property {
		case "secrets":
			text = c.Secrets[all[i].index]
		case "objects":
			text = c.Objects[all[i].index]
		}
		if err := all[i].read(text); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].place(), err)
		}
	}
	slices.SortStableFunc(all, func(a, b declared) int { return cmp.Compare(a.tier(), b.tier()) })
	return all, nil
}

var (
	validVersion   = pattern.Lazy(`^([a-z0-9][-a-z0-9.]*/)?v[a-z0-9]+$`)
	validKind      = pattern.Lazy(`^[A-Z][A-Za-z0-9]*$`)
	validName      = pattern.Lazy(`^[^/%\s]{1,253}$`)
	validNamespace = pattern.Lazy(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// ofServer are the members of metadata that only the server writes.
var ofServer = []string{"uid", "resourceVersion", "managedFields", "generation", "deletionTimestamp", "selfLink", "generateName"}

// read reads an object, whose parts become parts of addresses: it takes nothing for granted.
func (d *declared) read(text json.RawMessage) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&d.object); err != nil {
		return fmt.Errorf("an object is a mapping with apiVersion, kind and metadata: %w", err)
	}
	at := func(path ...string) string { return kubeapi.Text(d.object, path...) }
	d.apiVersion, d.kind, d.name, d.namespace = at("apiVersion"), at("kind"), at("metadata", "name"), at("metadata", "namespace")
	for _, part := range []struct {
		what, value string
		valid       *regexp.Regexp
		like        string
	}{
		{"apiVersion", d.apiVersion, validVersion(), `"v1" or "apps/v1"`},
		{"kind", d.kind, validKind(), `"Deployment"`},
		{"metadata.name", d.name, validName(), `"web"`},
		{"metadata.namespace", cmp.Or(d.namespace, "default"), validNamespace(), `"default"`},
	} {
		if !part.valid.MatchString(part.value) || part.value == "." || part.value == ".." {
			return fmt.Errorf("%s must be text like %s, not %q", part.what, part.like, part.value)
		}
	}
	metadata, _ := d.object["metadata"].(map[string]any)
	for _, name := range ofServer {
		if metadata[name] != nil {
			return fmt.Errorf("metadata.%s of %s %s cannot be declared: it is the cluster's; remove it", name, d.kind, d.name)
		}
	}
	if (d.kind == "Secret") != (d.property == "secrets") {
		return fmt.Errorf(`the kind %s does not belong here: objects of the kind Secret belong into the list "secrets", where what they hold is hidden, and all others into "manifest" or "objects"`, d.kind)
	}
	if d.kind == "List" || strings.HasSuffix(d.kind, "List") && d.object["items"] != nil {
		return fmt.Errorf(`a %s is not an object: put its items into the list "objects"`, d.kind)
	}
	return nil
}

// mark is the annotation of what a resource has applied. An object of which nothing is declared
// but its name would have no field that is managed otherwise, and so belong to nobody.
const mark = "deployster.dev/applied"

// applied is the object as it is sent, in a namespace ("" is none).
func (d declared) applied(namespace string) (map[string]any, error) {
	sent := maps.Clone(d.object)
	delete(sent, "status") // controllers write it; kubectl and generators print it
	metadata, _ := sent["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "creationTimestamp")
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations = maps.Clone(annotations); annotations == nil {
		annotations = map[string]any{}
	}
	annotations[mark] = "true"
	metadata["annotations"] = annotations
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	sent["metadata"] = metadata
	if d.kind != "Secret" || d.apiVersion != "v1" {
		return sent, nil
	}
	return sent, encodeData(sent)
}

// encodeData makes data of stringData, as the server would: what a manager has applied as
// stringData it would never see removed.
func encodeData(secret map[string]any) error {
	plain, there := secret["stringData"].(map[string]any)
	if !there {
		return nil
	}
	data, _ := secret["data"].(map[string]any)
	data = maps.Clone(data)
	if data == nil {
		data = map[string]any{}
	}
	for name, value := range plain {
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("stringData.%s must be a text", name)
		}
		data[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(secret, "stringData")
	secret["data"] = data
	return nil
}

// defines reports whether an object is the definition of a kind.
func (d declared) defines(apiVersion, kind string) bool {
	return d.tier() == 1 && kubeapi.Text(d.object, "spec", "group") == groupOf(apiVersion) && kubeapi.Text(d.object, "spec", "names", "kind") == kind
}
