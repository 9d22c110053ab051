package recipe_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/must"
)

func whole() recipe.Recipe {
	return recipe.Recipe{
		Image: recipe.Image{Image: "build:1", ID: "sha256:aa", Digest: "sha256:bb"}, Entrypoint: "sh", Args: []string{"-c", "make > <&>"},
		Env: map[string]string{"A": "", "B": "1"}, Secrets: map[string]recipe.Secret{"TOKEN": {Value: "{{ token }}"}},
		Sources: []recipe.Source{{Path: "src/gcc"}}, Artifact: "sha256:cc",
		Plugs:  []recipe.Plug{{Path: "/var/cache", ContainerPath: "/cache", ReadOnly: true, Content: "sha256:ab"}},
		Memory: 1 << 30, Pids: 100, Network: "none", Timeout: time.Hour,
	}
}

func TestEveryRecipeIsFoundByItsIndex(t *testing.T) {
	for _, count := range []int{0, 1, recipe.PerDocument, recipe.PerDocument + 1, 3*recipe.PerDocument - 1} {
		all := make([]recipe.Recipe, count)
		for i := range all {
			all[i] = whole()
			all[i].Args = []string{fmt.Sprint(i)}
		}
		documents := must.Get(recipe.Encode(all))(t)
		assert.Len(t, documents, (count+recipe.PerDocument-1)/recipe.PerDocument, "%d recipes", count)
		for i := range all {
			if at := i % recipe.PerDocument; at > 0 && at < recipe.PerDocument-1 && i < count-1 {
				continue // each document is read as a whole
			}
			got, err := recipe.At(documents[recipe.Name(i)], i)
			require.NoError(t, err, "recipe %d of %d is %+v, %v", i, count, got, err)
			require.Equal(t, all[i], got, "recipe %d of %d is %+v, %v", i, count, got, err)
		}
		if count > 0 {
			_, err := recipe.At(documents[recipe.Name(0)], 3*recipe.PerDocument)
			assert.Error(t, err, "a recipe was found in a document that does not hold it")
		}
	}
}

func TestDocumentsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "unexpected end",
		"[]":                          "cannot unmarshal",
		"{}":                          "this is no document of them",
		`{"version":2}`:               "use a newer one",
		`{"version":1,"from":-1}`:     "this is no document of them",
		`{"version":1,"recipes":[{}]`: "unexpected end",
		`{"version":1,"recipes":[` + strings.Repeat("{},", recipe.PerDocument) + `{}]}`: "this is no document of them",
	} {
		_, _, err := recipe.Decode([]byte(text))
		assert.ErrorContains(t, err, want, "%.40s: the error", text)
	}
}

// What a newer version adds is left out, and is no reason to refuse the rest.
func TestAFieldThatIsNotKnownIsNoProblem(t *testing.T) {
	_, all, err := recipe.Decode([]byte(`{"version":1,"new":1,"recipes":[{"image":{"image":"a","new":{}},"new":[]}]}`))
	assert.True(t, err == nil && len(all) == 1 && all[0].Image.Image == "a", "it is %+v, %v", all, err)
}

func TestInputsTellWhatDoesTheSame(t *testing.T) {
	job := record.JobSpec{Package: "gcc", Version: "9", Pass: 1, Of: 2, Uses: []record.Use{{Package: "make", Job: 3, Run: true}, {Package: "libc", Artifact: "sha256:dd"}}}
	base := whole().Inputs(job, "linux/amd64", "group 1")
	for name, change := range map[string]func(*recipe.Recipe, *record.JobSpec) (platform, own string){
		"the content of the image": func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Image.ID = "sha256:ab"; return },
		"the entrypoint":           func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Entrypoint = "bash"; return },
		"an argument":              func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Args = []string{"-c make > <&>"}; return },
		"arguments":                func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Args = nil; return },
		"no arguments":             func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Args = []string{}; return },
		"a variable": func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) {
			r.Env = map[string]string{"A": "1", "B": ""}
			return
		},
		"what is a secret":  func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Secrets = nil; return },
		"the sources":       func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Artifact = "sha256:ce"; return },
		"a plug":            func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Plugs[0].ReadOnly = false; return },
		"what a plug holds": func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Plugs[0].Content = "sha256:ac"; return },
		"a plug that may hold anything": func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) {
			r.Plugs[0].Content = ""
			return "", "group 2"
		},
		"what is never used again": func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) {
			r.Reuse = recipe.ReuseNever
			return "", "group 2"
		},
		"the network":            func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) { r.Network = ""; return },
		"the package":            func(_ *recipe.Recipe, j *record.JobSpec) (_, _ string) { j.Package = "gcc2"; return },
		"the version":            func(_ *recipe.Recipe, j *record.JobSpec) (_, _ string) { j.Version = "10"; return },
		"what was released":      func(_ *recipe.Recipe, j *record.JobSpec) (_, _ string) { j.Uses[1].Artifact = "sha256:de"; return },
		"what is brought along":  func(_ *recipe.Recipe, j *record.JobSpec) (_, _ string) { j.Uses[0].Run = false; return },
		"what it needs":          func(_ *recipe.Recipe, j *record.JobSpec) (_, _ string) { j.Uses = j.Uses[:1]; return },
		"whether a job makes it": func(_ *recipe.Recipe, j *record.JobSpec) (_, _ string) { j.Uses[0].Job = 0; return },
		"the platform":           func(*recipe.Recipe, *record.JobSpec) (_, _ string) { return "linux/arm64", "" },
		"an image that is not pinned": func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) {
			r.Image = recipe.Image{Image: "build:1", Unpinned: "gone"}
			return
		},
		"the name alone of that image": func(r *recipe.Recipe, _ *record.JobSpec) (_, _ string) {
			r.Image = recipe.Image{Image: "build:1"}
			return "", "group 2"
		},
	} {
		r, j := whole(), job
		j.Uses = append([]record.Use{}, job.Uses...)
		platform, own := change(&r, &j)
		if platform == "" {
			platform = "linux/amd64"
		}
		assert.NotEqual(t, base, r.Inputs(j, platform, own), "the hash does not tell %s", name)
	}
	for name, change := range map[string]func(*recipe.Recipe, *record.JobSpec){
		"the name of the image":     func(r *recipe.Recipe, _ *record.JobSpec) { r.Image.Image = "build:2" },
		"its digest in a registry":  func(r *recipe.Recipe, _ *record.JobSpec) { r.Image.Digest = "" },
		"bounds":                    func(r *recipe.Recipe, _ *record.JobSpec) { r.Memory, r.Pids, r.Timeout = 1, 1, 1 },
		"the paths of sources":      func(r *recipe.Recipe, _ *record.JobSpec) { r.Sources = nil },
		"what is used again anyway": func(r *recipe.Recipe, _ *record.JobSpec) { r.Reuse = recipe.ReuseAlways },
		"the pass":                  func(_ *recipe.Recipe, j *record.JobSpec) { j.Pass = 2 },
		"which job makes it":        func(_ *recipe.Recipe, j *record.JobSpec) { j.Uses[0].Job = 7 },
		"where it is recorded":      func(_ *recipe.Recipe, j *record.JobSpec) { j.Recipe, j.Place, j.Waits = 5, 1, record.Numbers{1} },
	} {
		r, j := whole(), job
		j.Uses = append([]record.Use{}, job.Uses...)
		change(&r, &j)
		assert.Equal(t, base, r.Inputs(j, "linux/amd64", "group 2"), "the hash tells %s", name)
	}
}

// Whatever a document holds, Decode answers with recipes that are written as they were read.
func FuzzDecode(f *testing.F) {
	documents := must.Get(recipe.Encode([]recipe.Recipe{whole(), {}}))(f)
	f.Add(string(documents[recipe.Name(0)]))
	f.Add(`{"version":1,"from":2000,"recipes":[{"args":[]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		from, all, err := recipe.Decode([]byte(text))
		if err != nil {
			return
		}
		got, err := recipe.At([]byte(text), from)
		require.False(t, len(all) > 0 && (err != nil || !reflect.DeepEqual(got, all[0])), "the first is %+v, %v", got, err)
		written := must.Get(recipe.Encode(all))(t)
		for i := range all {
			got, err := recipe.At(written[recipe.Name(i)], i)
			require.True(t, err == nil && reflect.DeepEqual(got.Args, all[i].Args) &&
				same(got, all[i]), "recipe %d is %+v, %v, and was %+v", i, got, err, all[i])
		}
	})
}

// same compares what is written: a mapping without members is none there.
func same(a, b recipe.Recipe) bool {
	one, err := json.Marshal(a)
	other, failed := json.Marshal(b)
	return err == nil && failed == nil && string(one) == string(other)
}
