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
	Removable      bool   // the type can remove it
	Thing          string // identifies what it manages (Same, Differ); "" is not known, or not asked for
	OneOfMany      bool   // an instance of a late resource, which may no longer have it when it is to be removed
}

// MadePlug is a plug as it was when a type was given it.
type MadePlug struct {
	Name     string
	Path     string
	ReadOnly bool
}

// Same reports whether two identities of what is made are of one thing.
func Same(a, b string) bool { return a == b && a != "" }

// Differ reports whether two identities of what is made are known to be of two things. One after a ~
// is of a configuration: it may change, and the thing stays the same.
func Differ(a, b string) bool {
	return a != b && a != "" && b != "" && a[0] != '~' && b[0] != '~'
}

// Undeclared is something that a run of the manifest made and that the manifest no longer declares.
type Undeclared struct {
	Name    string
	Run     string // that made it, or adopted it
	At      time.Time
	Unmoved string // the name that a move gives it, and that something else has; "" is none
	Made           // without what it takes to remove it, where nothing is to be removed
}

// Origin says who made it, and why it has no other name.
func (u Undeclared) Origin() string {
	text := "made by run " + u.Run
	if u.Unmoved != "" {
		text += fmt.Sprintf(" and not moved to %s, which there is already", u.Unmoved)
	}
	return text
}

// Bare is what is no longer declared without what it takes to remove it.
func Bare(list []Undeclared) []Undeclared {
	list = slices.Clone(list)
	for i, u := range list {
		list[i].Made = Made{Type: u.Type}
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
	if len(list) == 1 {
		return text + ", is no longer declared: --prune removes it"
	}
	return text + ", are no longer declared: --prune removes them"
}
