package submitted_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/control/submitted"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
)

func digest(of string) string { return "sha256:" + strings.Repeat(of, 64) }

type sent struct {
	build.Submit
	recipes []recipe.Recipe
	kept    map[string]string
	here    map[string]bool // artifacts
}

// group is one that may be submitted: two jobs, of which one uses the other, and what was released.
func group() *sent {
	run := recipe.Recipe{
		Image: recipe.Image{Image: "build:1", ID: digest("a")}, Args: []string{"make"}, Env: map[string]string{"A": "1"},
		Secrets: map[string]recipe.Secret{"TOKEN": {Value: "{{ token }}"}}, Sources: []recipe.Source{{Path: "src"}}, Artifact: digest("b"),
		Plugs: []recipe.Plug{{Path: "/var/cache", ContainerPath: "/cache"}}, Memory: 1 << 30, Pids: 100, Network: "none", Timeout: time.Hour,
	}
	return &sent{
		Submit: build.Submit{
			Triggered: record.Triggered{Name: "base", File: "packages.yaml", Touched: []string{"libc"}, Converge: 2, By: "token ci", MaxLost: 3, Source: &record.Source{Commit: "c0ffee"}, Artifacts: "registry.example/base"},
			Places:    []record.Place{{Platform: "linux/amd64", Workers: "attribute:role == builder", Inventory: "theirs"}},
			Jobs: []record.JobSpec{
				{Package: "libc", Version: "1", Recipe: 0, Inputs: "forged", Uses: []record.Use{{Package: "gcc", Artifact: digest("c")}}},
				{Package: "curl", Recipe: 1, Inputs: "forged", Uses: []record.Use{{Package: "libc", Job: 1, Run: true}}, Waits: record.Numbers{1}},
			},
			Cycles: [][]string{{"gcc", "libc"}}, Unbuildable: []record.Unbuildable{{Package: "git", Cause: "gone", Needs: "zlib"}},
		},
		recipes: []recipe.Recipe{run, {Image: recipe.Image{Image: "build:2", Unpinned: "no worker answers"}}},
		kept:    map[string]string{"the definition": "group: base", "the variables": `{"version": 1}`},
		here:    map[string]bool{digest("b"): true, digest("c"): true},
	}
}

// complete has a group checked, of which the recipes are kept before.
func (s *sent) complete(t *testing.T) error {
	t.Helper()
	if s.Carries == nil {
		s.Carries = record.Carries{"packages.yaml": "the definition", revision.VariablesName: "the variables"}
		for name, text := range must.Get(recipe.Encode(s.recipes))(t) {
			s.Carries[name], s.kept[name] = name, string(text)
		}
	}
	return s.checker().Complete(t.Context(), &s.Submit)
}

// checker checks a group, of which the files are known by hashes of their keys in kept.
func (s *sent) checker() submitted.Checker {
	byHash := map[string]string{}
	for key, text := range s.kept {
		byHash[objects.Hash([]byte(key))] = text
	}
	for name, key := range s.Carries {
		if !objects.IsHash(key) && key != "" && key != "no hash" {
			s.Carries[name] = objects.Hash([]byte(key))
		}
	}
	c := submitted.Checker{
		Load: func(hash string) ([]byte, error) {
			if _, is := byHash[hash]; !is {
				return nil, fmt.Errorf("object %s %w", hash, objects.ErrMissing)
			}
			return []byte(byHash[hash]), nil
		},
		Artifact:  func(_ context.Context, digest string) (bool, error) { return s.here[digest], nil },
		Inventory: "ours", Own: "this group",
	}
	c.Check = func(hash string) error { _, err := c.Load(hash); return err }
	return c
}

func TestTheServerSaysWhatItKnows(t *testing.T) {
	s := group()
	require.NoError(t, s.complete(t))
	assert.Equal(t, "ours", s.Places[0].Inventory, "the place is of")
	for i, j := range s.Jobs {
		assert.Equal(t, s.recipes[i].Inputs(j, "linux/amd64", "this group"), j.Inputs, "what goes into job %d is %q, want", i+1, j.Inputs)
	}
	again := group()
	require.NoError(t, again.complete(t))
	assert.Equal(t, s.Submit, again.Submit, "the same comes to something else")
	_, err := build.New("builds").Propose(s.Submit, time.Time{})
	assert.NoError(t, err)
}

func TestHostileGroupsAreRefused(t *testing.T) {
	long := strings.Repeat("a", 10_000)
	for want, change := range map[string]func(*sent){
		"cannot be its name":                         func(s *sent) { s.Name = "../base" },
		`"\x1b[31m" cannot be its name`:              func(s *sent) { s.Name = "\x1b[31m" },
		"is no repository":                           func(s *sent) { s.Artifacts = "https://evil" },
		"converge is 1000000":                        func(s *sent) { s.Converge = 1_000_000 },
		"converge is -1":                             func(s *sent) { s.Converge = -1 },
		"what its sources are of":                    func(s *sent) { s.Source.Repository = "a\nb" },
		"cannot be the name of a package":            func(s *sent) { s.Touched = []string{""} },
		`"b c" cannot be the name of a package`:      func(s *sent) { s.Cycles = [][]string{{"b c"}} },
		`"u v" or "" cannot be`:                      func(s *sent) { s.Unbuildable[0] = record.Unbuildable{Package: "u v"} },
		`"git" or "u v" cannot be`:                   func(s *sent) { s.Unbuildable[0].Needs = "u v" },
		"why git cannot be built":                    func(s *sent) { s.Unbuildable[0].Cause = long },
		"why git cannot be built must be":            func(s *sent) { s.Unbuildable[0].Cause = "\x1b[2J" },
		"for 2000 places":                            func(s *sent) { s.Places = make([]record.Place, 2000) },
		"is not a platform":                          func(s *sent) { s.Places[0].Platform = "windows" },
		"does not select workers":                    func(s *sent) { s.Places[0].Workers = "==" },
		"cannot be the name of job 1":                func(s *sent) { s.Jobs[0].Package = "a/../b" },
		"the version of job 2":                       func(s *sent) { s.Jobs[1].Version = long },
		"pass 3 of 2":                                func(s *sent) { s.Jobs[0].Pass, s.Jobs[0].Of = 3, 2 },
		"pass 0 of -1":                               func(s *sent) { s.Jobs[0].Of = -1 },
		"place -1 of 1":                              func(s *sent) { s.Jobs[0].Place = -1 },
		"place 1 of 1":                               func(s *sent) { s.Jobs[0].Place = 1 },
		"recipe -1":                                  func(s *sent) { s.Jobs[0].Recipe = -1 },
		"recipe 2, and":                              func(s *sent) { s.Jobs[0].Recipe = 2 },
		"which job 1 uses, cannot be":                func(s *sent) { s.Jobs[0].Uses[0].Package = "" },
		"job 1 uses job 1":                           func(s *sent) { s.Jobs[0].Uses[0].Job = 1 },
		"job 2 uses job -1":                          func(s *sent) { s.Jobs[1].Uses[0].Job = -1 },
		"job 2 uses gcc of job 1":                    func(s *sent) { s.Jobs[1].Uses[0].Package = "gcc" },
		"job 2 uses libc of job 1":                   func(s *sent) { s.Jobs[1].Uses[0].Artifact = digest("c") },
		"which job 1 uses, is not the digest":        func(s *sent) { s.Jobs[0].Uses[0].Artifact = "../../x" },
		"does not carry its definition":              func(s *sent) { s.File = "other.yaml" },
		"of \"other.yaml\" is not here":              func(s *sent) { s.carry("other.yaml", "gone") },
		"object no hash of \"other.yaml\"":           func(s *sent) { s.carry("other.yaml", "no hash") },
		"cannot be the name of a file":               func(s *sent) { s.carry("a\nb", "the definition") },
		"carries 10001 files":                        func(s *sent) { s.carryMany(10_001) },
		"its variables: ":                            func(s *sent) { s.kept["the variables"] = "[]" },
		"does not carry /recipes/0":                  func(s *sent) { s.carry("", ""); delete(s.Carries, "/recipes/0") },
		"this is no document":                        func(s *sent) { s.carry("", ""); s.kept["/recipes/0"] = "{}" },
		"does not hold the recipes":                  func(s *sent) { s.carry("", ""); s.kept["/recipes/0"] = `{"version":1,"from":999,"recipes":[{},{}]}` },
		"there is no recipe 1":                       func(s *sent) { s.recipes = s.recipes[:1] },
		"job 1 (libc) runs: \"\" is no image":        func(s *sent) { s.recipes[0].Image.Image = "" },
		`"a b" is not an image`:                      func(s *sent) { s.recipes[0].Image.Image = "a b" },
		"a resource type that ships":                 func(s *sent) { s.recipes[0].Image.Image = "deployster/file:1" },
		"which content image build:1 has is not":     func(s *sent) { s.recipes[0].Image.ID = "" },
		"are no short texts":                         func(s *sent) { s.recipes[0].Image.Digest = long },
		"2000 arguments":                             func(s *sent) { s.recipes[0].Args = make([]string, 2000) },
		`"a\x00" cannot be an argument`:              func(s *sent) { s.recipes[0].Args = []string{"a\x00"} },
		`"b\x00" cannot be an argument`:              func(s *sent) { s.recipes[0].Entrypoint = "b\x00" },
		`"A=B" cannot be the name of a variable`:     func(s *sent) { s.recipes[0].Env["A=B"] = "" },
		`"DEPLOYSTER_OUTPUT" cannot be set`:          func(s *sent) { s.recipes[0].Secrets["DEPLOYSTER_OUTPUT"] = recipe.Secret{} },
		"TOKEN is a secret, and none":                func(s *sent) { s.recipes[0].Env["TOKEN"] = "" },
		"variable A cannot have its value":           func(s *sent) { s.recipes[0].Env["A"] = "\x00" },
		"variable TOKEN cannot have its value":       func(s *sent) { s.recipes[0].Secrets["TOKEN"] = recipe.Secret{Package: "a\nb"} },
		"it has 300 variables":                       func(s *sent) { s.recipes[0].Env = variables(300) },
		"it has 0 sources":                           func(s *sent) { s.recipes[0].Sources = nil },
		"it has 1 sources":                           func(s *sent) { s.recipes[0].Artifact = "" },
		"it has 101 sources":                         func(s *sent) { s.recipes[0].Sources = make([]recipe.Source, 101) },
		"\"x\" is not the digest of an artifact":     func(s *sent) { s.recipes[0].Artifact = "x" },
		"leaves the workspace":                       func(s *sent) { s.recipes[0].Sources[0].Path = "../x" },
		"\"etc\" cannot be the path of a plug":       func(s *sent) { s.recipes[0].Plugs[0].Path = "etc" },
		"\"/cache/..\" cannot be the path of a plug": func(s *sent) { s.recipes[0].Plugs[0].ContainerPath = "/cache/.." },
		"cannot be the place of a plug":              func(s *sent) { s.recipes[0].Plugs[0].ContainerPath = "/var/lib/deployster/x" },
		"another plug at /cache":                     func(s *sent) { s.recipes[0].Plugs = append(s.recipes[0].Plugs, s.recipes[0].Plugs[0]) },
		"cannot be the content of plug /var/cache":   func(s *sent) { s.recipes[0].Plugs[0].Content = "sha256:" + strings.Repeat("ab", 32) }, // it is writable
		"whether what it builds is used again":       func(s *sent) { s.recipes[0].Reuse = "sometimes" },
		"51 plugs":                                   func(s *sent) { s.recipes[0].Plugs = make([]recipe.Plug, 51) },
		"-1 bytes of memory":                         func(s *sent) { s.recipes[0].Memory = -1 },
		"-1 processes":                               func(s *sent) { s.recipes[0].Pids = -1 },
		"to end within -1ns":                         func(s *sent) { s.recipes[0].Timeout = -1 },
		"is no network":                              func(s *sent) { s.recipes[0].Network = "a\nb" },
		"of the sources of libc is not here":         func(s *sent) { s.here[digest("b")] = false },
		"of what was released of gcc is not here":    func(s *sent) { s.here[digest("c")] = false },
	} {
		t.Run(want, func(t *testing.T) {
			s := group()
			change(s)
			err := s.complete(t)
			var invalid *submitted.InvalidError
			require.ErrorAs(t, err, &invalid)
			assert.ErrorContains(t, err, want)
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// carry adds a file to what the group carries, beside the rest.
func (s *sent) carry(name, hash string) {
	documents, err := recipe.Encode(s.recipes)
	if err != nil {
		panic(err)
	}
	s.Carries = record.Carries{"packages.yaml": "the definition", "/recipes/0": "/recipes/0"}
	s.kept["/recipes/0"] = string(documents["/recipes/0"])
	if name != "" {
		s.Carries[name] = hash
	}
}

func (s *sent) carryMany(n int) {
	s.Carries = record.Carries{}
	for i := range n {
		s.Carries[fmt.Sprint(i)] = "the definition"
	}
}

func variables(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("V%d", i)] = ""
	}
	return all
}

// What cannot be found out now may be found out later: who sends the group cannot mend it.
func TestAStoreThatFailsRefusesNoGroup(t *testing.T) {
	failed := errors.New("the disk is gone")
	for what, fails := range map[string]func(*submitted.Checker){
		"artifacts": func(c *submitted.Checker) {
			c.Artifact = func(context.Context, string) (bool, error) { return false, failed }
		},
		"objects": func(c *submitted.Checker) { c.Check = func(string) error { return failed } },
	} {
		s := group()
		require.NoError(t, s.complete(t))
		c := s.checker()
		fails(&c)
		var invalid *submitted.InvalidError
		err := c.Complete(t.Context(), &s.Submit)
		assert.True(t, errors.Is(err, failed) && !errors.As(err, &invalid), "%s: the error is %v", what, err)
	}
}

// A group that takes too long to check is given up amid its files, its jobs and its artifacts, each of which may take long.
func TestACheckEndsWithItsTime(t *testing.T) {
	for what, after := range map[string]func(*submitted.Checker, func()){
		"its files": func(c *submitted.Checker, end func()) {
			check := c.Check
			c.Check = func(hash string) error { end(); return check(hash) }
		},
		"its jobs": func(c *submitted.Checker, end func()) {
			load, n := c.Load, 0
			c.Load = func(hash string) ([]byte, error) {
				if n++; n == 2 { // after the variables: what its jobs run
					end()
				}
				return load(hash)
			}
			check := c.Check
			c.Check = func(hash string) error { n = 0; return check(hash) }
		},
		"its artifacts": func(c *submitted.Checker, end func()) {
			here := c.Artifact
			c.Artifact = func(ctx context.Context, digest string) (bool, error) { end(); return here(ctx, digest) }
		},
	} {
		s := group()
		require.NoError(t, s.complete(t))
		ctx, end := context.WithCancel(t.Context())
		ended, more := false, 0
		c := s.checker()
		check, artifact := c.Check, c.Artifact
		c.Check = func(hash string) error {
			if ended {
				more++
			}
			return check(hash)
		}
		c.Artifact = func(ctx context.Context, digest string) (bool, error) {
			if ended {
				more++
			}
			return artifact(ctx, digest)
		}
		after(&c, func() { end(); ended = true })
		assert.ErrorIs(t, c.Complete(ctx, &s.Submit), context.Canceled, "amid %s the error", what)
		if more > 1 { // what was begun
			t.Errorf("after its time, amid %s, %d more are looked at", what, more-1)
		}
		end()
	}
}

// A few bytes are not to take up the memory.
func TestBodiesThatComeToTooMuchAreRefused(t *testing.T) {
	waits := `{"waits":"1-1000000"},`
	for name, test := range map[string]struct {
		body string
		want bool
	}{
		"a group":                 {`{"name":"base","jobs":[{"package":"a","uses":[{"package":"b"}],"waits":"1-3,5"}],"cycles":[["a"]]}`, false},
		"nothing":                 {``, false},
		"what is no group":        {`[1]`, false},
		"jobs that are none":      {`{"jobs":7,"jobs":null,"jobs":[7]}`, false},
		"half a group":            {`{"jobs":[{"waits":"1-`, false},
		"many jobs":               {`{"jobs":[` + strings.Repeat("{},", 400_000) + `{}]}`, true},
		"many jobs in two halves": {`{"jobs":[` + strings.Repeat("{},", 200_000) + `{}],"JOBS":[` + strings.Repeat("{},", 200_000) + `{}]}`, true},
		"many that are used":      {`{"jobs":[{"uses":[` + strings.Repeat("{},", 2_000_000) + `{}]}]}`, true},
		"many numbers":            {`{"jobs":[` + strings.Repeat(waits, 4) + `{"waits":"1-10"}]}`, true},
		"many numbers in one job": {`{"jobs":[{"waits":"1-1000000","waits":"1-1000000","waits":"1-1000000","Waits":"1-1000000","waits":"1"}]}`, true},
		"a huge number":           {`{"jobs":[{"waits":"1-9223372036854775807,1-9223372036854775807"}]}`, true},
	} {
		assert.Equal(t, test.want, submitted.Bound([]byte(test.body)) != nil, "%s: the error", name)
	}
}
