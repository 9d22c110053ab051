package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// kind is a kind of things in a real world that two manifests manage.
type kind struct {
	plug   string                                     // what its type needs, as in a manifest
	config string                                     // of a resource; NAME is that of its thing
	there  func(t require.TestingT) map[string]string // by name, what tells each from one that was made anew
}

// dockerKinds are the kinds of an engine, and files.
func dockerKinds(t *testing.T, dir string) map[string]kind {
	e := dockerEngines(t, 1)[0]
	loadProbe(t, e.Address())
	api := must.Get(client.New(client.WithHost(e.Address())))(t)
	t.Cleanup(func() { _ = api.Close() })
	plug := "docker: {path: " + strings.TrimPrefix(e.Address(), "unix://") + "}"
	return map[string]kind{
		"file": {"root: {path: root}", "{path: NAME, content: x}", func(t require.TestingT) map[string]string {
			there := map[string]string{}
			entries, err := os.ReadDir(filepath.Join(dir, "root"))
			require.NoError(t, err)
			for _, e := range entries {
				info, err := e.Info()
				require.NoError(t, err)
				there[e.Name()] = fmt.Sprint(info.ModTime())
			}
			return there
		}},
		"container": {plug, "{name: NAME, image: \"" + probe + "\", command: [hang], networks: [none], restart: \"no\"}", func(t require.TestingT) map[string]string {
			there := map[string]string{}
			list, err := api.ContainerList(context.Background(), client.ContainerListOptions{All: true})
			require.NoError(t, err)
			for _, c := range list.Items {
				there[strings.TrimPrefix(c.Names[0], "/")] = c.ID
			}
			return there
		}},
		"network": {plug, "{name: NAME}", func(t require.TestingT) map[string]string {
			there := map[string]string{}
			list, err := api.NetworkList(context.Background(), client.NetworkListOptions{})
			require.NoError(t, err)
			for _, n := range list.Items {
				there[n.Name] = n.ID
			}
			return there
		}},
		"volume": {plug, "{name: NAME}", func(t require.TestingT) map[string]string {
			there := map[string]string{}
			list, err := api.VolumeList(context.Background(), client.VolumeListOptions{})
			require.NoError(t, err)
			for _, v := range list.Items {
				there[v.Name] = v.CreatedAt
			}
			return there
		}},
	}
}

// Whatever two manifests declare of one real world, and whatever is moved between them, applied, pruned and destroyed:
// it holds what is declared and what is listed, and a run of one manifest touches nothing that the other declares.
func TestARealWorldHoldsWhatIsDeclaredAndListed(t *testing.T) {
	s := newSite(t, " {}")
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "root"), 0o700))
	holdsWhatIsDeclared(s, dockerKinds(t, s.dir))
}

// mark is how the names of the things of the test begin.
const mark = "held-"

// holdsWhatIsDeclared checks that of things of some kinds, by type.
func holdsWhatIsDeclared(s *site, kinds map[string]kind, flags ...string) { //nolint:gocyclo // the steps of a story, each beside what must hold
	var things []string
	plugs := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		plugs[kinds[name].plug] = true
		things = append(things, name+" "+mark+"p", name+" "+mark+"q", name+" "+mark+"r")
	}
	there := func(t require.TestingT) map[string]string {
		all := map[string]string{}
		for name, k := range kinds {
			for thing, id := range k.there(t) {
				if strings.HasPrefix(thing, mark) {
					all[name+" "+thing] = id
				}
			}
		}
		return all
	}
	files := []string{"a.yaml", "b.yaml"}
	declared := []map[string]string{{}, {}} // by resource
	applied := []bool{false, false}
	write := func(i int, moved string) {
		var b strings.Builder
		fmt.Fprintf(&b, "name: of-%d\nplugs: {%s}\nresources:\n  {", i, strings.Join(slices.Sorted(maps.Keys(plugs)), ", "))
		for _, name := range slices.Sorted(maps.Keys(declared[i])) {
			typ, thing, _ := strings.Cut(declared[i][name], " ")
			fmt.Fprintf(&b, "%s: {type: deployster/%s, config: %s}, ", name, typ, strings.ReplaceAll(kinds[typ].config, "NAME", thing))
		}
		b.WriteString("}\n" + moved)
		s.write(files[i], b.String())
		applied[i] = false
	}
	run := func(t require.TestingT, i int, args ...string) (string, bool) {
		text, err := s.command(append(append(args, files[i], "--yes"), flags...)...).CombinedOutput()
		return string(text), err == nil
	}
	for seed := range ringtest.Cases(1, 10) {
		t, draw := s.T, rand.New(rand.NewPCG(uint64(seed), 1))
		declared = []map[string]string{{}, {}}
		write(0, "")
		write(1, "")
		for range 10 {
			i := draw.IntN(2)
			before, said, removing, done := there(t), "", false, false
			switch []string{"edit", "edit", "rename", "move", "apply", "apply", "destroy"}[draw.IntN(7)] {
			case "edit":
				declared[i] = map[string]string{}
				for _, n := range draw.Perm(len(things))[:draw.IntN(4)] {
					declared[i][string(rune('x'+draw.IntN(3)))] = things[n]
				}
				write(i, "")
			case "rename":
				require.NoError(t, os.Remove(filepath.Join(s.dir, files[i])))
				files[i] = fmt.Sprintf("%s-%d.yaml", strings.Split(strings.TrimSuffix(files[i], ".yaml"), "-")[0], draw.IntN(10))
				write(i, "")
			case "move":
				names := slices.Sorted(maps.Keys(declared[1-i]))
				if len(names) == 0 {
					continue
				}
				declared[i] = map[string]string{"moved": declared[1-i][names[0]]}
				delete(declared[1-i], names[0])
				write(1-i, "")
				write(i, fmt.Sprintf("moved: [{from: \"of-%d#%s\", to: moved}]\n", 1-i, names[0]))
			case "destroy":
				removing = true
				said, done = run(t, i, "destroy")
			}
			if !removing {
				said, done = run(t, i, "apply", "--prune")
				applied[i] = done
			}
			now := there(t)
			for _, theirs := range declared[1-i] {
				if id, was := before[theirs]; was && applied[1-i] {
					require.Equal(t, id, now[theirs], "%s is touched, which the other manifest declares:\n%s", theirs, said)
				}
			}
			if done && !removing {
				for _, mine := range declared[i] {
					require.Contains(t, now, mine, said)
				}
			}
			applied[i] = applied[i] && !removing
			require.Len(t, listed(t, s), len(now), "of %v:\n%s", now, said)
		}
		for i := range files { // for the next world
			declared[i] = map[string]string{}
			write(i, "")
			said, done := run(t, i, "apply", "--prune")
			require.True(t, done, said)
		}
		require.Empty(t, there(t))
	}
}

// listed are the names of what runs made and is there.
func listed(t require.TestingT, s *site) (all []string) {
	text, err := s.command("list", "--output", "json").Output()
	require.NoError(t, err, "%s", text)
	var answer struct {
		Things []struct{ Manifest, Resource string }
	}
	require.NoError(t, json.Unmarshal(text, &answer), "%s", text)
	for _, row := range answer.Things {
		all = append(all, row.Manifest+"#"+row.Resource)
	}
	return all
}
