package killloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/postgres"
	"github.com/deployster-go/deployster/deploylog/postgres/pgtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// servers are those that share a log in a database.
type servers struct {
	*world
	log      *postgres.Log
	entities []string     // what they control
	dead     map[int]bool // processes that were killed
}

// inDatabase has the log of all commands be in a database.
func (w *world) inDatabase() {
	server := must.Get(pgtest.New())(w)
	w.Cleanup(func() { assert.NoError(w, server.Remove()) })
	require.NoError(w, server.Start())
	w.url = server.URL("shared")
}

func (s *servers) start(socket string) { s.work("serve", "--socket", socket, "--check-every", "1s") }

// holders are which processes control which entities.
func (s *servers) holders() map[string]int {
	by := map[string]int{}
	for _, entity := range s.entities {
		unlock, err := s.log.TryLock(entity)
		if err == nil {
			unlock()
			continue
		}
		held := regexp.MustCompile(`: process (\d+) on `).FindStringSubmatch(err.Error())
		require.True(s, errors.Is(err, deploylog.ErrLocked) && held != nil, "%v", err)
		by[entity], _ = strconv.Atoi(held[1])
	}
	return by
}

// sharing is how many processes control something.
func (s *servers) sharing() int {
	processes := map[int]bool{}
	for _, pid := range s.holders() {
		processes[pid] = true
	}
	return len(processes)
}

func (s *servers) untilControlled() {
	s.Helper()
	for _, entity := range s.entities {
		waittest.Until(s, func() bool {
			held := must.Get(s.log.Locked(entity))(s)
			return held
		}, entity+" to be controlled")
	}
}

// kill kills one of them while it is at work, and starts another in its place once others have
// what it controlled.
func (s *servers) kill() {
	s.Helper()
	s.busy(2 * time.Second)
	i := s.IntN(len(s.workers))
	one := s.workers[i]
	s.dead[one.Process.Pid] = true
	s.end(one)
	s.workers = slices.Delete(s.workers, i, i+1)
	s.untilControlled()
	for _, other := range s.workers {
		s.answers(other)
	}
	s.work(one.args...)
}

func (s *servers) answers(one *worker) {
	s.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.path(one.args[2]))
	}}}
	var answer *http.Response
	waittest.Until(s, func() bool { // it may have been started just now
		var err error
		answer, err = client.Get("http://server/v1/environments")
		return err == nil
	}, "an answer")
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	for _, entity := range s.entities {
		if name, is := strings.CutPrefix(entity, "environment/"); is && (err != nil || !strings.Contains(string(text), name)) {
			s.Errorf("process %d says nothing of environment %s: %s %.200s, error %v", one.Process.Pid, name, answer.Status, text, err)
		}
	}
}

// checkControl checks that what one process has begun of an entity has ended when another one
// begins something of it, unless it was killed.
func (s *servers) checkControl(events []deploylog.Event) {
	s.Helper()
	open := map[string]map[string]string{} // processes by run, by entity
	entity := map[string]string{}          // by run
	processes := map[string]bool{}
	for _, e := range events {
		d := s.details(e).Details
		switch {
		case e.Name == "run-started" && d.Target != "":
			parts := strings.Split(d.Target, "/")
			of := parts[0] + " of " + parts[1]
			entity[e.Deployment] = of
			for run, other := range open[of] {
				if pid, _ := strconv.Atoi(other); other != d.PID && !s.dead[pid] {
					s.Errorf("event %d: process %s begins to work on a %s, on which process %s is at work in %s", e.Seq, d.PID, of, other, run)
				}
			}
			if open[of] == nil {
				open[of] = map[string]string{}
			}
			open[of][e.Deployment] = d.PID
			processes[d.PID] = true
		case e.Name == "run-finished-successfully", e.Name == "run-failed":
			delete(open[entity[e.Deployment]], e.Deployment)
		}
	}
	assert.True(s, len(processes) >= 3, "only %v did anything", processes)
}

// Three servers share what is in one log, and one is killed every other second, while people use
// environments and a pipeline in all ways. Nothing is lost, doubled, or controlled by two at once.
func TestServersThatShareALogKeepItsRules(t *testing.T) {
	rounds(t, 10, func(w *world, kills int) {
		w.inDatabase()
		w.others = map[string][]string{"beta": shopHosts["beta"], "prod": shopHosts["prod"]}
		shop := newShop(w)
		f := newFleet(w)
		s := &servers{world: w, entities: []string{"pipeline/shop", "environment/one", "environment/two"}, dead: map[int]bool{}}
		for i := range 10 { // which is enough that no one draws all
			w.write("idle.yaml", fmt.Sprintf("name: idle-%d\ntask: {manifest: one-task.yaml, vars: {number: idle}}\ninstance_group: {query: \"attribute:stage == fleet\"}\ndeployment: {min_healthy_percent: 0}\n", i))
			w.must("env", "create", "-f", "idle.yaml", "--allow-logged", "number")
			s.entities = append(s.entities, fmt.Sprintf("environment/idle-%d", i))
		}
		var err error
		if s.log, err = postgres.Open(t.Context(), w.url, postgres.Options{}); err != nil {
			t.Fatal(err)
		}
		defer s.log.Close()
		f.deploy("one")
		f.deploy("two")
		shop.release()
		shop.build()
		for _, socket := range []string{"s1", "s2", "s3"} {
			s.start(socket)
		}
		s.untilControlled()
		for w.killed < kills {
			f.act()
			shop.act()
			begun := shop.begin()
			s.kill()
			<-begun
		}
		// The last one has been started just now.
		waittest.Until(w, func() bool { return s.sharing() > 1 }, "two servers that share the control")
		w.stop()
		last := shop.settle()
		f.settle()
		events := w.events()
		released := f.released
		for of, content := range shop.released {
			released[of] = content
		}
		w.checkRuns(events)
		s.checkControl(events)
		w.checkJournal(released)
		shop.check(events, last)
		f.check(events)
		w.checkHistory(events)
	})
}
