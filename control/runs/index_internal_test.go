package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/report"
)

// fakeIndex is a deploylog.Index in memory.
type fakeIndex struct {
	seq  int64
	docs map[string][]byte
	fail error
}

func (f *fakeIndex) Read(_ context.Context, keys ...string) (int64, map[string][]byte, error) {
	found := map[string][]byte{}
	for _, key := range keys {
		if text, has := f.docs[key]; has {
			found[key] = text
		}
	}
	return f.seq, found, f.fail
}

func (f *fakeIndex) Under(_ context.Context, prefixes ...string) (int64, map[string][]byte, error) {
	found := maps.Clone(f.docs)
	maps.DeleteFunc(found, func(key string, _ []byte) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	return f.seq, found, f.fail
}

func (f *fakeIndex) Write(_ context.Context, from, to int64, changes map[string][]byte) error {
	if from != f.seq {
		return deploylog.ErrIndexMoved
	}
	for key, text := range changes {
		if text == nil {
			delete(f.docs, key)
		} else {
			f.docs[key] = text
		}
	}
	f.seq = to
	return nil
}

// someLog is a log of what runs of a few manifests did, in an order that no run may keep to.
type someLog struct {
	log    deploylog.Log
	events int
	owners []Owner
}

var someNames = []string{"a", "b", "c[x]", "a@h", "b@h"}

func (s *someLog) append(t *rapid.T, target deploylog.Target, name, run, revision string, d Data) {
	s.events++
	require.NoError(t, appendEvent(context.Background(), s.log, deploylog.Event{Deployment: run, Target: target, Name: name, Revision: revision, Attempt: s.events}, d))
}

func (s *someLog) owner(t *rapid.T, label string) *Owner {
	o := rapid.SampledFrom(s.owners).Draw(t, label)
	return &o
}

// next appends what a run may record.
func (s *someLog) next(t *rapid.T) {
	draw := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	name, run := draw("name", someNames...), draw("run", "R1", "R2", "R3")
	id, key := draw("id", "", "", name+"#R1", "a"), draw("key", "", "k1", "k2", "k3")
	target := resourceTarget(name)
	placed := strings.Contains(name, "@")
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0, 1, 2, 3:
		d := Data{ID: id, Made: &Making{Type: "file", Config: json.RawMessage(`{"p":` + draw("config", "1", "2") + `}`)}}
		if placed {
			d.Made.Thing = draw("thing", "t1", "t2")
		} else {
			d.Made.give(*s.owner(t, "owner"))
			if d.Made.Identity = (&report.Identity{Key: key}); key == "k3" {
				d.Made.Identity.Also = []string{"k1", "k2"}
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "took") == 0 && !placed {
			d.Took = &Taken{Of: *s.owner(t, "before"), Name: draw("was", someNames[:3]...), ID: id}
		} else if rapid.IntRange(0, 4).Draw(t, "from") == 0 {
			d.From = draw("maker", "R1", "R2")
		}
		s.append(t, actionTarget(name, "create"), string(report.ActionStarted), run, "r", d)
	case 4, 5:
		d := Data{ID: id, Key: key, Of: s.owner(t, "owner")}
		if placed || rapid.IntRange(0, 5).Draw(t, "unnamed") == 0 {
			d.Of = nil
		}
		s.append(t, target, draw("gone", string(report.ResourceDestroyed), EventResourceForgotten), run, draw("revision", "", "r"), d)
	case 6:
		d := Data{From: draw("from", someNames[:3]...), Of: s.owner(t, "owner"), ID: draw("id", "", "i")}
		if rapid.IntRange(0, 4).Draw(t, "unnamed") == 0 {
			d.Of = nil
		}
		s.append(t, resourceTarget(draw("to", someNames[:3]...)), EventResourceMoved, run, "r", d)
	case 7:
		if rapid.Bool().Draw(t, "claims") && !placed {
			s.append(t, target, EventResourceClaimed, run, "r", Data{Of: s.owner(t, "owner"), Key: draw("key", "k1", "k2")})
			return
		}
		s.append(t, target, string(report.ResourceKept), run, "r", Data{ID: id, Kept: &Kept{Value: json.RawMessage(`{}`)}})
	case 8:
		ended := actionTarget(name, "create")
		s.append(t, ended, draw("end", ended.Succeeded(), ended.Failed()), run, "r", Data{ID: id, Abandoned: rapid.Bool().Draw(t, "abandoned")})
	case 9:
		of := deploylog.Target("run/m.yaml@h")
		d := Data{Details: map[string]string{"target": "host/p/" + draw("group", "g1", "g2") + "/h", "event": "e"}}
		s.append(t, of, draw("step", of.Started(), of.Started(), of.Succeeded()), run, "r", d)
	}
}

// says is all that a history and the pasts of a log answer, asked in some order: each question reads what it needs.
func (s *someLog) says(t *rapid.T, h *History, p *Pasts) string {
	ctx := context.Background()
	tell := func(things []*Thing) (text string) {
		for _, t := range things {
			text += fmt.Sprintf("%s %q of %s by %s at %d, %+v %t %t\n", t.Name, t.ID, t.Owner(), t.Run, t.At.UnixNano(), t.Identity, t.Deposed, t.Claimed)
		}
		return text
	}
	type question struct {
		about string
		ask   func() string
	}
	questions := []question{
		{"owners", func() string { return fmt.Sprint(must.Get(h.Owners(ctx, "/w"))(t)) }},
		{"all", func() string { return tell(must.Get(h.All(ctx))(t)) }},
		{"host", func() string {
			host := must.Get(p.Host(ctx, "h"))(t)
			return fmt.Sprintf("%+v %+v", host.Made, host.Declared)
		}},
	}
	for _, name := range someNames {
		questions = append(questions,
			question{"named " + name, func() string { return tell(must.Get(h.Named(ctx, name))(t)) }},
			question{"alike " + name, func() string {
				like := must.Get(h.keyless(ctx, name, likeness("file", map[string]any{"p": 1})))(t)
				return tell(slices.DeleteFunc(like, func(t *Thing) bool { return string(t.Config) != `{"p":1}` }))
			}},
			question{"past " + name, func() string {
				return fmt.Sprintf("%+v %+v", must.Get(p.of(ctx, name, ""))(t), must.Get(p.of(ctx, name, name+"#R1"))(t))
			}})
		for i, o := range s.owners {
			questions = append(questions,
				question{fmt.Sprint("thing ", i, name), func() string {
					if thing := must.Get(h.Thing(ctx, o, name))(t); thing != nil {
						return tell([]*Thing{thing})
					}
					return ""
				}},
				question{fmt.Sprint("called ", i, name), func() string { return fmt.Sprint(must.Get(h.Called(ctx, o, name))(t)) }})
		}
	}
	for i, o := range s.owners {
		questions = append(questions,
			question{fmt.Sprint("others ", i), func() string {
				return tell(must.Get(h.Others(ctx, o, "k1"))(t)) + tell(must.Get(h.Others(ctx, o, "k2"))(t))
			}},
			question{fmt.Sprint("all of ", i), func() string { return tell(must.Get(h.OfOwner(ctx, o))(t)) }},
			question{fmt.Sprint("undeclared ", i), func() string {
				return fmt.Sprintf("%+v", must.Get(h.Undeclared(ctx, o, func(name string) bool { return name == "a" }))(t))
			}},
			question{fmt.Sprint("moves ", i), func() string {
				return fmt.Sprint(must.Get(h.Moves(ctx, o, func(name string) string { return strings.Replace(name, "a", "c[x]", 1) }))(t))
			}})
	}
	answers := map[string]string{}
	first := rapid.IntRange(0, len(questions)-1).Draw(t, "first question")
	for _, q := range slices.Concat(questions[first:], questions[:first]) {
		answers[q.about] = q.ask()
	}
	return fmt.Sprintf("%q", answers)
}

// Whatever runs record, and whenever an index is written: who reads that says what the log says.
func TestWhatAnIndexSaysFollowsFromTheLog(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		s := &someLog{log: logtest.NewMemory().Open(), owners: []Owner{
			{Manifest: []string{"m.yaml"}, Workspace: "/w"}, {Manifest: []string{"n.yaml"}, Workspace: "/w", Machine: "one"},
			{Manifest: []string{"n.yaml"}, Workspace: "/w", Machine: "two"}, {Name: "prod", Manifest: []string{"m.yaml"}, Workspace: "/w"},
			{Name: "prod", Manifest: []string{"o.yaml"}, Workspace: "/v"}, {Manifest: []string{"m.yaml"}, Workspace: "/gone"},
		}}
		s.next(t)
		index := &fakeIndex{docs: map[string][]byte{}}
		broken := errors.New("the disk is broken")
		open := func() (*History, *Pasts) {
			if index.fail = nil; rapid.IntRange(0, 5).Draw(t, "is broken") == 0 {
				index.fail = broken
			}
			p := NewPasts(s.log)
			p.opened, p.index, p.base = true, index, unread
			h := must.Get(readHistory(ctx, s.log, index, nil))(t)
			index.fail = nil
			p.Follow(h)
			return h, p
		}
		h, p := open()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				assert.True(t, must.Get(indexWriter{s.log, index, nil}.write(ctx, index.seq, index.seq == 0 || rapid.IntRange(0, 3).Draw(t, "whole") == 0))(t))
			case 1:
				h, p = open()
			case 2:
				require.NoError(t, h.Update(ctx))
				require.NoError(t, h.Prepare(ctx, *s.owner(t, "prepares"), someNames[:3]))
				require.NoError(t, p.Prepare(ctx, append([]string{"a#R1"}, someNames...)))
			case 3:
				if rapid.IntRange(0, 3).Draw(t, "breaks") == 0 {
					index.fail = broken
					require.NoError(t, h.Update(ctx))
					_ = s.says(t, h, p)
					index.fail = nil
				}
			default:
				s.next(t)
			}
			if rapid.IntRange(0, 4).Draw(t, "asks") > 0 {
				continue
			}
			if rapid.Bool().Draw(t, "follows") { // as a run does, which asks for the past first
				must.Get(p.of(ctx, "a", ""))(t)
			} else {
				require.NoError(t, h.Update(ctx))
			}
			all := must.Get(readHistory(ctx, s.log, nil, nil))(t)
			require.Equal(t, s.says(t, all, NewPasts(s.log)), s.says(t, h, p))
		}
	})
}
