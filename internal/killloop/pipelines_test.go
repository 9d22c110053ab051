package killloop

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// shop is a pipeline that people use in all ways at once.
type shop struct {
	*world
	variant  int
	released map[string]string
	last     int      // revision
	unbuilt  []string // revisions that wait for their artifact
}

// shopVariants are the definitions: another step, another manifest, another budget.
var shopVariants = []struct{ beta, prod, budget string }{
	{"{event: host-deployed, manifest: deployed.yaml, retries: 1}", "{event: host-deployed, manifest: deployed.yaml, retries: 1}", "max_failed: 1"},
	{"{event: host-deployed, manifest: deployed.yaml}", "{event: host-deployed, manifest: deployed.yaml}, {event: host-checked, manifest: checked.yaml}", "max_failed: 1, max_in_flight: 1"},
	{"{event: host-copied, manifest: copied.yaml}, {event: host-deployed, manifest: deployed.yaml}", "{event: host-deployed, manifest: deployed.yaml, retries: 1}", "max_failed: 0"},
	{"{event: host-deployed, manifest: other.yaml}", "{event: host-deployed, manifest: other.yaml}", "max_failed: 1"},
}

func shopDefinition(variant int) string {
	v := shopVariants[variant]
	return fmt.Sprintf(`
pipeline: shop
stages:
  - {name: build, build: {artifacts: [x86]}}
  - name: beta
    deploy:
      host_groups: [{name: beta, hosts: "attribute:stage == beta", %s}]
      steps: [%s]
  - {name: approve, approval: {}}
  - name: prod
    deploy:
      host_groups: [{name: prod, hosts: "attribute:stage == prod", %s}]
      steps: [%s]
batches: [{from: beta, to: approve}, {from: approve, to: prod}]
`, v.budget, v.beta, v.budget, v.prod)
}

var shopHosts = map[string][]string{"beta": {"a", "b"}, "prod": {"c", "d", "e"}}

// shopManifest is what writes a file of a host.
func shopManifest(file, by string) string {
	return fmt.Sprintf(`
plugs: {dir: {path: "hosts/{{ host }}"}, all: {path: all}}
resources:
  %s: {type: journal:1, config: {file: %q, host: "{{ host }}", for: "shop {{ revision }}", alone: "{{ stage }}", wait: 150, value: "%s {{ host }} {{ revision }} {{ artifacts.x86 }}"}}
`, file, file, by)
}

func newShop(w *world) *shop {
	s := &shop{world: w, released: map[string]string{}}
	s.stages(shopHosts)
	for _, file := range []string{"copied", "deployed", "checked"} {
		w.write(file+".yaml", shopManifest(file, file))
	}
	w.write("other.yaml", shopManifest("deployed", "other"))
	s.apply(0)
	return s
}

func (s *shop) apply(variant int) {
	s.Helper()
	s.write("shop.yaml", shopDefinition(variant))
	if _, ok := s.run("pipeline", "apply", "-f", "shop.yaml", "--yes"); ok {
		s.variant = variant
	}
}

// next is the next revision, which is released with what there is now.
func (s *shop) next() string {
	s.last++
	revision := fmt.Sprint(s.last)
	by := "deployed"
	if strings.Contains(shopVariants[s.variant].prod, "other.yaml") {
		by = "other"
	}
	end := fmt.Sprintf(" HOST %s shop-%s.tar image=%d", revision, revision, s.image)
	s.released["shop "+revision] = "released"
	for file, by := range map[string]string{"deployed": by, "copied": "copied", "checked": "checked"} {
		s.released["shop "+revision+" "+file] = by + end
	}
	return revision
}

func (s *shop) release(flags ...string) string {
	s.Helper()
	revision := s.next()
	s.must(append([]string{"pipeline", "release", "shop", revision}, flags...)...)
	s.unbuilt = append(s.unbuilt, revision)
	return revision
}

// build hands in the artifact of the revision that waits longest for it.
func (s *shop) build() {
	s.Helper()
	if len(s.unbuilt) == 0 {
		return
	}
	revision := s.unbuilt[0]
	s.unbuilt = s.unbuilt[1:]
	if s.IntN(10) == 0 {
		s.run("pipeline", "artifact", "shop", revision, "x86", "--failed")
		return
	}
	s.run("pipeline", "artifact", "shop", revision, "x86", "--ref", "shop-"+revision+".tar")
}

// some is one of the newest revisions.
func (s *shop) some() string { return fmt.Sprint(max(1, s.last-s.IntN(4))) }

func (s *shop) stage() string { return []string{"build", "beta", "approve", "prod"}[s.IntN(4)] }

// broken has a host refuse what is done to it, or no longer.
func (s *shop) broken(host string, broken bool) {
	path := s.path("hosts", host, "broken")
	var err error
	if broken {
		err = os.WriteFile(path, nil, 0o600)
	} else if err = os.Remove(path); os.IsNotExist(err) {
		err = nil
	}
	require.NoError(s, err)
}

// act does one of the things that people and hosts do.
func (s *shop) act() {
	s.Helper()
	switch s.IntN(18) {
	case 0, 1, 2:
		s.release()
		s.build()
	case 3:
		s.release("--fix")
		s.build()
	case 4, 5:
		s.build()
	case 6, 7, 8:
		for n := range 4 {
			s.run("pipeline", "approve", "shop", "approve", fmt.Sprint(max(1, s.last-n)))
		}
	case 9:
		s.run("pipeline", "cancel", "shop", s.some())
	case 10:
		s.run("pipeline", "retry", "shop", s.some())
	case 11:
		s.run("pipeline", []string{"skip", "cancel"}[s.IntN(2)], "shop", s.some())
	case 12:
		s.run("pipeline", "reject", "shop", "approve", s.some())
	case 13:
		s.run("pipeline", "pause", "shop", s.stage())
	case 14:
		s.run("pipeline", "resume", "shop", s.stage())
	case 15:
		s.run("pipeline", "rollback", "shop", []string{"beta", "prod"}[s.IntN(2)])
	case 16:
		s.apply(s.IntN(len(shopVariants)))
	case 17:
		s.broken(s.hosts[s.IntN(len(s.hosts))], s.IntN(2) == 0)
	}
}

// help mends what keeps revisions from going through.
func (s *shop) help() {
	s.Helper()
	for _, host := range s.hosts {
		s.broken(host, false)
	}
	for _, stage := range []string{"build", "beta", "approve", "prod"} {
		s.run("pipeline", "resume", "shop", stage)
	}
}

// begin has things begun in all stages while others go on: the next revision is built, and
// those before it are approved. The returned channel is closed when that is done.
func (s *shop) begin() <-chan struct{} {
	revision, done := s.next(), make(chan struct{})
	commands := []string{"pipeline release shop " + revision + " --fix", "pipeline artifact shop " + revision + " x86 --ref shop-" + revision + ".tar"}
	for n := range 3 {
		commands = append(commands, fmt.Sprintf("pipeline approve shop approve %d", max(1, s.last-n)))
	}
	go func() {
		defer close(done)
		for _, c := range commands {
			_ = s.command(strings.Fields(c)...).Run() // it may be refused
		}
	}()
	return done
}

// settle has all go well from now on, and returns the revision that is the last.
func (s *shop) settle() string {
	s.Helper()
	for _, host := range s.hosts {
		s.broken(host, false)
	}
	s.apply(0)
	for _, stage := range []string{"", "build", "beta", "approve", "prod"} {
		s.resume(stage)
	}
	for len(s.unbuilt) > 0 {
		s.build()
	}
	last := s.release("--fix")
	s.must("pipeline", "artifact", "shop", last, "x86", "--ref", "shop-"+last+".tar")
	s.unbuilt = nil
	for range s.last + 5 {
		s.run("pipeline", "run", "--until-idle")
		running := false
		for _, r := range s.history() {
			if r.Status == "running" {
				running = true
				// One that was not built and was retried waits for its artifact anew.
				s.run("pipeline", "artifact", "shop", r.Revision, "x86", "--ref", "shop-"+r.Revision+".tar")
				s.run("pipeline", "approve", "shop", "approve", r.Revision)
			}
		}
		if !running {
			break
		}
		for _, stage := range []string{"beta", "prod"} { // what failed or was rolled back meanwhile
			s.run("pipeline", "resume", "shop", stage)
		}
	}
	return last
}

// resume resumes a stage until it is not paused. One that is being rolled back is resumed
// when that has ended, for which somebody has to go on with it.
func (s *shop) resume(stage string) {
	s.Helper()
	for range 5 {
		out, ok := s.run(strings.Fields("pipeline resume shop " + stage)...)
		switch {
		case strings.Contains(out, "is not paused"):
			return
		case strings.Contains(out, "it is being rolled back"):
			s.run("pipeline", "run", "--until-idle")
		case !ok:
			s.Fatalf("stage %q: %s", stage, out)
		}
	}
	s.Fatalf("stage %q stays paused", stage)
}

type release struct{ Revision, Deployment, Status string }

func (s *shop) history() []release {
	return answer[struct{ Revisions []release }](s.world, "pipeline", "history", "shop").Revisions
}

// check checks what became of the revisions, of which one is the last.
func (s *shop) check(events []deploylog.Event, last string) {
	s.Helper()
	for _, r := range s.history() {
		if r.Status == "running" || r.Revision == last && r.Status != "finished" {
			s.Errorf("in the end revision %s is %s", r.Revision, r.Status)
		}
	}
	s.checkPipeline(events, "shop")
	s.checkBatches(events, "shop", map[string]string{"beta": "beta", "prod": "prod"},
		batch{"build", []string{"build"}}, batch{"beta", []string{"beta"}}, batch{"prod", []string{"prod"}}, batch{"approve", []string{"approve"}},
		batch{"beta to approve", []string{"beta", "approve"}}, batch{"approve to prod", []string{"approve", "prod"}})
}

// Two schedulers are killed again and again, while revisions go through a pipeline, and fail,
// and people cancel, retry, pause, change and roll back.
func TestPipelinesKeepTheirRules(t *testing.T) {
	rounds(t, 10, func(w *world, kills int) {
		s := newShop(w)
		s.release()
		s.build()
		w.work("pipeline", "run")
		w.work("pipeline", "run")
		w.foreign("pipeline", "run")
		for w.killed < kills {
			for range 2 + w.IntN(4) {
				s.act()
			}
			if w.IntN(3) > 0 {
				s.help()
			}
			begun := s.begin()
			w.kill(5 * time.Second)
			<-begun
		}
		w.stop()
		last := s.settle()
		for _, host := range w.hosts {
			if got, want := w.file(host, "deployed"), strings.ReplaceAll(s.released["shop "+last+" deployed"], "HOST", host); got != want {
				w.Errorf("%s has %q, want %q", host, got, want)
			}
		}
		events := w.events()
		w.checkRuns(events)
		w.checkForeign(events)
		w.checkJournal(s.released)
		s.check(events, last)
	})
}
