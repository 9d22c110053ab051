package notification_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/notification"
	"github.com/deployster-go/deployster/internal/waittest"
)

// site is a log of which something is told.
type site struct {
	*testing.T
	log  *sqlite.Log
	told chan notification.Message // each waits until it is received
	fail chan error                // what a telling fails of, unless it is empty
}

func newSite(t *testing.T) *site {
	log := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{}))(t)
	t.Cleanup(func() { _ = log.Close() })
	return &site{T: t, log: log, told: make(chan notification.Message), fail: make(chan error, 100)}
}

var team = notification.Rule{Name: "team", On: []notification.Kind{notification.Failed, notification.Waits}, Of: []string{"pipeline/shop"}}

// run runs a notifier by rules; end ends it as a kill would, and returns its error.
func (s *site) run(rules ...notification.Rule) (end func() error) {
	ctx, cancel := context.WithCancel(s.Context())
	n := &notification.Notifier{
		Log: s.log, Rules: rules, Logger: slog.New(slog.DiscardHandler), Pauses: []time.Duration{time.Millisecond, time.Millisecond},
		Approvals: func(stage deploylog.Target) (bool, error) { return stage == "stage/shop/approve", nil },
		Send: func(ctx context.Context, _ notification.Rule, m notification.Message) error {
			select {
			case s.told <- m:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-s.fail:
				return err
			default:
				return nil
			}
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func (s *site) append(target deploylog.Target, name string) int64 {
	e, err := s.log.Append(s.Context(), deploylog.Event{Deployment: "d" + time.Now().Format(time.RFC3339Nano), Target: target, Revision: "7", Name: name, Attempt: 1, Data: []byte(`{"error":"it broke"}`)})
	require.NoError(s, err)
	return e[0].Seq
}

func (s *site) until(name string, n int) {
	s.Helper()
	for _, err := range s.log.Watch(waittest.Context(s), deploylog.Filter{Name: name}) {
		require.NoError(s, err)
		if n--; n == 0 {
			return
		}
	}
}

func (s *site) want(seq int64) {
	m := <-s.told
	assert.Equal(s, seq, m.Seq, "event %d was told (%s)", m.Seq, m.Text)
}

func (s *site) status() notification.Status {
	all, err := notification.Read(s.Context(), s.log)
	require.True(s, err == nil && len(all) != 0, "%v %v", all, err)
	return all[0]
}

func TestARuleTellsWhatComesAfterItCameAlsoWhileNobodyRan(t *testing.T) {
	s := newSite(t)
	s.append("pipeline/shop", "pipeline-failed")
	end := s.run(team)
	s.until(notification.Begun, 1)
	s.append("pipeline/other", "pipeline-failed")
	s.append("pipeline/shop", "pipeline-finished-successfully")
	first := s.append("pipeline/shop", "pipeline-failed")
	s.want(first)
	s.until(notification.Delivered, 1)
	err := end()
	require.True(t, errors.Is(err, context.Canceled) || err == nil, "%v", err)
	second := s.append("stage/shop/approve", "stage-started")
	s.append("stage/shop/deploy", "stage-started")
	third := s.append("pipeline/shop", "pipeline-failed")
	end = s.run(team)
	s.want(second)
	s.want(third)
	s.until(notification.Delivered, 3)
	_ = end()
	got := s.status()
	assert.True(t, got.Delivered == 3 && got.Through == third && got.Active && len(got.Abandoned) == 0, "%+v", got)
}

func TestWhatWasToldIsToldAgainAfterAKill(t *testing.T) {
	s := newSite(t)
	end := s.run(team)
	s.until(notification.Begun, 1)
	s.append("pipeline/shop", "pipeline-failed")
	s.fail <- context.Canceled // the receiver has it, and the process dies
	first := <-s.told
	_ = end()
	end = s.run(team)
	second := <-s.told
	assert.True(t, first == second && first.ID != "", "%+v is not %+v", second, first)
	s.until(notification.Delivered, 1)
	_ = end()
}

// What cannot be told is put aside after several tries, and what comes later is told. Somebody
// may have it told again.
func TestWhatCannotBeToldIsPutAside(t *testing.T) {
	s := newSite(t)
	end := s.run(team)
	s.until(notification.Begun, 1)
	for range 3 {
		s.fail <- errors.New("nobody\nlistens")
	}
	first := s.append("pipeline/shop", "pipeline-failed")
	for range 3 {
		s.want(first)
	}
	second := s.append("pipeline/shop", "pipeline-failed")
	s.want(second)
	s.until(notification.Delivered, 1)
	got := s.status()
	assert.True(t, len(got.Abandoned) == 1 && got.Abandoned[0].Event == first && got.Abandoned[0].Tries == 3 && got.Abandoned[0].Error == "nobody listens", "%+v", got)
	assert.ErrorIs(t, must.Fail((notification.Retry{Event: second, By: "ada"}).Do(t.Context(), s.log, "team")), notification.ErrNotAbandoned)
	assert.ErrorIs(t, must.Fail((notification.Retry{By: "ada"}).Do(t.Context(), s.log, "tema")), notification.ErrNotAbandoned)
	for round := range 2 {
		written, err := notification.Retry{By: "ada"}.Do(t.Context(), s.log, "team")
		require.True(t, err == nil && len(written) == 1, "%v %v", written, err)
		if round == 0 {
			for range 3 {
				s.fail <- errors.New("still nobody")
			}
			for range 3 {
				s.want(first)
			}
			s.until(notification.Abandoned, 2)
			continue
		}
		s.want(first)
	}
	s.until(notification.Delivered, 2)
	_ = end()
	got = s.status()
	assert.True(t, len(got.Abandoned) == 0 && got.Delivered == 2, "%+v", got)
}

func TestARuleThatComesBackBeginsAnew(t *testing.T) {
	s := newSite(t)
	end := s.run(team)
	s.until(notification.Begun, 1)
	_ = end()
	end = s.run(notification.Rule{Name: "other", On: team.On})
	s.until(notification.Ended, 1)
	s.until(notification.Begun, 2)
	_ = end()
	s.append("pipeline/shop", "pipeline-failed")
	end = s.run(team)
	s.until(notification.Begun, 3)
	seq := s.append("pipeline/shop", "pipeline-failed")
	s.want(seq)
	s.until(notification.Delivered, 1)
	_ = end()
}

func TestOneOfSeveralTells(t *testing.T) {
	s := newSite(t)
	first := s.run(team)
	s.until(notification.Begun, 1)
	second := s.run(team)
	for range 5 {
		s.want(s.append("pipeline/shop", "pipeline-failed"))
	}
	s.until(notification.Delivered, 5)
	_ = first()
	s.want(s.append("pipeline/shop", "pipeline-failed"))
	s.until(notification.Delivered, 6)
	_ = second()
}

// The rule is of the pipeline: its stages belong to it.
func TestAStageThatCouldNotBeVerifiedIsToldWithItsCause(t *testing.T) {
	s := newSite(t)
	end := s.run(team)
	s.until(notification.Begun, 1)
	s.append("stage/other/prod", "promotion-verify-failed")
	s.append("stage/shop/prod", "promotion-verify-failed")
	if m := <-s.told; m.On != notification.Failed || m.Text != "stage/shop/prod: revision 7 could not be verified, try 1: it broke" || m.Cause != "it broke" {
		t.Errorf("it was told %+v", m)
	}
	s.until(notification.Delivered, 1)
	_ = end()
}

// Who names a stage is told how it ends; who names its pipeline, or nothing, is told of that.
func TestHowAStageEndsIsToldWhoNamesIt(t *testing.T) {
	for of, want := range map[string]bool{"stage/shop/prod": true, "stage/shop/": true, "stage/shop/beta": false, "pipeline/shop": false, "": false} {
		s := newSite(t)
		rule := notification.Rule{Name: "team", On: []notification.Kind{notification.Finished, notification.Failed}}
		if of != "" {
			rule.Of = []string{of, "pipeline/end"}
		}
		end := s.run(rule)
		s.until(notification.Begun, 1)
		s.append("stage/shop/prod", "stage-failed")
		s.append("stage/shop/prod", "stage-finished-successfully")
		s.append("pipeline/end", "pipeline-failed") // that all is told before
		if want {
			m := <-s.told
			assert.True(t, m.On == notification.Failed && m.Text == "stage/shop/prod: revision 7 has failed: it broke", "%s: it was told %+v", of, m)
			m = <-s.told
			assert.True(t, m.On == notification.Finished && m.Target == "stage/shop/prod", "%s: it was told %+v", of, m)
		}
		m := <-s.told
		assert.True(t, m.Target == "pipeline/end", "%q: it was told %+v", of, m)
		_ = end()
	}
}

func TestWhatIsToldOfWhat(t *testing.T) {
	approvals := func(stage deploylog.Target) (bool, error) { return strings.HasSuffix(string(stage), "/approve"), nil }
	for _, c := range []struct {
		target deploylog.Target
		event  string
		data   string
		want   notification.Kind
	}{
		{"stage/shop/approve", "stage-started", "", notification.Waits},
		{"stage/shop/deploy", "stage-started", "", ""},
		{"pipeline/shop", "pipeline-failed", "", notification.Failed},
		{"host-group/shop/beta", "host-group-failed", "", ""},
		{"group/base-1", "group-failed", "", notification.Failed},
		{"environment/shop/prod", "environment-stuck", "", notification.Stuck},
		{"environment/shop/prod", "environment-finished-successfully", "", notification.Finished},
		{"environment/shop/prod", "environment-failed", "", ""}, // another deployment took its place
		{"task/shop/prod/1/h1", "task-drifted", "", notification.Drifted},
		{"stage/shop/prod", "stage-paused", "", notification.Held},
		{"stage/shop/prod", "promotion-held", "", notification.Held},
		{"stage/shop/prod", "promotion-rolled-back", "", notification.Held},
		{"pipeline/shop", "promotion-run-finished", "", notification.Finished},
		{"stage/shop/staging", "promotion-verify-failed", "", notification.Failed},
		{"stage/shop/staging", "promotion-verify-ended", "", ""},
		{"run/m.yaml", "run-failed", "", ""},
		// A promotion that fails has no pipeline that fails with it, and one that gives way to a newer
		// revision has not failed.
		{"stage/shop/prod", "stage-failed", `{"environment":"shop/prod","error":"the answer was 503"}`, notification.Failed},
		{"stage/shop/prod", "stage-failed", `{"environment":"shop/prod","superseded_by":"8"}`, ""},
		{"stage/shop/prod", "stage-failed", `{"version":1,"error":"stage prod failed"}`, ""}, // where revisions are released
		{"stage/shop/prod", "stage-failed", `{"environment":7}`, ""},
		{"stage/shop/prod", "stage-failed", `[]`, ""},
		{"stage/shop/prod", "stage-failed", "", ""},
		{"pipeline/shop", "unheard-of", "", ""},
	} {
		got, byStage, err := notification.KindOf(deploylog.Event{Target: c.target, Name: c.event, Data: []byte(c.data)}, approvals)
		if byStage {
			got = "" // nobody is told who does not name stages
		}
		assert.True(t, err == nil && got == c.want, "%s of %s is told as %q, not %q; %v", c.event, c.target, got, c.want, err)
	}
	broken := errors.New("the log cannot be read")
	if _, _, err := notification.KindOf(deploylog.Event{Target: "stage/shop/approve", Name: "stage-started"}, func(deploylog.Target) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("where nobody knows whether a stage waits for approval nothing is told: %v", err)
	}
}

func TestWhyPromotionsAreHeldIsTold(t *testing.T) {
	s := newSite(t)
	end := s.run(notification.Rule{Name: "team", On: []notification.Kind{notification.Held, notification.Failed}, Of: []string{"pipeline/shop"}})
	s.until(notification.Begun, 1)
	for _, c := range []struct {
		target      deploylog.Target
		event, data string
		cause, text string
	}{
		{"stage/shop/prod", "promotion-held", `{"by":"ann","reason":"it is slow"}`, "it is slow", "stage/shop/prod is held: it is slow"},
		{"pipeline/shop", "promotion-line-stopped", `{"reason":"orders are lost"}`, "orders are lost", "pipeline/shop is held: orders are lost"},
		{"stage/shop/prod", "promotion-rejected", `{"reason":"not tested"}`, "not tested", "stage/shop/prod has failed: not tested"},
		{"stage/shop/prod", "promotion-rolled-back", `{"error":"environment shop/prod was rolled back"}`, "environment shop/prod was rolled back", "stage/shop/prod is held: environment shop/prod was rolled back"},
	} {
		require.NoError(t, must.Fail(s.log.Append(t.Context(), deploylog.Event{Deployment: "d" + c.event, Target: c.target, Name: c.event, Attempt: 1, Data: []byte(c.data)})))
		m := <-s.told
		assert.True(t, m.Cause == c.cause && m.Text == c.text, "%s is told as %q, because of %q", c.event, m.Text, m.Cause)
	}
	s.until(notification.Delivered, 4)
	_ = end()
}

func TestAFileOfRules(t *testing.T) {
	rules := must.Get(notification.Parse("n.yaml", "/etc", []byte(`
notifications:
  - {name: team, on: [failed, stuck], of: [pipeline/shop, environment/shop/], webhook: {url_file: url, format: slack}}
  - {name: ci, on: [finished], webhook: {url: "https://ci.example/hook", key_file: /run/key}}
  - {name: mail, on: [held], email: {server: "mail.example:587", from: d@example.org, to: [a@example.org], username: d, password_file: pw}}
  - {name: page, on: [drifted, waits-for-approval], command: [page, --now]}
`)))(t)
	if len(rules) != 4 || rules[0].Webhook.URLFile != "/etc/url" || !rules[0].Webhook.Slack || rules[1].Webhook.KeyFile != "/run/key" || rules[2].Email.PasswordFile != "/etc/pw" || !slices.Equal(rules[3].Command, []string{"page", "--now"}) {
		t.Errorf("%+v", rules)
	}
	for text, want := range map[string]string{
		"": "needs a list notifications", "a: 1": "unknown key", "notifications: 7": "must be a list",
		"notifications: [{on: [failed], command: [x]}]":                                                                        "has no name",
		"notifications: [{name: a b, on: [failed], command: [x]}]":                                                             "cannot be the name",
		"notifications: [{name: a, command: [x]}]":                                                                             "does not say what it tells",
		"notifications: [{name: a, on: [], command: [x]}]":                                                                     "it tells nothing",
		"notifications: [{name: a, on: [faild], command: [x]}]":                                                                "failed",
		"notifications: [{name: a, on: [failed]}]":                                                                             "has 0",
		"notifications: [{name: a, on: [failed], command: [x], webhook: {url: https://x.example}}]":                            "has 2",
		"notifications: [{name: a, on: [failed], command: []}]":                                                                "there is no program",
		"notifications: [{name: a, on: [failed], of: [enviroment/shop], command: [x]}]":                                        "environment",
		"notifications: [{name: a, on: [failed], of: [run/m.yaml], command: [x]}]":                                             "nothing to tell of a run",
		"notifications: [{name: a, on: [failed], of: [stage/shop], command: [x]}]":                                             "stage/shop/ is all stages",
		"notifications: [{name: a, on: [failed], of: [pipeline/shop/], command: [x]}]":                                         "pipeline/shop is that with its stages",
		"notifications: [{name: a, on: [failed], of: [shop], command: [x]}]":                                                   "is not a target",
		"notifications: [{name: a, on: [failed], webhook: {url: 'ftp://x.example'}}]":                                          "must be a URL",
		"notifications: [{name: a, on: [failed], webhook: {url: 'https://u:p@x.example'}}]":                                    "must not hold a password",
		"notifications: [{name: a, on: [failed], webhook: {}}]":                                                                "one of url and url_file",
		"notifications: [{name: a, on: [failed], webhook: {url: https://x.example, format: teams}}]":                           "json or slack",
		"notifications: [{name: a, on: [failed], email: {server: mail, from: a, to: []}}]":                                     "HOST:PORT",
		"notifications: [{name: a, on: [failed], email: {server: 'm:25', from: a@b.example, to: [c@d.example], username: u}}]": "go together",
		"notifications: [{name: a, on: [failed], command: [x]}, {name: a, on: [failed], command: [x]}]":                        "duplicate",
	} {
		_, err := notification.Parse("n.yaml", "/etc", []byte(text))
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s\nis refused with %v, not with %s", text, err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("notifications: [{name: a, on: [failed], command: [x]}]"))
	f.Add([]byte("notifications: [{name: a, on: [failed], webhook: {url: https://x.example}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rules, err := notification.Parse("n.yaml", "/etc", text)
		for _, r := range rules {
			receivers := 0
			for _, there := range []bool{r.Webhook != nil, r.Email != nil, len(r.Command) > 0} {
				if there {
					receivers++
				}
			}
			assert.True(t, err != nil || r.Name != "" && len(r.On) != 0 && receivers == 1, "%q is %+v", text, r)
		}
	})
}
