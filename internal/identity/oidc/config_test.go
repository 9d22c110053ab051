package oidc_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/identity/oidc"
)

func TestIssuersThatCannotBeMeantAreRefused(t *testing.T) {
	const grants = "grants: [{claims: {sub: a}, role: viewer}]"
	for text, want := range map[string]string{
		"":             "the file is empty; it must say whose tokens are accepted",
		"issuers: []":  "there are no issuers",
		"issuer: [{}]": `unknown key "issuer"`,
		"issuers: [{name: a, issuer: 'http://a.example', audience: b, " + grants + "}]":                                                                       "must begin with https://",
		"issuers: [{name: a, issuer: 'https://a.example?x=y', audience: b, " + grants + "}]":                                                                  "must be the URL of an issuer",
		"issuers: [{name: token, issuer: 'https://a.example', audience: b, " + grants + "}]":                                                                  `"token" cannot be the name`,
		"issuers: [{name: 'ada@vm', issuer: 'https://a.example', audience: b, " + grants + "}]":                                                               `"ada@vm" cannot be the name`,
		"issuers: [{name: a, issuer: 'https://a.example', " + grants + "}]":                                                                                   "has no audience",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b}]":                                                                                      "has no grants",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: []}]":                                                                          "nobody could do anything",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{role: viewer}]}]":                                                            "everybody whom the issuer knows",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {}, role: viewer}]}]":                                                "everybody whom the issuer knows",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: []}, role: viewer}]}]":                                         "no value that the claim could have",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: root}]}]":                                            `"root" is no role`,
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}}]}]":                                                        "has no role",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, algorithms: [HS256], " + grants + "}]":                                                 `"HS256" is not an algorithm`,
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, algorithms: [none], " + grants + "}]":                                                  `"none" is not an algorithm`,
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, algorithms: [], " + grants + "}]":                                                      "must not be empty",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, " + grants + "}, {name: a, issuer: 'https://b.example', audience: b, " + grants + "}]": "duplicate name",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, " + grants + "}, {name: b, issuer: 'https://a.example', audience: c, " + grants + "}]": "duplicate issuer",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: operator, pipelines: []}]}]":                         "leave it out where the role is for everything",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: operator, pipelines: [' ']}]}]":                      "must be a name, not blank",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: 7}, role: operator}]}]":                                        "must be the value of a claim, as text",
		"issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: operator, environments: prod}]}]":                    "must be a list of environments",
	} {
		all, err := oidc.Parse("oidc.yaml", "/", []byte(text))
		assert.ErrorContains(t, err, want, text)
		assert.Nil(t, all, text)
	}
}

// FuzzParse reads anything as a file of issuers.
func FuzzParse(f *testing.F) {
	f.Add("issuers: [{name: a, issuer: 'https://a.example', audience: b, grants: [{claims: {sub: a}, role: viewer}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := oidc.Parse("oidc.yaml", "/", []byte(text))
		for _, of := range all {
			if err != nil || of.Name == "" || of.URL == "" || of.Audience == "" || of.Identity == "" || len(of.Algorithms) == 0 || len(of.Grants) == 0 {
				t.Errorf("%+v, %v", of, err)
			}
			for _, g := range of.Grants {
				if len(g.Claims) == 0 || g.Role == "" {
					t.Errorf("a grant for everybody: %+v", g)
				}
			}
		}
	})
}
