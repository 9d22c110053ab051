package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/manifest"
)

// Made is what a run makes of a resource, as far as that takes to remove it when no manifest
// declares it any more.
type Made struct {
	Type           string
	ImageID        string // of the type: id of its content
	ImageDigest    string // of the type, in a registry; "" if it never was in one
	Config         map[string]any
	Secrets        [][]string // where there are values in Config that are not to be seen
	Plugs          []MadePlug // those that the type was given, by name
	DependsOn      []string
	Timeout        time.Duration // of one container; 0 is the default
	PreventDestroy bool
	Declared       manifest.Position
	Removable      bool // the type can remove it
	Identity       Identity
	OneOfMany      bool // an instance of a late resource, which may no longer have it when it is to be removed
}

// MadePlug is a plug as it was when a type was given it.
type MadePlug struct {
	Name     string
	Path     string
	ReadOnly bool
}

// Same reports whether two Marks of identities are of one thing.
func Same(a, b string) bool { return a == b && a != "" }

// Differ reports whether two Marks of identities are known to be of two things. One after a ~
// is of a configuration: it may change, and the thing stays the same.
func Differ(a, b string) bool {
	return a != b && a != "" && b != "" && a[0] != '~' && b[0] != '~'
}

// Undeclared is something that a run of the manifest made and that the manifest no longer declares.
type Undeclared struct {
	Name    string
	Run     string // that made it, or adopted it
	At      time.Time
	Unmoved string   // the name that a move gives it, and that something else has; "" is none
	Of      string   // the manifest that made it, which is gone; "" is the one at hand
	ID      string   // identifies it within the log; "" is by its name
	Owner   *OwnedBy // the manifest that made it, of what a run removes that is of none or of another one; nil is that of the run

	// Deposed says that the resource of its name is another thing by now, and that only this is to be removed.
	Deposed bool
	Made    // without what it takes to remove it, where nothing is to be removed
}

// Reference names it for "deployster state": with its manifest, where that is another one.
func (u Undeclared) Reference() string {
	if u.Owner == nil {
		return u.Name
	}
	if u.Owner.Name != "" {
		return u.Name + " --manifest " + u.Owner.Name
	}
	return u.Name + " --manifest " + strings.Join(u.Owner.Files, " --manifest ")
}

// Target names it for --target: with its manifest, where that is another one.
func (u Undeclared) Target() string {
	if u.Owner == nil {
		return u.Name
	}
	return u.Owner.String() + "#" + u.Name
}

// Origin says who made it, and why it has no other name.
func (u Undeclared) Origin() string {
	text := "made by run " + u.Run
	if u.Owner != nil {
		return text + " of " + u.Owner.String()
	}
	if u.Of != "" {
		return text + " of " + u.Of + ", which is gone"
	}
	if u.Unmoved != "" {
		text += fmt.Sprintf(" and not moved to %s, which there is already", u.Unmoved)
	}
	return text
}

// WayOut is how something that is no longer declared is removed.
func (u Undeclared) WayOut() string {
	if u.Of != "" {
		return fmt.Sprintf(`"deployster destroy --orphans" removes it, and moved: [{from: %q, to: …}] has it here`, u.Of+"#"+u.Name)
	}
	return "--prune removes it"
}

// Bare is what is no longer declared without what it takes to remove it.
func Bare(list []Undeclared) []Undeclared {
	list = slices.Clone(list)
	for i, u := range list {
		list[i].Made = Made{Type: u.Type, Identity: u.Identity}
	}
	return list
}

// mostLeft is how many resources that are no longer declared a sentence names.
const mostLeft = 5

// LeftoverText says that something is no longer declared, and who made it.
func LeftoverText(list []Undeclared) string {
	names := make([]string, 0, mostLeft)
	for _, u := range list[:min(mostLeft, len(list))] {
		names = append(names, u.Name+", "+u.Origin())
	}
	text := strings.Join(names, "; ")
	if more := len(list) - len(names); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	ways := "--prune removes them"
	if slices.ContainsFunc(list, func(u Undeclared) bool { return u.Of != "" }) {
		ways = `see "deployster list --orphans"`
	}
	if len(list) == 1 {
		return text + ", is no longer declared: " + list[0].WayOut()
	}
	return text + ", are no longer declared: " + ways
}
