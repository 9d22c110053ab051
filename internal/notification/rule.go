package notification

import (
	"net/mail"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Rule is what is told of what to whom. One of Webhook, Command and Email is there.
type Rule struct {
	Name string
	On   []Kind   // what is told
	Of   []string // targets, pipelines, environments; with a trailing / all whose names begin so; none is all

	Webhook *Webhook
	Command []string // a program and its arguments, which gets the message as JSON on stdin
	Email   *Email
}

// Webhook is a URL to which messages are posted.
type Webhook struct {
	URL     string // "" is what URLFile holds
	URLFile string // for a URL that is a secret itself
	KeyFile string // of the key that signs; "" signs nothing
	Slack   bool   // the message is a text, as Slack and those that are compatible take it
}

// Email is a server that takes mail, and what to give it.
type Email struct {
	Server       string // HOST:PORT
	From         string
	To           []string
	Username     string // "" does not log in
	PasswordFile string
	Plain        bool // also without TLS
}

// The bounds of a file of rules.
const (
	mostRules = 100
	mostOf    = 100
	mostText  = 2000 // bytes
)

var validName = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$`)

// Parse reads a file of rules; name is what its messages call it. Relative paths are below the
// directory. It fails with a *yamlfile.Error that holds every problem of the file.
func Parse(name, directory string, data []byte) (rules []Rule, err error) {
	err = yamlfile.Read(name, data, "a file of notifications needs a list notifications", func(root *yamlfile.Node) {
		fields, ok := root.Fields("a file of notifications", "notifications")
		switch {
		case !ok:
		case fields["notifications"] == nil:
			root.Fail("there are no notifications; a list notifications is needed")
		default:
			rules = readRules(fields["notifications"], directory)
		}
	})
	if err != nil {
		return nil, err
	}
	return rules, nil
}

func readRules(list *yamlfile.Node, directory string) (rules []Rule) {
	first := map[string]*yamlfile.Node{}
	for _, n := range list.List("notifications", mostRules) {
		r, at := readRule(n, directory)
		if at == nil {
			continue
		}
		if before := first[r.Name]; before != nil {
			at.Fail("duplicate notification %q, first at %s", r.Name, before.Position)
		}
		first[r.Name] = at
		rules = append(rules, r)
	}
	return rules
}

// readRule returns a rule and where its name is; nil when it has none.
func readRule(n *yamlfile.Node, directory string) (r Rule, named *yamlfile.Node) {
	fields, ok := n.Fields("a notification", "name", "on", "of", "webhook", "command", "email")
	if !ok {
		return r, nil
	}
	if at := fields["name"]; at == nil {
		n.Fail("the notification has no name")
	} else if text, ok := at.Line("the name of a notification", 100); ok {
		if !validName().MatchString(text) {
			at.Fail("%q cannot be the name of a notification: letters, digits, ., _ and - are possible, with a letter or digit at both ends", text)
		}
		r.Name, named = text, at
	}
	if at := fields["on"]; at == nil {
		n.Fail("it does not say what it tells: on: [%s]", strings.Join(kinds(), ", "))
	} else {
		r.On = readKinds(at)
	}
	if at := fields["of"]; at != nil {
		for _, of := range at.List("targets", mostOf) {
			text, ok := of.Line("a target such as pipeline/gateway or environment/shop/", mostText)
			if ok {
				checkTarget(of, text)
			}
			r.Of = append(r.Of, text)
		}
	}
	receivers := 0
	for key, read := range map[string]func(*yamlfile.Node){
		"webhook": func(at *yamlfile.Node) { r.Webhook = readWebhook(at, directory) },
		"email":   func(at *yamlfile.Node) { r.Email = readEmail(at, directory) },
		"command": func(at *yamlfile.Node) { r.Command = readCommand(at) },
	} {
		if at := fields[key]; at != nil {
			receivers++
			read(at)
		}
	}
	if receivers != 1 {
		n.Fail("it needs one of webhook, email and command, and has %d", receivers)
	}
	return r, named
}

// targets are the kinds of targets of which something is told.
var targets = []string{"pipeline", "stage", "environment", "group", "host-group", "task"}

// checkTarget refuses what nothing will ever be told of.
func checkTarget(at *yamlfile.Node, text string) {
	kind, rest, typed := strings.Cut(text, "/")
	inside := strings.Contains(rest, "/")
	switch {
	case !typed || kind == "":
		at.Fail("%q is not a target, as pipeline/gateway, stage/gateway/prod and environment/shop/ are", text)
	case !slices.Contains(targets, kind):
		at.FailLike(kind, targets, "%q: there is nothing to tell of a %s, but of %s", text, kind, strings.Join(targets, ", "))
	case kind == "pipeline" && inside:
		at.Fail("%q: a pipeline has no / in its name: pipeline/%s is that with its stages", text, strings.TrimRight(rest, "/"))
	case kind == "stage" && rest != "" && !inside:
		at.Fail("%q: the stage is missing, as in stage/%s/prod; stage/%s/ is all stages of the pipeline", text, rest, rest)
	}
}

func readKinds(list *yamlfile.Node) (all []Kind) {
	for _, n := range list.List("what is told", len(kinds())) {
		text, ok := n.Line("what is told", 100)
		if !ok {
			continue
		}
		if _, known := words[Kind(text)]; !known {
			n.FailLike(text, kinds(), "%q is nothing that is told; there are %s", text, strings.Join(kinds(), ", "))
			continue
		}
		all = append(all, Kind(text))
	}
	if len(list.Members) == 0 {
		list.Fail("it tells nothing; there are %s", strings.Join(kinds(), ", "))
	}
	return all
}

func readWebhook(n *yamlfile.Node, directory string) *Webhook {
	fields, ok := n.Fields("a webhook", "url", "url_file", "key_file", "format")
	if !ok {
		return nil
	}
	w := &Webhook{URLFile: readPath(fields["url_file"], directory), KeyFile: readPath(fields["key_file"], directory)}
	if at := fields["url"]; at != nil {
		if text, ok := at.Line("a URL", mostText); ok {
			if err := checkURL(text); err != "" {
				at.Fail("%s", err)
			}
			w.URL = text
		}
	}
	if (fields["url"] == nil) == (fields["url_file"] == nil) {
		n.Fail("it needs one of url and url_file")
	}
	if at := fields["format"]; at != nil {
		switch text, _ := at.Line("a format", 100); text {
		case "json":
		case "slack":
			w.Slack = true
		default:
			at.FailLike(text, []string{"json", "slack"}, "must be json or slack, not %q", text)
		}
	}
	return w
}

// checkURL says what is wrong with a URL; "" is nothing.
func checkURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "must be a URL, as https://chat.example/hook is"
	case u.User != nil:
		return "a URL must not hold a password: put the whole URL into a file, and name that as url_file"
	}
	return ""
}

func readEmail(n *yamlfile.Node, directory string) *Email {
	fields, ok := n.Fields("an email", "server", "from", "to", "username", "password_file", "plain")
	if !ok {
		return nil
	}
	e := &Email{PasswordFile: readPath(fields["password_file"], directory)}
	for _, key := range []string{"server", "from", "to"} {
		if fields[key] == nil {
			n.Fail("it has no %s", key)
		}
	}
	if at := fields["server"]; at != nil {
		if text, ok := at.Line("HOST:PORT", mostText); ok {
			if _, _, err := split(text); err != nil {
				at.Fail("must be HOST:PORT, as mail.example:587 is")
			}
			e.Server = text
		}
	}
	address := func(at *yamlfile.Node) string {
		text, ok := at.Line("an address", mostText)
		if _, err := mail.ParseAddress(text); ok && err != nil {
			at.Fail("%q is not an address of mail", text)
		}
		return text
	}
	if at := fields["from"]; at != nil {
		e.From = address(at)
	}
	if at := fields["to"]; at != nil {
		for _, to := range at.List("addresses", mostOf) {
			e.To = append(e.To, address(to))
		}
		if len(at.Members) == 0 {
			at.Fail("there is nobody to send it to")
		}
	}
	if at := fields["username"]; at != nil {
		e.Username, _ = at.Line("a user", mostText)
	}
	if (e.Username == "") != (e.PasswordFile == "") {
		n.Fail("username and password_file go together")
	}
	if at := fields["plain"]; at != nil {
		e.Plain = at.Value == "true"
		if at.Kind != yamlfile.Boolean {
			at.Fail("must be true or false")
		}
	}
	if e.Plain && e.Username != "" {
		n.Fail("a password is not sent without TLS: leave plain or username out")
	}
	return e
}

func readCommand(n *yamlfile.Node) (words []string) {
	for _, at := range n.List("words, of which the first is a program", mostOf) {
		text, _ := at.Text("a word", mostText)
		words = append(words, text)
	}
	if len(n.Members) == 0 {
		n.Fail("there is no program")
	}
	return words
}

func readPath(n *yamlfile.Node, directory string) string {
	if n == nil {
		return ""
	}
	text, ok := n.Line("the path of a file", mostText)
	if !ok || filepath.IsAbs(text) {
		return text
	}
	return filepath.Join(directory, text)
}
