package definition

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/pullrequest/address"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Targets are the hosts of a stage that is no environment. A host runs a revision when all
// resources of the manifest are VALID there with the variable of the pipeline as that revision.
type Targets struct {
	Manifest string            `json:"manifest"`                 // path below the workspace
	Files    map[string]string `json:"manifest_files,omitempty"` // the SHA-256 of what it carries, itself among them, by path
	Hosts    string            `json:"hosts"`                    // query over the inventory

	MaxLeaving *budget.Budget `json:"max_leaving,omitempty"` // how many may leave at once; nil is half of them
	CheckEvery Duration       `json:"check_every"`           // how often they are observed though nothing is known to have changed

	// Revision is what of the observed state the revision is, resources.NAME.ATTRIBUTE. The first
	// stage needs it, for nothing says what that should run.
	Revision string `json:"revision,omitempty"`
}

// The bounds of Targets.
const (
	DefaultTargetsCheckEvery = Duration(time.Minute)
	maxQuery                 = 1000
	mostNamed                = 3
)

// hostsPrefix begins what a stage on hosts is known as where others are known by their
// environment. No environment has such a name.
const hostsPrefix = "hosts:"

// PlaceText is an environment, or what a stage that is none is known as, in words.
func PlaceText(environment string) string {
	if group, is := strings.CutPrefix(environment, hostsPrefix); is {
		return "host group " + group
	}
	if group, is := strings.CutPrefix(environment, objectsPrefix); is {
		return "object group " + group
	}
	return "environment " + environment
}

// OnHosts reports whether that is what a stage on hosts is known as.
func OnHosts(environment string) bool { return strings.HasPrefix(environment, hostsPrefix) }

// Identity is equal for two stages that are the same place: an approval of one is of the other.
func (s *Stage) Identity() string {
	var of any
	switch {
	case s.Targets != nil:
		targets := *s.Targets
		targets.MaxLeaving, targets.CheckEvery = nil, 0
		of = targets
	case len(s.Objects) > 0:
		of = s.Objects
		if source := s.ReadsSource(); source != nil { // their revision is a value there
			of = []any{s.Objects, address.Canonical(source.Repository), source.Values()}
		}
	default:
		return s.Environment
	}
	data, err := json.Marshal(of)
	if err != nil { // it consists of texts
		return s.Environment
	}
	sum := sha256.Sum256(data)
	return s.Environment + "@" + hex.EncodeToString(sum[:])
}

var validAttribute = pattern.Lazy(`^resources\.([^.\[\]{} ]+)\.([a-zA-Z_][a-zA-Z0-9_-]*)$`)

// Attribute is the resource and the attribute of its state that Revision names, "" for none.
func (t *Targets) Attribute() (resource, attribute string) {
	if match := validAttribute().FindStringSubmatch(t.Revision); match != nil {
		return match[1], match[2]
	}
	return "", ""
}

// Losing is why the hosts that are selected do not take the place of those that there were, ""
// where they do.
func (t *Targets) Losing(present, selected []string) string {
	var leaving []string
	for _, host := range present {
		if !slices.Contains(selected, host) {
			leaving = append(leaving, host)
		}
	}
	most := cmp.Or(t.MaxLeaving, &budget.Budget{Percent: 50}).Of(len(present)) //nolint:mnd // half of them
	if t.MaxLeaving == nil {
		most = max(most, 1)
	}
	if len(leaving) <= most {
		return ""
	}
	return fmt.Sprintf("%d of %s would leave it at once, and max_leaving lets %d go: %s; put them back into the inventory, or apply the pipeline with another max_leaving",
		len(leaving), phrase.Count(len(present), "host"), most, phrase.First(leaving, mostNamed))
}

var targetsFields = []string{"manifest", "hosts", "max_leaving", "check_every", "revision"}

// readTargets reads the hosts of a stage.
func (p *parser) readTargets(n *yamlfile.Node, fields map[string]*yamlfile.Node, s *Stage) {
	t := &Targets{CheckEvery: DefaultTargetsCheckEvery}
	s.Targets, s.Environment = t, hostsPrefix+p.definition.Name+"/"+s.Name
	for _, key := range []string{"environment", "objects"} {
		if at := fields[key]; at != nil {
			at.FailName("a stage is an environment, a manifest on hosts, or objects in clusters, and not both")
		}
	}
	t.Manifest = readManifest(fields["manifest"])
	if at := fields["hosts"]; at == nil {
		n.Fail("the stage has no hosts, the query that selects those on which its manifest is")
	} else {
		t.Hosts, _ = at.Text("a query such as attribute:stack == prod", maxQuery)
	}
	if at := fields["max_leaving"]; at != nil {
		scalar := at.Kind == yamlfile.Integer || at.Kind == yamlfile.Number || at.Kind == yamlfile.Text
		if most, err := budget.Parse(at.Value); !scalar || err != nil {
			at.Fail("must be a number of hosts, or a percentage such as 10%%")
		} else {
			t.MaxLeaving = &most
		}
	}
	if at := fields["check_every"]; at != nil {
		t.CheckEvery, _ = at.Duration(Duration(time.Second), maxTime)
	}
	first := len(p.definition.Stages) == 0
	if at := fields["revision"]; at != nil {
		if text, ok := at.Line("resources.NAME.ATTRIBUTE", maxVariable+maxName); ok && !validAttribute().MatchString(text) {
			at.Fail("%.60q is no attribute of the state of a resource; write resources.NAME.ATTRIBUTE, such as resources.web.image", text)
		} else {
			t.Revision = text
		}
	} else if first {
		n.Fail("nothing says which revision the first stage is to run, so that is read on its hosts: write revision: resources.NAME.ATTRIBUTE, or let the first stage be an environment")
	}
}
