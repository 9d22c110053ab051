package definition

import (
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/pullrequest/address"
	"github.com/deployster-go/deployster/internal/pullrequest/value"
	"github.com/deployster-go/deployster/internal/pullrequest/wording"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// PullRequest is values in files of a git repository, which a pull request sets to the revision.
// What became of that is observed.
type PullRequest struct {
	Repository string   `json:"repository"` // URL
	File       string   `json:"file,omitempty"`
	Value      string   `json:"value,omitempty"`    // path of the value in the file; "" if Set has all of them
	Part       string   `json:"part,omitempty"`     // Tag, or "" for all of the value
	Set        []Value  `json:"set,omitempty"`      // more values, each with its file
	Base       string   `json:"base"`               // branch
	Branch     string   `json:"branch"`             // that proposes it
	Provider   string   `json:"provider,omitempty"` // "" only pushes the branch
	API        string   `json:"api,omitempty"`      // URL
	User       string   `json:"user,omitempty"`
	TokenFile  string   `json:"token_file,omitempty"` // path below the workspace
	TokenEnv   string   `json:"token_env,omitempty"`  // name of a variable, see IsTokenVariable
	Timeout    Duration `json:"timeout"`              // by when after it is merged the environment must run it
	CheckEvery Duration `json:"check_every"`          // how often is looked what became of it
	Title      string   `json:"title,omitempty"`      // template, see package wording; "" is the usual one
	Commit     Commit   `json:"commit,omitzero"`
}

// Commit is how commits are made.
type Commit struct {
	Author            string   `json:"author,omitempty"`             // NAME <MAIL>; "" is Deployster
	Committer         string   `json:"committer,omitempty"`          // the same; "" is the author
	Message           string   `json:"message,omitempty"`            // template; "" is the usual one
	Trailers          []string `json:"trailers,omitempty"`           // templates of lines KEY: VALUE at its end
	SignOff           bool     `json:"sign_off,omitempty"`           // with Signed-off-by of the author
	SigningKey        string   `json:"signing_key,omitempty"`        // path below the workspace
	SigningPassphrase string   `json:"signing_passphrase,omitempty"` // path of the file that has it
}

// SecretFile is a file with a secret that a definition names.
type SecretFile struct {
	What string  // for people, such as the token
	Key  string  // in the definition, such as token_file
	Path *string // below the workspace
}

// SecretFiles returns the files with secrets that are named.
func (p *PullRequest) SecretFiles() (all []SecretFile) {
	for _, f := range []SecretFile{
		{"the token", "token_file", &p.TokenFile}, {"the key that signs commits", "commit.signing_key", &p.Commit.SigningKey},
		{"the passphrase", "commit.signing_passphrase", &p.Commit.SigningPassphrase},
	} {
		if *f.Path != "" {
			all = append(all, f)
		}
	}
	return all
}

// Value is one value in a file.
type Value struct {
	File string `json:"file,omitempty"`
	Path string `json:"value"`
	Part string `json:"part,omitempty"` // Tag, or "" for all of the value
}

// Values returns all values that are set to the revision.
func (p *PullRequest) Values() (all []Value) {
	if p.Value != "" {
		all = append(all, Value{p.File, p.Value, p.Part})
	}
	return append(all, p.Set...)
}

// Tag is the part of a value that is the tag of an image.
const Tag = "tag"

// NoProvider is how a file says that the branch is pushed, and nothing else.
const NoProvider = "none"

// The defaults of a PullRequest.
const (
	DefaultBase       = "main"
	DefaultMergeTime  = Duration(30 * time.Minute)
	DefaultCheckEvery = Duration(time.Minute)
	leastCheckEvery   = Duration(10 * time.Second)
)

// Place is what two proposals cannot share.
func (p *PullRequest) Place() string { return address.Canonical(p.Repository) + " " + p.Branch }

// Same reports whether two propose the same in the same place: one may be looked after as the
// other says.
func (p *PullRequest) Same(other *PullRequest) bool {
	of := func(p *PullRequest) [3]string { return [...]string{p.Place(), p.Base, p.Provider} }
	return of(p) == of(other) && slices.Equal(p.Values(), other.Values())
}

var (
	validBranch = pattern.Lazy(`^[a-zA-Z0-9_][a-zA-Z0-9._/+-]*$`)
	validEnv    = pattern.Lazy(`^DEPLOYSTER_GIT_TOKEN(_[A-Z0-9_]+)?$`)
	validUser   = pattern.Lazy(`^[a-zA-Z0-9][a-zA-Z0-9._@+{}-]*$`)
)

// TokenVariableRule says which variables may be named as token_env: whoever writes a definition
// chooses to which server the token goes, and must not get the other secrets of the process.
const TokenVariableRule = "must be DEPLOYSTER_GIT_TOKEN, or a variable whose name begins with DEPLOYSTER_GIT_TOKEN_, as DEPLOYSTER_GIT_TOKEN_ACME does" //nolint:gosec // a rule, and no secret

// IsTokenVariable reports whether a variable may have the token of a repository.
func IsTokenVariable(name string) bool { return validEnv().MatchString(name) }

var providers = []string{"github", "gitlab", "gitea", "bitbucket", NoProvider}

var pullRequestFields = []string{"repository", "file", "value", "part", "set", "base", "branch", "provider", "api", "user", "token_file", "token_env", "timeout", "check_every", "title", "commit"}

// readPullRequest reads what a stage proposes to a repository.
func (p *parser) readPullRequest(n *yamlfile.Node, s *Stage) *PullRequest {
	fields, ok := n.Fields("a pull_request", pullRequestFields...)
	if !ok {
		return nil
	}
	place := s.Environment
	if s.Sighted() {
		place = s.Name
	}
	to := &PullRequest{Base: DefaultBase, Branch: "deployster/" + p.definition.Name + "/" + place, Timeout: DefaultMergeTime, CheckEvery: DefaultCheckEvery}
	readPlace(n, fields, to)
	readProvider(n, fields, to)
	readValues(n, fields, to)
	readToken(n, fields, to)
	branchAt := n
	for key, branch := range map[string]*string{"base": &to.Base, "branch": &to.Branch} {
		if at := fields[key]; at != nil {
			*branch, _ = at.Line("a branch", maxName)
		}
	}
	if at := fields["branch"]; at != nil {
		branchAt = at
	}
	for _, branch := range []string{to.Base, to.Branch} {
		if !isBranch(branch) {
			branchAt.Fail("%q cannot be a branch of git; name another one", branch)
		}
	}
	if to.Base == to.Branch {
		branchAt.Fail("what is proposed needs a branch of its own, not %s, which is to have it", to.Base)
	}
	if at := fields["timeout"]; at != nil {
		to.Timeout, _ = at.Duration(Duration(time.Second), maxTime)
	}
	if at := fields["check_every"]; at != nil {
		to.CheckEvery, _ = at.Duration(leastCheckEvery, maxTime)
	}
	if at := fields["title"]; at != nil {
		if to.Title, _ = at.Line("the title of a pull request", maxTitle); to.Title != "" {
			failTemplate(at, to.Title)
		}
	}
	if at := fields["commit"]; at != nil {
		to.Commit = readCommit(at)
	}
	p.ownBranch(branchAt, to)
	return to
}

const (
	maxTitle    = 1000
	maxMessage  = 10_000
	maxTrailers = 20
)

var validAuthor = pattern.Lazy(`^[^<>\s]([^<>]*[^<>\s])? <[^<>\s]+>$`)

func readCommit(n *yamlfile.Node) (c Commit) {
	fields, ok := n.Fields("a commit", "author", "committer", "message", "trailers", "sign_off", "signing_key", "signing_passphrase")
	if !ok {
		return c
	}
	for key, who := range map[string]*string{"author": &c.Author, "committer": &c.Committer} {
		if at := fields[key]; at != nil {
			*who, _ = at.Line("a name and an address of mail", maxName)
			if *who != "" && !validAuthor().MatchString(*who) {
				at.Fail("must be a name and an address of mail, as Ann Lee <ann@example.com> is, not %.60q", *who)
			}
		}
	}
	if at := fields["trailers"]; at != nil {
		c.Trailers = readTrailers(at)
	}
	if at := fields["message"]; at != nil {
		if c.Message, _ = at.Text("the message of a commit", maxMessage); c.Message != "" {
			failTemplate(at, c.Message)
		}
	}
	if at := fields["sign_off"]; at != nil {
		c.SignOff, _ = at.Bool()
		if c.SignOff && c.Author == "" && fields["author"] == nil {
			at.FailName("needs an author, who signs off")
		}
	}
	if at := fields["signing_key"]; at != nil {
		c.SigningKey = readSecretPath(at)
	}
	if at := fields["signing_passphrase"]; at != nil {
		if c.SigningPassphrase = readSecretPath(at); fields["signing_key"] == nil {
			at.FailName("is of signing_key, and there is none")
		}
	}
	return c
}

func readTrailers(n *yamlfile.Node) (all []string) {
	for _, at := range n.List(`trailers, as ["Refs: OPS-42"]`, maxTrailers) {
		text, ok := at.Line("a trailer", maxTitle)
		switch key, _, _ := strings.Cut(text, ":"); {
		case !ok:
		case !wording.IsTrailer(text):
			at.Fail("must be a key, a colon, a space and a value, as \"Refs: OPS-42\" is, not %.60q", text)
		case strings.EqualFold(key, "Deployster-Promotion"):
			at.Fail("Deployster writes the trailer %s itself: leave it out", key)
		case strings.EqualFold(key, "Signed-off-by"):
			at.Fail("the trailer %s is of the author: set sign_off: true instead", key)
		default:
			failTemplate(at, text)
			all = append(all, text)
		}
	}
	return all
}

// failTemplate fails for a template that can be used for nothing.
func failTemplate(at *yamlfile.Node, text string) {
	if err := wording.Check(text); err != nil {
		at.Fail("it is no template that can be filled in: %s", err)
	}
}

// isBranch reports whether git can have a branch of a name.
func isBranch(name string) bool {
	if !validBranch().MatchString(name) || strings.Contains(name, "..") || strings.HasSuffix(name, ".") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		return part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	})
}

// ownBranch fails where two stages would have one branch, or git could not have both.
func (p *parser) ownBranch(n *yamlfile.Node, to *PullRequest) {
	for i := range p.definition.Stages {
		other := p.definition.Stages[i].PullRequest
		if other == nil || address.Canonical(other.Repository) != address.Canonical(to.Repository) {
			continue
		}
		switch name := p.definition.Stages[i].Name; {
		case other.Branch == to.Branch:
			n.Fail("stage %s has branch %s of this repository already: each stage needs one of its own (branch)", name, to.Branch)
		case strings.HasPrefix(other.Branch, to.Branch+"/"), strings.HasPrefix(to.Branch, other.Branch+"/"):
			n.Fail("git cannot have branch %s beside %s of stage %s: name another one (branch)", to.Branch, other.Branch, name)
		}
	}
}

func readPlace(n *yamlfile.Node, fields map[string]*yamlfile.Node, to *PullRequest) {
	if at := fields["repository"]; at == nil {
		n.Fail("it has no repository, the URL of one of git")
	} else if text, ok := at.Line("a URL", maxPath); ok {
		to.Repository = text
		failURL(at, text, "https://git.example/acme/deploy.git")
	}
}

func readProvider(n *yamlfile.Node, fields map[string]*yamlfile.Node, to *PullRequest) {
	if at := fields["provider"]; at == nil {
		n.Fail("it has no provider, who keeps the repository: github, gitlab, gitea or bitbucket; none pushes the branch only")
	} else if text, ok := at.Line("a provider", maxName); ok && !slices.Contains(providers, text) {
		at.FailLike(text, providers, "there is no provider %.60q", text)
	} else if text != NoProvider {
		to.Provider = text
	}
	if at := fields["api"]; at != nil {
		if to.API, _ = at.Line("a URL", maxPath); to.Provider == "" {
			at.FailName("is of a provider, and there is none")
		}
		failURL(at, to.API, "https://git.example/api/v1")
	}
}

const maxValues = 100

// readValues reads what is set to the revision: one value, a list of them, or both.
func readValues(n *yamlfile.Node, fields map[string]*yamlfile.Node, to *PullRequest) {
	set := fields["set"]
	if set == nil && fields["value"] == nil {
		n.Fail("it has no value, the path of the value in the file, as image.tag or images[name=shop].newTag; set is a list of several")
	}
	one := readValue(fields)
	to.File, to.Value, to.Part = one.File, one.Path, one.Part
	if fields["value"] != nil && fields["file"] == nil {
		n.Fail("it has no file, the path of the one in the repository that has the value")
	}
	if at := fields["part"]; at != nil && fields["value"] == nil {
		at.FailName("is of value, and there is none; each element of set has a part of its own")
	}
	if set == nil {
		return
	}
	all := set.List("the values that are set to the revision", maxValues)
	if len(all) == 0 {
		set.Fail("it has no element, such as {value: image.tag}")
	}
	for _, at := range all {
		fields, ok := at.Fields("a value to set", "file", "value", "part")
		if !ok {
			continue
		}
		v := readValue(fields)
		if v.File == "" {
			v.File = to.File
		}
		switch {
		case fields["value"] == nil:
			at.Fail("it has no value, the path of the value in the file, as image.tag")
		case v.File == "" && fields["file"] == nil:
			at.Fail("it has no file: name one here, or for all of them beside set")
		case slices.ContainsFunc(to.Values(), func(other Value) bool { return other.File == v.File && other.Path == v.Path }):
			at.Fail("%s of %s is set already", v.Path, v.File)
		}
		to.Set = append(to.Set, v)
	}
}

// readValue reads file, value and part.
func readValue(fields map[string]*yamlfile.Node) (v Value) {
	if at := fields["file"]; at != nil {
		if text, ok := at.Line("the path of a file in the repository", maxPath); ok {
			if v.File = text; !isWithin(text) {
				at.Fail("must be a path within the repository, as shop/prod/values.yaml is")
			}
		}
	}
	if at := fields["value"]; at != nil {
		if text, ok := at.Line("a path in the file, as image.tag", maxPath); ok {
			v.Path = text
			if _, err := value.Parse(text); err != nil {
				at.Fail("%.60q leads to no value: %s", text, err)
			}
		}
	}
	if at := fields["part"]; at != nil {
		if text, ok := at.Line(Tag, maxName); ok && text != Tag {
			at.Fail("must be tag, of a value such as shop:1.2, not %.60q; leave it out for all of the value", text)
		} else {
			v.Part = text
		}
	}
	return v
}

// isWithin reports whether a path is one of a file within a repository.
func isWithin(text string) bool {
	return text == path.Clean(text) && !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "../") && text != "." && text != ".." && !strings.Contains(text, `\`)
}

// failURL fails for what is no URL to which a token may be sent.
func failURL(at *yamlfile.Node, text, example string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "":
		at.Fail("must be a URL, as %s is", example)
	case u.User != nil:
		at.Fail("a URL must not hold a password: name it by token_file or token_env")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		at.Fail("must be a URL of https: by http everybody on the way could read the token")
	}
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

func readToken(n *yamlfile.Node, fields map[string]*yamlfile.Node, to *PullRequest) {
	if at := fields["token_file"]; at != nil {
		to.TokenFile = readSecretPath(at)
	}
	if at := fields["token_env"]; at != nil {
		if text, ok := at.Line("the name of an environment variable", maxName); ok && !IsTokenVariable(text) {
			at.Fail("%s; the token itself must not be here", TokenVariableRule)
		} else {
			to.TokenEnv = text
		}
	}
	if at := fields["user"]; at != nil {
		if text, ok := at.Line("a user", maxName); ok && !validUser().MatchString(text) {
			at.Fail("%.60q cannot be a user", text)
		} else {
			to.User = text
		}
	}
	switch {
	case fields["token_file"] != nil && fields["token_env"] != nil:
		fields["token_env"].FailName("the token is in token_file already")
	case fields["token_file"] == nil && fields["token_env"] == nil && to.Provider != "":
		n.Fail("it has neither token_file nor token_env, by which pull requests are opened")
	}
}
