package environments

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/tasks"
)

// The index of what tasks make finds what a search through all tasks finds, and asks once for each task.
func TestReservationsFindWhatASearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, hosts := []string{"a", "b", "c", "d"}, []string{"h1", "h2"}
		states, held := map[string]*environment.State{}, map[string]map[string][]int{}
		for _, name := range names {
			states[name] = environment.New(name)
		}
		asked, version := map[string]int{}, 0
		makes := func(t tasks.Task) []tasks.Thing {
			asked[fmt.Sprint(t.Environment, t.Revision, t.Host)]++
			key := fmt.Sprint((len(t.Host) + int(t.Environment[0]) + t.Revision*7 + version) % 3)
			return []tasks.Thing{{Key: key, Name: "thing " + key}, {Key: t.Environment, Name: "its own"}}
		}
		r := newReservations(states)
		r.things, r.version = makes, func() int { return version }
		search := func(of tasks.Task) string {
			for _, name := range names {
				for _, revision := range held[name][of.Host] {
					both := func(thing tasks.Thing) bool {
						return slices.ContainsFunc(makes(of), func(mine tasks.Thing) bool { return mine.Key == thing.Key })
					}
					if name != of.Environment && slices.ContainsFunc(makes(states[name].Task(revision, of.Host)), both) {
						return name
					}
				}
			}
			return ""
		}
		t.Repeat(map[string]func(*rapid.T){
			"an environment has other tasks": func(t *rapid.T) {
				on := map[string][]int{}
				for _, host := range hosts {
					if some := rapid.SliceOfNDistinct(rapid.IntRange(1, 3), 0, 2, rapid.ID[int]).Draw(t, "revisions"); len(some) > 0 {
						on[host] = some
					}
				}
				name := rapid.SampledFrom(names).Draw(t, "name")
				held[name] = on
				r.set(name, on)
			},
			"the inventory is another one": func(*rapid.T) {
				version++
				r.renew()
				clear(asked)
			},
			"a task is compared": func(t *rapid.T) {
				of := states[rapid.SampledFrom(names).Draw(t, "of")].Task(rapid.IntRange(1, 3).Draw(t, "revision"), rapid.SampledFrom(hosts).Draw(t, "host"))
				got, thing := r.other(of, true)
				assert.Equal(t, search(of), got)
				assert.Equal(t, got != "", thing.Key != "")
			},
			"nothing is asked twice": func(t *rapid.T) {
				for _, host := range hosts {
					of := states["a"].Task(9, host)
					r.other(of, true)
					clear(asked)
					r.other(of, true)
					delete(asked, fmt.Sprint("a", 9, host))
					assert.Empty(t, asked)
				}
			},
		})
	})
}
