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

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// kind is a kind of things in a real world that two manifests manage.
type kind struct {
	typ    string
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
		"file": {"deployster/file", "root: {path: root}", "{path: NAME, content: x}", func(t require.TestingT) map[string]string {
			return filesIn(t, filepath.Join(dir, "root"))
		}},
		"container": {"deployster/container", plug, "{name: NAME, image: \"" + probe + "\", command: [hang], networks: [none], restart: \"no\"}", func(t require.TestingT) map[string]string {
			there := map[string]string{}
			list, err := api.ContainerList(context.Background(), client.ContainerListOptions{All: true})
			require.NoError(t, err)
			for _, c := range list.Items {
				there[strings.TrimPrefix(c.Names[0], "/")] = c.ID
			}
			return there
		}},
		"network": {"deployster/network", plug, "{name: NAME}", func(t require.TestingT) map[string]string {
			there := map[string]string{}
			list, err := api.NetworkList(context.Background(), client.NetworkListOptions{})
			require.NoError(t, err)
			for _, n := range list.Items {
				there[n.Name] = n.ID
			}
			return there
		}},
		"volume": {"deployster/volume", plug, "{name: NAME}", func(t require.TestingT) map[string]string {
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

// filesIn are the files of a directory, with when each was written.
func filesIn(t require.TestingT, dir string) map[string]string {
	there := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		there[strings.TrimSuffix(e.Name(), ".json")] = fmt.Sprint(info.ModTime())
	}
	return there
}

// ofProvider is the kind of things of the provider of Terraform for tests.
func ofProvider(s *site) kind {
	said, err := s.command("type", "terraform", filepath.Join(filepath.Dir(binary), "terraform-provider-fake"), "--plug", "world=/world").CombinedOutput()
	require.NoError(s.T, err, "%s", said)
	dir := filepath.Join(s.dir, "world")
	require.NoError(s.T, os.Mkdir(dir, 0o700))
	return kind{"terraform/fake/fake_thing", "world: {path: world}", "{name: NAME, fault: exclusive}", func(t require.TestingT) map[string]string {
		there := map[string]string{}
		for name, when := range filesIn(t, dir) {
			there[strings.TrimPrefix(name, "id-")] = when
		}
		return there
	}}
}

// Whatever two manifests declare of one real world, and whatever is moved between them, applied, pruned and destroyed:
// it holds what is declared and what is listed, and a run of one manifest touches nothing that the other declares.
func TestARealWorldHoldsWhatIsDeclaredAndListed(t *testing.T) {
	s := newSite(t, " {}")
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "root"), 0o700))
	kinds := dockerKinds(t, s.dir)
	kinds["thing"] = ofProvider(s)
	holdsWhatIsDeclared(s, kinds)
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
			fmt.Fprintf(&b, "%s: {type: %s, config: %s}, ", name, kinds[typ].typ, strings.ReplaceAll(kinds[typ].config, "NAME", thing))
		}
		b.WriteString("}\n" + moved)
		s.write(files[i], b.String())
		applied[i] = false
	}
	run := func(t require.TestingT, i int, args ...string) (string, bool) {
		text, err := s.command(append(append(args, files[i], "--yes"), flags...)...).CombinedOutput()
		return string(text), err == nil
	}
	tried, held := 0, 0
	for seed := range ringtest.Cases(1, 10) {
		t, draw := s.T, rand.New(rand.NewPCG(uint64(seed), 1))
		declared = []map[string]string{{}, {}}
		write(0, "")
		write(1, "")
		for step := range 12 {
			i, does := draw.IntN(2), []string{"edit", "edit", "rename", "move", "apply", "destroy", "crash", "crash"}[draw.IntN(8)]
			if step < 2 {
				i, does = step, "edit"
			}
			before, said, removing, done := there(t), "", false, false
			switch does {
			case "edit":
				declared[i] = map[string]string{}
				for k, n := range draw.Perm(len(things))[:1+draw.IntN(4)] {
					declared[i][string(rune('w'+(k+draw.IntN(2))%4))] = things[n]
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
			case "crash":
				cut(s, draw.IntN(30), append([]string{"apply", "--prune", "--yes", files[i]}, flags...)...)
			case "destroy":
				removing = true
				said, done = run(t, i, "destroy")
			}
			if !removing {
				said, done = run(t, i, "apply", "--prune")
				applied[i] = done
				if tried++; done {
					held += len(declared[i])
				}
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
			all, perhaps := listed(t, s)
			require.True(t, len(all) <= len(now) && len(now) <= len(all)+len(perhaps), "%v and perhaps %v are listed of %v:\n%s", all, perhaps, now, said)
		}
		for i := range files { // for the next world
			declared[i] = map[string]string{}
			write(i, "")
			said, done := run(t, i, "apply", "--prune")
			require.True(t, done, said)
		}
		require.Empty(t, there(t))
	}
	require.Greater(s.T, held, tried/2, "too little was made by %d applies to prove anything", tried)
	s.Logf("%d applies made or held %d things", tried, held)
}

// cut kills a run once it has recorded some events, unless it ends before that.
func cut(s *site, events int, args ...string) {
	var newest int64
	for _, e := range s.events() {
		newest = e.Seq
	}
	cmd := s.command(args...)
	require.NoError(s.T, cmd.Start())
	watching, ended := context.WithCancel(s.Context())
	over := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it was killed
		ended()
		close(over)
	}()
	for range s.log.Watch(watching, deploylog.Filter{After: newest}) {
		if events--; events < 0 {
			break
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	<-over
}

// listed are the names of what runs made and is there. What a killed run was making, or a provider whose action failed, is
// listed, too, and perhaps it is there.
func listed(t require.TestingT, s *site) (all, perhaps []string) {
	text, err := s.command("list", "--output", "json").Output()
	require.NoError(t, err, "%s", text)
	var answer struct {
		Things []struct{ Manifest, Resource, Type, Verdict string }
	}
	require.NoError(t, json.Unmarshal(text, &answer), "%s", text)
	for _, row := range answer.Things {
		if row.Verdict == "unknown" || row.Verdict == "failed" && row.Type == "terraform/fake/fake_thing" {
			perhaps = append(perhaps, row.Manifest+"#"+row.Resource)
			continue
		}
		all = append(all, row.Manifest+"#"+row.Resource)
	}
	return all, perhaps
}
