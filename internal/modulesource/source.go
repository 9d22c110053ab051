// Package modulesource makes directories of the sources of modules that are elsewhere: artifacts of
// OCI registries, and git repositories. What a name means is found out once, and pinned: by the
// digest of the files, and of a repository by the commit, too. From then on that is what there is,
// or an error.
//
// Neither a registry nor a repository is trusted. What comes of them is bounded in time, bytes and files,
// has no links that lead out, and is kept under its digest, which is checked at each use.
package modulesource

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/suggest"
)

// Forms says how sources are written.
const Forms = "oci://REGISTRY/REPOSITORY:TAG, or git::https://HOST/REPOSITORY?ref=TAG, either with //DIRECTORY before a ?"

// Source is where a module is.
type Source struct {
	text string
	dir  string // of the module, below what is fetched; "" is all of it

	artifact string // REGISTRY/REPOSITORY:TAG or @DIGEST; "" is a repository
	url      string // of the repository
	ref      string // a branch, tag or commit; "" is its default branch
}

// maxSource bounds a source, in bytes.
const maxSource = 1000

// Parse reads a source.
func Parse(text string) (Source, error) {
	s, err := parse(text)
	if err != nil {
		return Source{}, fmt.Errorf("%.200q is no source of a module: %w", withoutCredentials(text), err)
	}
	return s, nil
}

// credentials matches what may be a secret in a URL: a password, which may have any
// character, or what follows a ?.
var credentials = pattern.Lazy(`://.*@|\?.*`)

// withoutCredentials is a source as an error may show it.
func withoutCredentials(text string) string {
	return credentials().ReplaceAllStringFunc(text, func(secret string) string {
		if strings.HasPrefix(secret, "?") {
			return "?…"
		}
		return "://…@"
	})
}

func parse(text string) (Source, error) {
	if len(text) > maxSource {
		return Source{}, fmt.Errorf("it has %d bytes, and at most %d are possible", len(text), maxSource)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return Source{}, fmt.Errorf("it has spaces or control characters; write %s", Forms)
	}
	s := Source{text: text}
	if rest, is := strings.CutPrefix(text, "oci://"); is {
		artifact, dir, _ := strings.Cut(rest, "//")
		if strings.ContainsAny(artifact, "?#") || !strings.Contains(artifact, "/") {
			return Source{}, fmt.Errorf("write %s", Forms)
		}
		if registry, _, _ := strings.Cut(artifact, "/"); strings.Contains(registry, "@") {
			return Source{}, fmt.Errorf("it has credentials, which the manifest would show: leave them to `docker login`")
		}
		s.artifact, s.dir = artifact, dir
		return s, s.checkDirectory()
	}
	rest, is := strings.CutPrefix(text, "git::")
	if meant := suggest.GitSource(text); meant != "" {
		return Source{}, fmt.Errorf("write %s", meant)
	}
	if !is {
		return Source{}, fmt.Errorf("write %s", Forms)
	}
	return s, s.repository(rest)
}

// schemes are those of repositories; git would run programs for others, or tell everybody.
var schemes = []string{"https", "ssh", "file"}

// validRef matches what may be the name of a branch, tag or commit, and is no option or expression of git.
var validRef = pattern.Lazy(`^[A-Za-z0-9_][A-Za-z0-9_./+-]*$`)

// repository reads a URL of a git repository with //DIRECTORY and ?ref=.
func (s *Source) repository(text string) error {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Opaque != "" || u.Path == "" || u.Path == "/" || (u.Host == "") != (u.Scheme == "file") {
		return fmt.Errorf("after git:: there must be a URL that begins with https://, ssh:// or file:///, such as git::ssh://git@HOST/REPOSITORY; others are not fetched")
	}
	if _, secret := u.User.Password(); secret || u.Scheme == "https" && u.User != nil {
		return fmt.Errorf("it has credentials, which the manifest would show: leave them to git's credential helpers (git config credential.helper)")
	}
	if strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.Username(), "-") {
		return fmt.Errorf("the name of its host or user begins with a -")
	}
	u.RawQuery = strings.ReplaceAll(u.RawQuery, "+", "%2B") // which may be in the name of a tag
	query := u.Query()
	for key := range query {
		if key != "ref" || len(query[key]) != 1 {
			return fmt.Errorf("behind the ? there can be one ref=, a branch, tag or commit")
		}
	}
	s.ref = query.Get("ref")
	if u.Fragment != "" || query.Has("ref") && (!validRef().MatchString(s.ref) || strings.Contains(s.ref, "..") || strings.HasSuffix(s.ref, ".lock")) {
		return fmt.Errorf("its ref must be a branch, tag or commit")
	}
	where, dir, _ := strings.Cut(u.Path, "//")
	u.Path, u.RawPath, u.RawQuery = where, "", ""
	s.url, s.dir = u.String(), dir
	return s.checkDirectory()
}

func (s *Source) checkDirectory() error {
	if s.dir == "" {
		return nil
	}
	clean := path.Clean(s.dir)
	if !filepath.IsLocal(clean) || clean == "." || slices.Contains(strings.Split(clean, "/"), ".git") {
		return fmt.Errorf("%q is no directory below it", s.dir)
	}
	s.dir = clean
	return nil
}

// String is the source as it is written.
func (s Source) String() string { return s.text }

// isCommit matches the hash of a commit.
var isCommit = pattern.Lazy(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
