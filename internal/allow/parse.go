package allow

import (
	"errors"
	"path"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// The bounds of what rules say.
const (
	mostPatterns = 200
	longest      = 1000
	longestQuery = 4096
)

var plugName = pattern.Lazy(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

// Read reads rules; query checks a query over the inventory. ok is false if it reported a problem.
func Read(n *yamlfile.Node, query func(string) error) (r *Rules, ok bool) {
	fields, ok := n.Fields("allow", "files", "types", "plugs", "images", "hosts")
	if !ok {
		return nil, false
	}
	r = &Rules{}
	r.Files, ok = readPatterns(fields["files"], "paths of files below the workspace", filePattern)
	types, fine := readPatterns(fields["types"], "images of types", func(text string) string { return imagePattern(text, true) })
	r.Types, ok = types, ok && fine
	images, fine := readPatterns(fields["images"], "images", func(text string) string { return imagePattern(text, false) })
	r.Images, ok = images, ok && fine
	if at := fields["plugs"]; at != nil {
		ok = r.readPlugs(at) && ok
	}
	if at := fields["hosts"]; at != nil {
		ok = r.readHosts(at, query) && ok
	}
	return r, ok
}

func readPatterns(n *yamlfile.Node, what string, flaw func(string) string) (all []string, ok bool) {
	if n == nil {
		return nil, true
	}
	if n.Kind != yamlfile.List {
		n.Fail("must be a list of %s, in which * may stand for a part, not %s", what, n.Kind)
		return nil, false
	}
	ok = true
	for _, m := range n.List("patterns", mostPatterns) {
		text, is := m.Line("one of the "+what, longest)
		if why := ""; is {
			if why = flaw(text); why != "" {
				m.Fail("%s", why)
			}
			is = why == ""
		}
		if ok = ok && is; is {
			all = append(all, text)
		}
	}
	return all, ok
}

// filePattern is what is wrong with a pattern of files; "" is nothing.
func filePattern(text string) string {
	_, err := path.Match(strings.TrimSuffix(text, "/**"), "x")
	switch {
	case err != nil:
		return "is no pattern of files: deploy/*.yaml is one, or deploy/** for all below"
	case !filepath.IsLocal(text) || path.Clean(text) != text || strings.Contains(text, `\`):
		return "must be a path below the workspace, such as deploy/*.yaml, without . and .. in it"
	}
	return ""
}

// imagePattern is what is wrong with a pattern of images; "" is nothing.
func imagePattern(text string, types bool) string {
	if types && Shipped(text) {
		return ""
	}
	if Shipped(text) {
		return "is named like a type that ships: write docker.io/" + text + " for the image of a registry"
	}
	if strings.Contains(strings.TrimSuffix(repositoryOf(text), "/**"), "**") {
		return "may have ** at the end of the repository only, after a /"
	}
	if _, ok := parsePattern(text); !ok {
		return "is no image: registry.example/team/* is a pattern of repositories, registry.example/team/app:1.* one of tags, and NAME@sha256:… a content"
	}
	return ""
}

func repositoryOf(text string) string {
	name, _, _ := strings.Cut(text, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name
}

func (r *Rules) readPlugs(n *yamlfile.Node) (ok bool) {
	if n.Kind != yamlfile.Mapping {
		n.Fail("must be a mapping of plugs by their names, such as root: {path: /srv/gateway}, not %s", n.Kind)
		return false
	}
	r.Plugs, ok = map[string]Plug{}, true
	for _, m := range n.Members {
		if !plugName().MatchString(m.Name) {
			m.FailName("%.60q cannot be the name of a plug: it begins with a letter and consists of letters, digits, _ and -", m.Name)
			ok = false
			continue
		}
		fields, is := m.Fields("a plug", "path", "read_only")
		if !is {
			ok = false
			continue
		}
		var p Plug
		if at := fields["path"]; at == nil {
			m.Fail("there is no path, at or below which the plug may lead")
			is = false
		} else if p.Path, is = at.Line("the path of a plug", longest); is {
			if why := pathFlaw(p.Path); why != "" {
				at.Fail("%s", why)
				is = false
			}
		}
		if at := fields["read_only"]; at != nil {
			only, fine := at.Bool()
			if p.ReadOnly = only; !fine {
				at.Fail("must be true or false, not %s", at.Kind)
			}
			is = is && fine
		}
		if ok = ok && is; is {
			r.Plugs[m.Name] = p
		}
	}
	return ok
}

// pathFlaw is what is wrong with the path of a plug that is allowed; "" is nothing.
func pathFlaw(text string) string {
	switch {
	case isClaim(text):
		return ""
	case strings.HasPrefix(text, "~"):
		return "must not begin with ~: whose directory that is depends on the account of the server; write it in full"
	case strings.Contains(text, "{{"):
		return "has an expression, and is compared as it stands: write the directory at or below which the plug may lead"
	case filepath.Clean(text) != text:
		return "must be written without . and .. and double slashes: " + filepath.Clean(text)
	case !filepath.IsAbs(text) && !filepath.IsLocal(text):
		return "must be absolute, or below the workspace"
	}
	return ""
}

func (r *Rules) readHosts(n *yamlfile.Node, query func(string) error) bool {
	text, ok := n.Text("a query such as attribute:stack == prod", longestQuery)
	if !ok {
		return false
	}
	if err := query(text); err != nil {
		var placed interface {
			Place() (column int, problem string)
		}
		if errors.As(err, &placed) {
			if column, problem := placed.Place(); n.FailInside(column-1, "%s", problem) {
				return false
			}
		}
		n.Fail("%s", err)
		return false
	}
	r.Hosts = text
	return true
}
