package pages_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/promotion"
	promotiondefinition "github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// markup is what somebody writes who wants pages to do something, as a name may be.
const markup = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>{{.}}`

// colours is what containers write who think they have a terminal.
const colours = "\x1b[31mred\x1b]0;owned\x07 \u202egnp.exe\u202c\r\n<b>second</b> line\x00"

func (s *site) must(_ []deploylog.Event, err error) { require.NoError(s, err) }

// hostile is a site on which everything that may have any name has that of markup.
func hostile(t *testing.T, events ...deploylog.Event) *site {
	s := newSite(t, events...)
	all := pipelines.New(s.log, s.now)
	d := &definition.Definition{Name: "web", Stages: []definition.Stage{
		{Name: "first", After: []string{}, Approval: &definition.Approval{}}, {Name: "second", After: []string{"first"}, Approval: &definition.Approval{Approvals: 2}},
	}}
	s.must(all.Command(t.Context(), "web", pipeline.Define{Definition: d, ID: s.id(), By: markup}))
	for _, revision := range []string{markup, "r2", "r3"} {
		s.must(all.Command(t.Context(), "web", pipeline.Release{Revision: revision, ID: s.id(), By: markup}))
	}
	s.must(all.Command(t.Context(), "web", pipeline.PausePipeline{By: markup, Reason: markup + colours, ID: s.id()}))
	envs := environments.New(s.log, s.now)
	prod := &envdefinition.Definition{
		Name: markup, Type: envdefinition.Daemon, Task: envdefinition.TaskSpec{Manifest: markup, Vars: map[string]any{markup: markup}}, InstanceGroup: envdefinition.InstanceGroup{Query: markup},
		Deployment: envdefinition.Configuration{Method: envdefinition.Replace, Drift: envdefinition.RepairDrift, HealthyDeadline: envdefinition.Duration(time.Minute), ProgressDeadline: envdefinition.Duration(time.Minute)},
	}
	s.must(envs.Command(t.Context(), markup, environment.Create{Definition: prod, By: markup}, markup))
	s.must(envs.Command(t.Context(), markup, environment.Deploy{Revision: 1, Hosts: []string{markup}, By: markup, Reason: colours}))
	s.must(envs.Command(t.Context(), markup, environment.Pause{By: markup, Reason: colours}))
	next := *prod
	next.Task.Vars = map[string]any{markup: colours}
	next.Task.Manifest = "web.yaml"
	s.must(envs.Command(t.Context(), markup, environment.Update{Base: 1, Definition: &next, By: markup}, markup))
	s.must(s.log.Append(t.Context(), runEvents("run-"+markup, "run/"+markup)...))
	groups := querytest.NewGroups(t.Context(), s.log, s.now, 1)
	for _, err := range []error{groups.Submit(record.Triggered{Name: "packages", By: markup, MaxLost: 1}, querytest.Chain("a"+markup, "b")...), dispatched(groups), groups.End(1, build.Result{Failed: &record.Failed{Cause: markup + colours, Worker: markup, Output: []string{colours}}})} {
		require.NoError(t, err)
	}
	promoted, err := promotiondefinition.Parse("shop.yaml", []byte("pipeline: shop\npromotion: {policy: single, revision: task.vars.v}\nstages: [{name: dev, environment: dev}, {name: prod, environment: prod, manual: true}]\n"))
	require.NoError(t, err)
	observed := promotions.New(s.log, s.now)
	s.must(observed.Change(t.Context(), "shop", true, func(p *promotion.State) ([]deploylog.Event, error) {
		return p.Propose(promotion.Define{Definition: promoted, ID: s.id(), By: markup}, promotion.Observed{}, s.now())
	}))
	s.must(observed.Change(t.Context(), "shop", false, func(p *promotion.State) ([]deploylog.Event, error) {
		return p.Propose(promotion.StopLine{ID: s.id(), By: markup, Reason: colours}, promotion.Observed{}, s.now())
	}))
	return s
}

// proceed does what a scheduler would do for a pipeline whose stages take no work.
func (s *site) proceed(all *pipelines.Pipelines, name string) {
	for done := false; !done; {
		s.must(all.Change(s.Context(), name, false, func(p *pipeline.State) ([]deploylog.Event, error) {
			for step := range p.Decide(s.now(), pipeline.Can{}) {
				return step.Completed(nil)
			}
			done = true
			return nil, nil
		}))
	}
}

func dispatched(g *querytest.Groups) error {
	_, err := g.Dispatch()
	return err
}

// runEvents are those of a run of two resources, of which one failed.
func runEvents(id string, target deploylog.Target) (events []deploylog.Event) {
	add := func(t deploylog.Target, name string, data map[string]any) {
		text, err := json.Marshal(data)
		if err != nil {
			panic(err)
		}
		events = append(events, deploylog.Event{Deployment: id, Target: t, Name: name, Attempt: 1, Data: text})
	}
	db, web := "db"+markup, "web"
	add(target, "run-started", map[string]any{"resources": map[string]string{db: "deployster/file", web: markup}, "details": map[string]string{"command": "apply", "user": markup, "host": "h", "workspace": markup}})
	add("resource/web", "resource-started", nil)
	add("resource/web", "resource-resolved", map[string]any{"status": "STALE", "actions": []string{"create-file"}, "differs": []string{"~ mode: " + markup, "+ owner: " + colours}})
	add("action/web/create-file", "action-started", map[string]any{"plan": map[string]any{"name": "create-file", "description": "create file index.html with mode 0644", "args": []string{"create-file", markup}}})
	add("action/web/create-file", "action-finished-successfully", map[string]any{"exit_code": 0, "duration_ms": 120.5})
	add("resource/web", "resource-finished-successfully", map[string]any{"status": "CHANGED", "duration_ms": 300})
	add(deploylog.Target("resource/"+db), "resource-started", nil)
	add(deploylog.Target("action/"+db+"/migrate"), "action-started", map[string]any{"plan": map[string]any{"name": "migrate", "description": markup}})
	add(deploylog.Target("action/"+db+"/migrate"), "action-failed", map[string]any{"exit_code": 3, "error": colours, "output": []string{"one", colours, markup}})
	add(deploylog.Target("resource/"+db), "resource-failed", map[string]any{"error": markup})
	add(target, "run-failed", map[string]any{"counts": map[string]int{"changed": 1, "failed": 1}, "duration_ms": 900, "error": markup + colours})
	return events
}

// hostilePaths are the pages that show what has such names.
func hostilePaths() []string {
	name, run := url.PathEscape(markup), url.PathEscape("run-"+markup)
	return []string{
		"/", "/?q=" + url.QueryEscape(markup), "/environments/" + name, "/environments/" + name + "?state=" + name + "&host=" + name, "/environments/" + name + "?host=" + url.QueryEscape("<script>"),
		"/environments/" + name + "?state=all", "/environments/" + name + "/diff?before=1&after=2", "/pipelines/web/diff?after=r2&before=" + url.QueryEscape(markup),
		"/environments/" + name + "/diff?after=9", "/pipelines/web", "/pipelines/shop", "/pipelines/" + name, "/trace", "/trace?revision=r2", "/trace?revision=" + url.QueryEscape(markup) + "&pipeline=" + url.QueryEscape(markup), "/approvals", "/runs", "/runs?target=" + name, "/runs/" + run, "/runs/" + name,
		"/builds", "/builds/packages-1", "/builds/packages-1/1", "/builds/packages-1/2", "/builds/packages-1/" + name, "/builds/" + name, "/log", "/log?target=" + name + "&event=" + name + "&deployment=" + name, "/log?after=0", "/" + name, "/sign-in?next=/" + name,
	}
}

func TestEverythingIsText(t *testing.T) {
	s := hostile(t)
	b := s.signedIn(identity.Admin)
	for _, path := range hostilePaths() {
		code, body := b.open(path)
		assert.True(t, code < http.StatusInternalServerError && strings.Contains(body, "<main"), "%s answers %d\n%s", path, code, body)
		for _, wrong := range []string{"<script>", "<img", "<b>second", "'><", `"><img`} {
			if strings.Contains(body, wrong) {
				i := strings.Index(body, wrong)
				t.Errorf("%s has %s in it: %s", path, wrong, body[max(0, i-80):i+80])
			}
		}
		drives := func(r rune) bool { return unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r) }
		if i := strings.IndexFunc(body, drives); i >= 0 {
			t.Errorf("%s has the character %q in it: %q", path, body[i], body[max(0, i-80):i+20])
		}
	}
	for path, want := range map[string]string{
		"/pipelines/web": "&lt;script&gt;alert(1)&lt;/script&gt;", "/pipelines/shop": "The line is stopped since", "/environments/" + url.PathEscape(markup): "1 waiting",
		"/runs/" + url.PathEscape("run-"+markup): "create file index.html with mode 0644", "/builds/packages-1": "job 1", "/": `<a href="/pipelines/shop">`, "/log?event=run-failed": "red",
		"/environments/" + url.PathEscape(markup) + "/diff?after=2": "web.yaml", "/pipelines/web/diff?after=r2&before=r3": "They do not differ", "/trace?revision=none": "there is no revision",
	} {
		b.shows(http.StatusOK, want, path)
	}
}

// A form approves as the API does: for who may, of a page that they were shown, what they were
// shown.
func TestApprovalsAreGivenByForms(t *testing.T) {
	s := hostile(t)
	all := pipelines.New(s.log, s.now)
	s.must(all.Command(t.Context(), "web", pipeline.ResumePipeline{By: "ada", ID: s.id()}))
	s.proceed(all, "web")
	form := func(b *browser, verdict, revision string, more ...string) url.Values {
		v := url.Values{"form": {b.form("/approvals")}, "pipeline": {"web"}, "stage": {"first"}, "revision": {revision}, "verdict": {verdict}, "reason": {"it is <good>"}}
		for i := 0; i+1 < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	viewer, operator, approver := s.signedIn(identity.Viewer), s.signedIn(identity.Operator), s.signedIn(identity.Approver)
	before := func() int { return len(s.events(deploylog.Filter{Target: "stage/web/first"})) }
	events := before()
	for name, test := range map[string]struct {
		of     *browser
		fields url.Values
		header []string
		code   int
		says   string
	}{
		"a viewer":               {viewer, form(viewer, "approve", "r2"), nil, http.StatusForbidden, "you may not do this"},
		"an operator":            {operator, form(operator, "approve", "r2"), nil, http.StatusForbidden, "you may not do this"},
		"without proof":          {approver, form(approver, "approve", "r2", "form", ""), nil, http.StatusForbidden, "not sent by a page"},
		"proof of another":       {approver, form(approver, "approve", "r2", "form", operator.form("/approvals")), nil, http.StatusForbidden, "not sent by a page"},
		"of another site":        {approver, form(approver, "approve", "r2"), []string{"Origin", "https://elsewhere.example"}, http.StatusForbidden, "not sent by a page"},
		"across sites":           {approver, form(approver, "approve", "r2"), []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden, "not sent by a page"},
		"something else":         {approver, form(approver, "release", "r2"), nil, http.StatusBadRequest, "neither approves nor rejects anything"},
		"what it does not carry": {approver, form(approver, "approve", markup, "carries", "sha256:0a"), nil, http.StatusConflict, "look at it again"},
		"no such revision":       {approver, form(approver, "approve", "r9"), nil, http.StatusNotFound, "r9"},
		"no such pipeline":       {approver, form(approver, "approve", "r2", "pipeline", "../environments/x"), nil, http.StatusNotFound, "no such pipeline"},
		"two lines":              {approver, form(approver, "approve", "r2", "reason", "a\nb"), nil, http.StatusUnprocessableEntity, "one line"},
		"signed out":             {s.browser(), url.Values{"verdict": {"approve"}}, nil, http.StatusUnauthorized, "session has ended"},
	} {
		assert.NotContains(t, test.of.sends(test.code, test.says, "/approvals", test.fields, test.header...), "<good>", name)
	}
	require.Equal(t, events, before(), "events, of which none is by what was refused")
	assert.NotContains(t, viewer.shows(http.StatusOK, "", "/approvals"), "<button class=\"primary\"", "who may not approve has a form for it")
	for _, test := range []struct{ verdict, revision, done, event string }{{"approve", markup, "Approved.", "stage-approved"}, {"reject", "r2", "Rejected.", "stage-rejected"}} {
		s.proceed(all, "web")
		approver.sends(http.StatusOK, test.done, "/approvals", form(approver, test.verdict, test.revision))
		recorded := s.events(deploylog.Filter{Target: "stage/web/first", Name: test.event, Last: 1})
		require.Len(t, recorded, 1)
		assert.Equal(t, test.revision, recorded[0].Revision)
		assert.Contains(t, string(recorded[0].Data), `"token approver"`)
	}
}

// A form accepts or declines what somebody asks to release, as the API does.
func TestReleasesAreAcceptedByForms(t *testing.T) {
	s := newSite(t, querytest.Large(8, 13)...)
	all := pipelines.New(s.log, s.now)
	for _, revision := range []string{"wide", "wider", "mine"} {
		by := map[bool]string{true: "token operator", false: "token ci"}[revision == "mine"]
		s.must(all.Command(t.Context(), "gateway", pipeline.Ask{Release: pipeline.Release{Revision: revision, ID: s.id(), By: by}, Excess: []string{"plug root: asks for path /<b>; allowed: nothing"}}))
	}
	viewer, operator := s.signedIn(identity.Viewer), s.signedIn(identity.Operator)
	body := operator.shows(http.StatusOK, "release of revision wide", "/approvals")
	assert.Contains(t, body, "asked for by token ci, and not released: plug root: asks for path /&lt;b&gt;; allowed: nothing")
	assert.Equal(t, 2, strings.Count(body, `value="accept"`), "they accept what they ask for themselves")
	assert.Equal(t, 3, strings.Count(body, `value="decline"`))
	body = viewer.shows(http.StatusOK, "You may not accept it", "/approvals")
	assert.NotContains(t, body, `value="accept"`)
	contents := regexp.MustCompile(`name="content" value="(sha256:[0-9a-f]{64})"`).FindAllStringSubmatch(operator.shows(http.StatusOK, "", "/approvals"), -1)
	require.Len(t, contents, 3)
	form := func(b *browser, verdict, revision, content string) url.Values {
		return url.Values{"form": {b.form("/approvals")}, "pipeline": {"gateway"}, "revision": {revision}, "content": {content}, "verdict": {verdict}, "reason": {"too wide"}}
	}
	operator.sends(http.StatusConflict, "look at it again", "/approvals", form(operator, "accept", "wide", contents[1][1]))
	viewer.sends(http.StatusForbidden, "you may not do this", "/approvals", form(viewer, "accept", "wide", contents[0][1]))
	operator.sends(http.StatusConflict, "who does not accept it", "/approvals", form(operator, "accept", "mine", contents[2][1]))
	operator.sends(http.StatusOK, "Accepted and released.", "/approvals", form(operator, "accept", "wide", contents[0][1]))
	operator.sends(http.StatusOK, "Declined.", "/approvals", form(operator, "decline", "wider", contents[1][1]))
	for name, revision := range map[string]string{"pipeline-started": "wide", "pipeline-release-declined": "wider"} {
		newest := s.events(deploylog.Filter{Target: "pipeline/gateway", Name: name, Last: 1})
		require.Len(t, newest, 1, name)
		assert.True(t, newest[0].Revision == revision && strings.Contains(string(newest[0].Data), `"token operator"`), "%s: %s %s", name, newest[0].Revision, newest[0].Data)
	}
	body = operator.shows(http.StatusOK, "release of revision mine", "/approvals")
	assert.NotContains(t, body, "revision wide")

	// So they do with revisions of environments.
	envs := environments.New(s.log, s.now)
	d := func(image string) *envdefinition.Definition {
		return &envdefinition.Definition{Name: "site", Type: envdefinition.Daemon, Task: envdefinition.TaskSpec{Manifest: "web.yaml", Vars: map[string]any{"image": image}}, InstanceGroup: envdefinition.InstanceGroup{Query: "name exists"}}
	}
	s.must(envs.Command(t.Context(), "site", environment.Create{Definition: d("web:1"), By: "ada"}))
	s.must(envs.Command(t.Context(), "site", environment.Ask{Update: environment.Update{Base: 1, Definition: d("evil:1"), By: "token ci"}, Excess: []string{"plug root: asks for path /<i>; allowed: nothing"}, ID: s.id()}))
	body = operator.shows(http.StatusOK, "new revision 2", "/approvals")
	assert.Contains(t, body, "asked for by token ci, and not made: plug root: asks for path /&lt;i&gt;; allowed: nothing")
	assert.Contains(t, body, "<code>deployster env diff site 1 2 --all</code>")
	content := regexp.MustCompile(`name="content" value="(sha256:[0-9a-f]{64})"><input type="hidden" name="kind" value="environments">`).FindStringSubmatch(body)
	require.Len(t, content, 2)
	ofSite := func(b *browser, verdict, revision string) url.Values {
		fields := form(b, verdict, revision, content[1])
		fields.Set("pipeline", "site")
		fields.Set("kind", "environments")
		return fields
	}
	viewer.sends(http.StatusForbidden, "you may not do this", "/approvals", ofSite(viewer, "accept", "2"))
	operator.sends(http.StatusUnprocessableEntity, "does not carry its manifest", "/approvals", ofSite(operator, "accept", "2"))
	operator.sends(http.StatusBadRequest, "names no revision", "/approvals", ofSite(operator, "accept", "two"))
	operator.sends(http.StatusOK, "Declined.", "/approvals", ofSite(operator, "decline", "2"))
	assert.Len(t, s.events(deploylog.Filter{Target: "environment/site", Name: "environment-update-declined"}), 1)
	assert.NotContains(t, operator.shows(http.StatusOK, "", "/approvals"), "new revision 2")
	s.mu.Lock()
	s.late += 8 * 24 * time.Hour
	s.mu.Unlock()
	assert.NotContains(t, s.signedIn(identity.Approver).shows(http.StatusOK, "", "/approvals"), "revision mine", "what has expired")
}

var regexpRow = regexp.MustCompile(`<tr data-key="(\d+)">`)

func regexpLink(rel string) *regexp.Regexp { return regexp.MustCompile(`href="([^"]+)" rel="` + rel) }

func TestTheLogIsReadInPages(t *testing.T) {
	s := newSite(t)
	for i := range 30 {
		s.must(s.log.Append(t.Context(), runEvents(fmt.Sprint("run", i), "run/web.yaml")...))
	}
	b := s.signedIn(identity.Viewer)
	head := must.Get(strconv.Atoi(s.head()))(t)
	follow := func(path, rel string) (seen []string) {
		for n := 0; path != ""; n++ {
			require.Less(t, n, 100, "it has no end")
			body := b.shows(http.StatusOK, "", path)
			for _, found := range regexpRow.FindAllStringSubmatch(body, -1) {
				seen = append(seen, found[1])
			}
			path = ""
			if found := regexpLink(rel).FindStringSubmatch(body); found != nil {
				path = strings.ReplaceAll(found[1], "&amp;", "&")
			}
		}
		return seen
	}
	older := follow("/log", "next")
	require.Len(t, older, head)
	assert.Equal(t, s.head()+" 1", older[0]+" "+older[head-1], "the first and the last")
	assert.Len(t, follow("/log?after=0", "prev"), head, "back to the newest")
	assert.Len(t, follow("/log?target=resource/", "next"), len(s.events(deploylog.Filter{Target: "resource/"})), "of a target")
}

var regexpCarries = regexp.MustCompile(`name="carries" value="(sha256:[0-9a-f]{64})"`)

// What comes to a stage because it was observed in the one before is approved, and rejected, by
// the same page: as it was when the page was shown.
func TestWhatIsObservedIsApprovedByAForm(t *testing.T) {
	s := newSite(t)
	d := &promotiondefinition.Definition{Name: "shop", Promotion: promotiondefinition.Promotion{Policy: promotiondefinition.Single, Variable: "version"}, Stages: []promotiondefinition.Stage{
		{Name: "dev", Environment: "dev"}, {Name: "prod", Environment: "prod", Manual: true, Approvals: 2},
	}}
	s.must(promotions.New(s.log, s.now).Change(t.Context(), "shop", true, func(p *promotion.State) ([]deploylog.Event, error) {
		return p.Propose(promotion.Define{Definition: d, ID: s.id()}, promotion.Observed{}, s.now())
	}))
	deploy := func(stage, version string) {
		require.NoError(t, querytest.Deploy(t.Context(), s.log, s.now, stage, version))
	}
	deploy("prod", "old")
	deploy("dev", markup)
	viewer, approver := s.signedIn(identity.Viewer), s.signedIn(identity.Approver)
	form := func(b *browser, verdict, revision, carries string) url.Values {
		return url.Values{"form": {b.form("/approvals")}, "pipeline": {"shop"}, "stage": {"prod"}, "revision": {revision}, "carries": {carries}, "observed": {"true"}, "verdict": {verdict}, "reason": {"seen"}}
	}
	shown := func() string {
		body := approver.shows(http.StatusOK, "", "/approvals")
		m := regexpCarries.FindStringSubmatch(body)
		require.NotNil(t, m, body)
		require.NotContains(t, body, markup)
		return m[1]
	}
	first := shown()
	viewer.sends(http.StatusForbidden, "", "/approvals", form(viewer, "approve", markup, first))
	deploy("dev", "next")
	approver.sends(http.StatusConflict, "what comes to stage prod next is revision next", "/approvals", form(approver, "approve", markup, first))
	deploy("dev", markup)
	approver.sends(http.StatusConflict, "look at it again", "/approvals", form(approver, "approve", markup, first))
	assert.Contains(t, approver.sends(http.StatusOK, "Approved.", "/approvals", form(approver, "approve", markup, shown())), "1 more of 2")
	assert.Contains(t, approver.sends(http.StatusOK, "Rejected.", "/approvals", form(approver, "reject", markup, shown())), "Nothing waits")
	var names []string
	for _, e := range s.events(deploylog.Filter{Target: promotion.StageTarget("shop", "prod")}) {
		names = append(names, e.Name)
	}
	assert.Equal(t, promotion.Approved+" "+promotion.Rejected, strings.Join(names, " "), "the log")
}

// printed is the file of the log of an attempt of a job, whose directory is there.
func (s *site) printed(group string, job, attempt int) string {
	path := filepath.Join(s.workspace, jobs.LogName(group, job, attempt))
	require.NoError(s, os.MkdirAll(filepath.Dir(path), 0o700))
	return path
}

func (s *site) prints(group string, job, attempt int, text string) {
	require.NoError(s, os.WriteFile(s.printed(group, job, attempt), []byte(text), 0o600))
}

// A job has what it printed on its page, as text; of much of it the end, or the beginning.
func TestAJobIsShownWithItsLog(t *testing.T) {
	s := hostile(t)
	b := s.signedIn(identity.Viewer)
	wants := func(path string, wants ...string) {
		for _, want := range wants {
			body := b.shows(http.StatusOK, want, path)
			for _, printed := range []string{"<script>", "<b>second", "\x1b"} {
				assert.NotContains(t, body, printed, "what was printed is text")
			}
		}
	}
	wants("/builds/packages-1/1", "Its log is not here any more", "<dt>worker</dt>")
	wants("/builds/packages-1/2", "never ran", `because job 1 failed, <a href="/builds/packages-1/1">`, `<a href="/builds/packages-1/1">`)
	s.prints("packages-1", 1, 1, "")
	wants("/builds/packages-1/1", "It printed nothing.")
	s.prints("packages-1", 1, 1, markup+"\n"+colours+"\xff\xfe")
	wants("/builds/packages-1/1", "&lt;script&gt;alert(1)", "&lt;b&gt;second&lt;/b&gt; line\ufffd")
	s.prints("packages-1", 1, 1, "it begins\n"+strings.Repeat("a long line of it\n", 20_000)+"it ends\n")
	body := b.shows(http.StatusOK, "it ends", "/builds/packages-1/1")
	assert.False(t, strings.Contains(body, "it begins") || len(body) > 200<<10, "of a long log %d bytes are shown", len(body))
	wants("/builds/packages-1/1?log=beginning", "it begins", "The beginning of 360018 bytes")
	for _, path := range []string{"/builds/packages-1/3", "/builds/packages-1/nothing", "/builds/packages-9/1", "/builds/..%2f..%2f/1"} {
		b.shows(http.StatusNotFound, "", path)
	}
}

func TestWhatIsNoLogIsNotShown(t *testing.T) {
	s := hostile(t)
	b, log := s.signedIn(identity.Viewer), s.printed("packages-1", 1, 1)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("the key of somebody"), 0o600))
	for name, put := range map[string]func() error{
		"a link":      func() error { return os.Symlink(secret, log) },
		"a pipe":      func() error { return syscall.Mkfifo(log, 0o600) },
		"a directory": func() error { return os.Mkdir(log, 0o700) },
	} {
		require.NoError(t, errors.Join(os.RemoveAll(log), put()))
		assert.NotContains(t, b.shows(http.StatusOK, "Its log cannot be read", "/builds/packages-1/1"), "the key", name)
	}
}

// building submits a group of which a job runs.
func (s *site) building() *querytest.Groups {
	g := querytest.NewGroups(s.Context(), s.log, s.now, 1)
	require.NoError(s, errors.Join(g.Submit(record.Triggered{Name: "base", By: "ada", MaxLost: 1}, querytest.Chain("gcc", "curl")...), dispatched(g)))
	return g
}

// A group has its workers with what they build. Of an earlier moment at which a job ran, what
// it has printed since is not shown as if it had been there.
func TestWorkersAreShownWithWhatTheyBuild(t *testing.T) {
	s := newSite(t)
	g := s.building()
	b := s.signedIn(identity.Viewer)
	s.workers = func() (build.Workers, string, error) {
		return func(record.Place) []build.Worker {
			return []build.Worker{{Name: "w1", Slots: 2}, {Name: "w2", Slots: 1}, {Name: "w3", Silent: true}}
		}, "", nil
	}
	_, body := b.open("/builds/base-1")
	for _, want := range []string{
		`<tr data-key="w1"><th scope="row">w1</th>`, `busy</span> <span class="dim">1 of 2 slots`, `<a href="/builds/base-1/1">gcc</a>`,
		`idle</span>`, "no job can begin before others have ended", `offline</span>`, "deployster host check w3",
	} {
		assert.Contains(t, body, want, "is")
	}
	if one, three, two := strings.Index(body, `data-key="w1"`), strings.Index(body, `data-key="w3"`), strings.Index(body, `data-key="w2"`); one > three || three > two {
		t.Error("not those are first who build, and then those who do not answer")
	}
	assert.Contains(t, b.shows(http.StatusOK, "It has printed nothing here yet", "/builds/base-1/1"), "data-again")
	waits := b.shows(http.StatusOK, "never ran", "/builds/base-1/2")
	assert.Contains(t, waits, `class="tag"`)
	assert.NotContains(t, waits, "data-again")
	at := s.events(deploylog.Filter{Target: "job/base-1/1", Last: 1})[0].Seq
	s.prints("base-1", 1, 1, "printed later\n")
	require.NoError(t, g.End(1, querytest.Built(time.Minute)))
	assert.NotContains(t, b.shows(http.StatusOK, "printed later", "/builds/base-1/1"), "data-again")
	assert.NotContains(t, b.shows(http.StatusOK, "is not known", fmt.Sprintf("/builds/base-1/1?at=%d", at)), "printed later")
	assert.NotContains(t, b.shows(http.StatusOK, "", "/builds/base-1"), "busy</span>", "nothing runs")
	assert.NotContains(t, b.shows(http.StatusOK, "busy</span>", fmt.Sprintf("/builds/base-1?at=%d", at)), "idle</span>")
}

func TestAJobLeadsToTheOneWhoseArtifactItHas(t *testing.T) {
	s := newSite(t)
	g := s.building()
	require.NoError(t, g.End(1, build.Result{Finished: &record.Finished{Artifact: "sha256:0a", Reused: "job/base-0/7"}}))
	s.signedIn(identity.Viewer).shows(http.StatusOK, `<a href="/builds/base-0/7">`, "/builds/base-1/1")
}

// showsWhatAJobPrints follows what a job prints, which is in no event.
func (c *chromium) showsWhatAJobPrints() {
	g := c.building()
	c.prints("base-1", 1, 1, "checking for gcc\n")
	c.open("/builds/base-1")
	c.usable("/builds/base-1")
	c.open("/builds/base-1/1")
	c.until(`document.querySelector(".printed")?.innerText.includes("checking for gcc")`)
	c.usable("/builds/base-1/1")
	c.prints("base-1", 1, 1, "checking for gcc\n<b>second</b> line\n"+strings.Repeat("x", 3000))
	c.until(`document.querySelector(".printed").innerText.includes("<b>second</b> line")`)
	c.usable("/builds/base-1/1")
	require.NoError(c, g.End(1, querytest.Built(time.Minute)))
	c.until(`document.querySelector("main .state").innerText.includes("Built") && !("again" in document.getElementById("main").dataset)`)
}

// twoWorkers serve everything.
func twoWorkers() (build.Workers, string, error) {
	return func(record.Place) []build.Worker {
		return []build.Worker{{Name: "w1", Slots: 1}, {Name: "w2", Slots: 1}}
	}, "", nil
}

func (s *site) head() (seq string) {
	return strconv.FormatInt(s.events(deploylog.Filter{Last: 1})[0].Seq, 10)
}

func (s *site) events(f deploylog.Filter) (all []deploylog.Event) {
	for e, err := range s.log.Read(s.Context(), f) {
		require.NoError(s, err)
		all = append(all, e)
	}
	return all
}

func TestAGroupIsShownWithItsForecast(t *testing.T) {
	s := newSite(t)
	workers, none := twoWorkers, errors.New("hosts.yaml:3: a host without a name")
	s.workers = func() (build.Workers, string, error) { return workers() }
	groups := querytest.NewGroups(t.Context(), s.log, s.now, 1)
	b := s.signedIn(identity.Viewer)
	do := func(errs ...error) { require.NoError(t, errors.Join(errs...)) }
	do(groups.Submit(record.Triggered{Name: "packages", MaxLost: 1}, querytest.Chain("a", "b")...), dispatched(groups))
	b.shows(http.StatusOK, "2 jobs left, 2 jobs at once: how long they take is not known yet", "/builds/packages-1")
	do(groups.End(1, querytest.Built(time.Minute)), dispatched(groups), groups.End(2, querytest.Built(time.Minute)))
	assert.NotContains(t, b.shows(http.StatusOK, "", "/builds/packages-1"), "at once")
	do(groups.Submit(record.Triggered{Name: "packages", MaxLost: 1, NoReuse: true}, querytest.Chain("a", "b")...), dispatched(groups))
	body := b.shows(http.StatusOK, "2 jobs left, 2 jobs at once: expected to end at", "/builds/packages-2")
	assert.Contains(t, body, s.now().Add(2*time.Minute).UTC().Format("2006-01-02T15:04"))
	assert.Contains(t, body, `title="in 1m"`)
	assert.NotContains(t, b.shows(http.StatusOK, "", "/builds/packages-2?at="+s.head()), "at once")
	do(groups.End(1, querytest.Built(time.Minute)), dispatched(groups))
	s.later(time.Hour)
	b.shows(http.StatusOK, "expected to have ended by now; what runs takes longer than it did last", "/builds/packages-2")
	workers = func() (build.Workers, string, error) { return nil, "", none }
	assert.NotContains(t, b.shows(http.StatusOK, "it is not known which workers there are: "+none.Error(), "/builds/packages-2"), "at once")
}
