package environment

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/refusal"
)

// What people read of a reason is said here once; other tests want codes.
func TestTheSentencesOfReasons(t *testing.T) {
	d := reason.Details{
		Environment: "shop/prod", Seq: 7, Cause: "port is taken", By: "ann", Reason: "a mistake", Host: "web7", Step: &reason.StepInfo{Number: 1, Of: 3, Hosts: 2, Begun: 2, Seq: 8, Until: time.Date(2017, 9, 6, 11, 57, 23, 0, time.UTC)}, Zone: "eu-1", Zoned: true, Query: "attribute:stack == prod", Revision: 3,
		Awaited: "started", Attempt: 2, Failures: 2, RetryAt: time.Date(2017, 9, 6, 11, 47, 23, 0, time.UTC),
		Back: "deployster env rollback shop/prod", Failed: 1, Healthy: 4, Desired: 5, Double: 1, Minimum: 4,
		Config: definition.Configuration{
			MinHealthyPercent: 80, MaxOver: 1, OrderBy: "zone", MinHealthyTime: definition.Duration(10 * time.Second), HealthyDeadline: definition.Duration(5 * time.Minute),
			ProgressDeadline: definition.Duration(10 * time.Minute), MaxFailed: most(0),
		},
	}
	for code, want := range map[reason.Code][2]string{
		reason.EnvironmentDeleted: {"the environment was deleted", "a new revision: deployster env create"},
		reason.NotDeployed:        {"no revision was deployed", "deployster env deploy shop/prod --revision 3"},
		reason.Paused:             {"paused by ann (event 7): a mistake", "deployster env resume shop/prod, or another deployment"},
		reason.HostsUnknown:       {"its hosts are not known yet", "environment-hosts-changed, recorded by the controller"},
		reason.NoHosts:            {"the query attribute:stack == prod selects no hosts", "a host that the query selects"},
		reason.NoController:       {"no controller is running, so nothing begins", "deployster env run shop/prod"},
		reason.SilentController:   {"nothing begins: port is taken", "that controller going on, or its end: another one takes over then"},
		reason.IsStuck:            {"stuck (event 7): port is taken", "a task becoming healthy, deployster env rollback shop/prod, or a new revision"},
		reason.Ready:              {"waiting to be started: ready for the next free slot of the controller", "task-started"},
		reason.InProgress:         {"being started since event 7 (attempt 2)", "its result"},
		reason.TaskPaused:         {"waiting to be started: the environment is paused", "deployster env resume shop/prod"},
		reason.AwaitsRetry:        {"failed twice, next try at 11:47:23 UTC: port is taken", "the next try"},
		reason.AwaitsHealth:       {"launched, and not yet healthy for 10s", "task-finished-successfully"},
		reason.AwaitsProbe:        {"its state is unknown, so nothing is done with it: port is taken", "a successful probe: its host must respond"},
		reason.HostLost:           {"its host is no longer in the inventory, so it cannot be terminated", "the host in the inventory"},
		reason.TooManyFailed:      {"waiting to be started: 1 host failed, and max_failed is 0", "a failed task becoming healthy, or another deployment"},
		reason.MinHealthy:         {"waiting to be started: only 4 of 5 hosts are healthy, and 4 must stay healthy (min_healthy_percent 80)", "another task becoming healthy, or a deployment with a lower --min-healthy-percent"},
		reason.MaxOver:            {"waiting to be started: the number of hosts with two tasks is 1, and max_over is 1", "an old task being terminated"},
		reason.AwaitsZone:         {"waiting to be started: hosts are replaced by their zone, one after the other, and those of eu-1 are not done", "the hosts of eu-1 becoming healthy"},
		reason.AwaitsStep:         {"waiting to be started: step 1 of 3: 2 of 2 hosts begun, and it goes on at 11:57:23 UTC (event 8)", "that time, or deployster env promote shop/prod"},
		reason.AwaitsPromotion:    {"step 1 of 3: 2 of 2 hosts begun, and it goes on at 11:57:23 UTC (event 8)", "that time, or deployster env promote shop/prod"},
		reason.Cordoned:           {"its host is cordoned by ann (event 7): a mistake", "deployster env uncordon shop/prod web7"},
		reason.NoProgress:         {"no progress for 10m", "a task becoming healthy"},
		reason.DeadlinePassed:     {"not healthy within 5m", "the task becoming healthy"},
	} {
		if message, change := d.Text(code); message != want[0] || change != want[1] {
			t.Errorf("%s says\n  %s\n  → %s\nwant\n  %s\n  → %s", code, message, change, want[0], want[1])
		}
	}
}

// What people read of a refusal is said here once; other tests want only codes.
func TestTheSentencesOfRefusals(t *testing.T) {
	none, method := 101, definition.Method("Swap")
	over, fast := 0, record.Change{MinHealthyPercent: new(int)}
	one := func(t *testing.T) *world {
		w := newWorld(t)
		w.propose(Create{Definition: defined(nil), By: "ann@host"})
		return w
	}
	two := func(t *testing.T) *world {
		w := deployed(t, 1, nil)
		w.propose(Update{Base: 1, Definition: defined(image("log-daemon:2")), By: "bob@host"})
		return w
	}
	then := func(first func(*testing.T) *world, all ...Command) func(*testing.T) *world {
		return func(t *testing.T) *world {
			w := first(t)
			for _, c := range all {
				w.propose(c)
			}
			return w
		}
	}
	for _, c := range []struct {
		world   func(*testing.T) *world
		command Command
		code    refusal.Code
		want    string
	}{
		{newWorld, Pause{}, UnknownEnvironment, `no such environment "SomeEnvironment/Prod"`},
		{one, Create{Definition: defined(nil)}, EnvironmentExists, "environment SomeEnvironment/Prod already exists (revision 1, event 1): change it with deployster env update --base 1"},
		{one, Deploy{Revision: 2}, UnknownRevision, "no such revision 2 of environment SomeEnvironment/Prod: it has only revision 1"},
		{two, Deploy{Revision: 3}, UnknownRevision, "no such revision 3 of environment SomeEnvironment/Prod: it has revisions 1 to 2"},
		{two, Update{Base: 1, Definition: defined(nil)}, StaleBase, "stale base: revision 1 of environment SomeEnvironment/Prod is not the newest. Since then:\n" +
			"  revision 2, by bob@host at 2017-09-06 11:47:23 UTC: task.vars.image: log-daemon:1 → log-daemon:2\n" +
			"Review the changes (deployster env diff SomeEnvironment/Prod 1 2), and update from --base 2"},
		{two, Update{Base: 2, Definition: defined(image("log-daemon:2"))}, NothingChanged, "revision 2 of environment SomeEnvironment/Prod already has this definition, with the same files and variables: nothing was changed; deploy that one: deployster env deploy SomeEnvironment/Prod --revision 2"},
		{one, Rollback{Revision: 1}, NothingDeployed, "nothing of environment SomeEnvironment/Prod is deployed: there is nothing to roll back"},
		{one, Pause{}, NothingDeployed, "nothing of environment SomeEnvironment/Prod is deployed: there is nothing to pause"},
		{one, Resume{}, NotPaused, "environment SomeEnvironment/Prod is not paused"},
		{then(two, Pause{By: "ann@host"}), Pause{}, AlreadyPaused, "environment SomeEnvironment/Prod is already paused, by ann@host (event "},
		{two, Rollback{Revision: 2}, NewerRevision, "revision 2 is newer than revision 1, which is deployed: deployster env deploy SomeEnvironment/Prod --revision 2"},
		{two, Rollback{Revision: 1}, AlreadyDeployed, "revision 1 is already deployed: roll back to an earlier one"},
		{then(two, Delete{}, Create{Definition: defined(nil)}), Deploy{Revision: 1}, RevisionDeleted, "no such revision 1 of environment SomeEnvironment/Prod any more: it was made (event 1) before the environment was deleted; the first since then is 3"},
		{then(two, Deploy{Revision: 2, Change: fast, Hosts: hostNames(1)}), Deploy{Revision: 1, Hosts: hostNames(1)}, OlderRevision, "revision 1 is older than revision 2, which is being deployed: to go back, deployster env rollback SomeEnvironment/Prod --revision 1"},
		{then(two, Update{Base: 2, Definition: defined(image("log-daemon:3"))}, Deploy{Revision: 3, Change: fast, Hosts: hostNames(1)}), Rollback{Revision: 2, Hosts: hostNames(1)}, NeverDeployed, "revision 2 was never deployed, so it cannot be rolled back to: base a new revision on it"},
		{then(two, Delete{TerminateTasks: true}), Update{Base: 2, Definition: defined(nil)}, BeingDeleted, "environment SomeEnvironment/Prod is being deleted since event "},
		{two, Deploy{Revision: 2, Change: record.Change{MinHealthyPercent: &none}, Hosts: hostNames(1)}, InvalidChange, "invalid min_healthy_percent 101: it is from 0 to 100"},
		{two, Deploy{Revision: 2, Change: record.Change{Method: &method}, Hosts: hostNames(1)}, InvalidChange, `unknown method "Swap": it is Replace or Surge`},
		{two, Deploy{Revision: 2, Change: record.Change{MaxOver: new(int), MaxSurge: most(2)}, Hosts: hostNames(1)}, InvalidChange, "max_over and max_surge are two ways to say the same: give one of them"},
		{two, Deploy{Revision: 2, Change: record.Change{MinHealthyPercent: new(int), MaxUnavailable: most(2)}, Hosts: hostNames(1)}, InvalidChange, "min_healthy_percent and max_unavailable are two ways to say the same: give one of them"},
		{two, Deploy{Revision: 2, Change: record.Change{MaxSurge: most(0)}, Hosts: hostNames(1)}, InvalidChange, "invalid max_surge 0: it is at least 1"},
		{two, Deploy{Revision: 2, Change: record.Change{MaxUnavailable: most(0)}, Hosts: hostNames(1)}, NoDisruptionAllowed, "revision 2 cannot be deployed like that: Replace stops a task before it starts another, and with a max_unavailable of 0 none of 1 host may be without one; --max-unavailable 1, or --method Surge, would let it proceed"},
		{two, Deploy{Revision: 2, Change: record.Change{MaxOver: &over}, Hosts: hostNames(1)}, InvalidChange, "invalid max_over 0: it is at least 1"},
	} {
		t.Run(strings.ReplaceAll(c.want, " ", "-"), func(t *testing.T) {
			w := c.world(t)
			w.refuses(c.command, c.code)
			_, err := w.state.Propose(c.command, w.now)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "it says %s", err)
		})
	}
}
