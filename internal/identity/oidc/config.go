// Package oidc authenticates by tokens that others have issued: an identity provider to its
// people, a CI system to its jobs, a cloud to its workloads.
//
// A file says whose tokens are accepted, for which audience, and what those may do whose
// claims are as it says. Everything else is refused: what a token says is believed only when
// a key of its issuer has signed it, for this server, and now.
//
// A token is a secret while it lasts. Nothing of one gets into an error or a log.
package oidc

import (
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Issuer is one whose tokens are accepted.
type Issuer struct {
	Name       string   // what those are called by whom it knows
	URL        string   // as its tokens name it
	Audience   string   // this server, as its tokens name it
	Identity   string   // the claim that says who it is
	Algorithms []string // with which its tokens may be signed
	CA         string   // file with the authorities of its certificate, in PEM; "" are those of the system
	Grants     []Grant
}

// Grant is what those may do whose tokens have all these claims.
type Grant struct {
	Claims map[string][]string // by name, the values of which it must have one
	identity.Grant
}

// The limits of a file.
const (
	mostIssuers = 50
	mostGrants  = 1000
	mostClaims  = 50
	mostValues  = 1000
	mostText    = 1000
)

// algorithms are those with which tokens may be signed: who verifies needs no secret for any
// of them.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// reserved are the words with which others are called whom the server authenticates.
var reserved = map[string]bool{"token": true, "certificate": true, "uid": true, "server": true}

var validName = pattern.Lazy(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Parse reads a file of issuers. name is what messages call it, and paths in it are relative
// to the directory.
func Parse(name, directory string, data []byte) ([]Issuer, error) {
	var all []Issuer
	err := yamlfile.Read(name, data, "it must say whose tokens are accepted: issuers: [{name: …, issuer: …, audience: …, grants: […]}]", func(root *yamlfile.Node) {
		fields, ok := root.Fields("the file", "issuers")
		switch {
		case !ok:
		case fields["issuers"] == nil:
			root.Fail("there are no issuers")
		default:
			all = readIssuers(fields["issuers"], directory)
		}
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func readIssuers(list *yamlfile.Node, directory string) (all []Issuer) {
	names, urls := map[string]*yamlfile.Node{}, map[string]*yamlfile.Node{}
	once := func(known map[string]*yamlfile.Node, at *yamlfile.Node, text string) {
		switch before := known[text]; {
		case at == nil || text == "":
		case before != nil:
			at.Fail("duplicate %s, first at %s", at.Name, before.Position)
		default:
			known[text] = at
		}
	}
	for _, n := range list.List("issuers", mostIssuers) {
		fields, ok := n.Fields("an issuer", "name", "issuer", "audience", "identity", "algorithms", "ca", "grants")
		if !ok {
			continue
		}
		for _, key := range []string{"name", "issuer", "audience", "grants"} {
			if fields[key] == nil {
				n.Fail("the issuer has no %s", key)
			}
		}
		of := readIssuer(fields, directory)
		once(names, fields["name"], of.Name)
		once(urls, fields["issuer"], of.URL)
		all = append(all, of)
	}
	if list.Kind == yamlfile.List && len(list.Members) == 0 {
		list.Fail("there are no issuers: leave --oidc out, or name one")
	}
	return all
}

// line reads a text of one line; "" is none.
func line(n *yamlfile.Node, what string) string {
	if n == nil {
		return ""
	}
	text, _ := n.Line(what, mostText)
	return text
}

func readIssuer(fields map[string]*yamlfile.Node, directory string) Issuer {
	of := Issuer{
		Name: line(fields["name"], "the name of an issuer"), URL: line(fields["issuer"], "the URL of an issuer"),
		Audience: line(fields["audience"], "an audience"), Identity: line(fields["identity"], "the name of a claim"),
		Algorithms: []string{"RS256", "ES256", "EdDSA"}, CA: line(fields["ca"], "the path of a file"),
	}
	if of.Identity == "" {
		of.Identity = "sub"
	}
	if of.CA != "" && !filepath.IsAbs(of.CA) {
		of.CA = filepath.Join(directory, of.CA)
	}
	if of.Name != "" && (!validName().MatchString(of.Name) || reserved[of.Name]) {
		fields["name"].Fail("%q cannot be the name of an issuer: lower-case letters, digits and - are possible, at most 32 of them, and not token, certificate, uid or server", of.Name)
	}
	if wrong := checkIssuer(of.URL); of.URL != "" && wrong != "" {
		fields["issuer"].Fail("%s", wrong)
	}
	if at := fields["algorithms"]; at != nil {
		of.Algorithms = readAlgorithms(at)
	}
	if at := fields["grants"]; at != nil {
		of.Grants = readGrants(at)
	}
	return of
}

// checkIssuer says what is wrong with the URL of an issuer; "" is nothing. Its keys decide
// who is believed, so nobody between must be able to replace them.
func checkIssuer(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "must be the URL of an issuer, as https://token.actions.githubusercontent.com is"
	}
	if u.Scheme == "https" || u.Scheme == "http" && net.ParseIP(u.Hostname()).IsLoopback() {
		return ""
	}
	return "must begin with https://, for its keys decide who is believed"
}

func readAlgorithms(list *yamlfile.Node) (all []string) {
	for _, n := range list.List("algorithms", len(algorithms)) {
		text, ok := n.Line("an algorithm", mostText)
		if !ok {
			continue
		}
		known := false
		for _, a := range algorithms {
			known = known || a == text
		}
		if !known {
			n.FailLike(text, algorithms, "%q is not an algorithm with which tokens may be signed", text)
		}
		all = append(all, text)
	}
	if list.Kind == yamlfile.List && len(list.Members) == 0 {
		list.Fail("must not be empty")
	}
	return all
}

func readGrants(list *yamlfile.Node) (all []Grant) {
	for _, n := range list.List("grants", mostGrants) {
		fields, ok := n.Fields("a grant", "claims", "role", "pipelines", "environments")
		if !ok {
			continue
		}
		var g Grant
		if at := fields["role"]; at == nil {
			n.Fail("the grant has no role: it is viewer, operator, approver or admin")
		} else if text := line(at, "a role"); text != "" {
			var err error
			if g.Role, err = identity.ParseRole(text); err != nil {
				at.Fail("%s", err)
			}
		}
		if at := fields["claims"]; at == nil {
			n.Fail("the grant has no claims: it would be for everybody whom the issuer knows")
		} else {
			g.Claims = readClaims(at)
		}
		g.Pipelines, g.Environments = readNames(fields["pipelines"], "pipelines"), readNames(fields["environments"], "environments")
		all = append(all, g)
	}
	if list.Kind == yamlfile.List && len(list.Members) == 0 {
		list.Fail("there are no grants, so nobody could do anything")
	}
	return all
}

func readClaims(n *yamlfile.Node) map[string][]string {
	claims := map[string][]string{}
	if n.Kind != yamlfile.Mapping {
		n.Fail("must be a mapping from claims to values, not %s", n.Kind)
		return nil
	}
	if len(n.Members) == 0 || len(n.Members) > mostClaims {
		n.Fail("must have between 1 and %d claims: without any it would be for everybody whom the issuer knows", mostClaims)
	}
	for _, at := range n.Members {
		values := []*yamlfile.Node{at}
		if at.Kind == yamlfile.List {
			values = at.List("values", mostValues)
			if len(values) == 0 {
				at.Fail("has no value that the claim could have")
			}
		}
		for _, v := range values {
			if text, ok := v.Line("the value of a claim, as text", mostText); ok {
				claims[at.Name] = append(claims[at.Name], text)
			}
		}
	}
	return claims
}

// readNames reads what a grant is for. An empty list would be everything, which nobody means
// who writes one.
func readNames(n *yamlfile.Node, what string) (all []string) {
	if n == nil {
		return nil
	}
	for _, at := range n.List(what, mostValues) {
		text, ok := at.Line("a name", mostText)
		if text = strings.TrimSpace(text); ok && text == "" {
			at.Fail("must be a name, not blank: without any the role would be for everything")
		} else if ok {
			all = append(all, text)
		}
	}
	if n.Kind == yamlfile.List && len(n.Members) == 0 {
		n.Fail("is empty: leave it out where the role is for everything")
	}
	return all
}
