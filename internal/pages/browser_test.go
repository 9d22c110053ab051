package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/pipeline"
)

// chromium is a browser with one tab.
type chromium struct {
	testing.TB
	*site
	tab context.Context

	mu   sync.Mutex
	said []string // complaints of the browser, as about what the policy forbids
}

func newChromium(t testing.TB, s *site) *chromium {
	t.Helper()
	program, err := exec.LookPath("chromium")
	require.NoError(t, err, "these tests need the Debian package chromium (make test installs it)")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.Env("TMPDIR="+t.TempDir()), chromedp.WSURLReadTimeout(waittest.Limit), chromedp.DisableGPU)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(waittest.Context(t), options...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // waits for its end
		cancel()
	})
	c := &chromium{TB: t, site: s, tab: tab}
	require.NoError(t, chromedp.Listen(tab, func(event any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Level != log.EntryLevelVerbose {
				c.said = append(c.said, e.Entry.Text+" "+e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			c.said = append(c.said, fmt.Sprint(e.ExceptionDetails))
		}
	}), "starting the browser")
	c.look(1280, "light")
	return c
}

// look sets the size of the window, and whether people want it light or dark.
func (c *chromium) look(width int64, scheme string) {
	_, err := chromedp.Call(c.tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(c, err)
	c.run(chromedp.EmulateViewport(width, 900))
}

func (c *chromium) run(do ...chromedp.Action[chromedp.Void]) {
	require.NoError(c, chromedp.Do(c.tab, do...))
}

func (c *chromium) open(path string) {
	c.run(chromedp.Navigate(c.url+path), chromedp.WaitReady("main"))
}

func value[T any](c *chromium, expression string) T {
	v := must.Get(chromedp.Run(c.tab, chromedp.Evaluate[T](expression)))(c)
	return v
}

func (c *chromium) until(expression string) {
	c.Helper()
	if _, err := chromedp.Run(c.tab, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(5*time.Millisecond), chromedp.WithPollingTimeout(waittest.Limit))); err != nil {
		c.Fatalf("waiting for %s: %v\n%s", expression, err, value[string](c, "document.body?.innerText || String()"))
	}
}

func (c *chromium) press(keys ...string) {
	for _, key := range keys {
		c.run(chromedp.KeyEvent(key))
	}
}

// signIn signs in as somebody does who has a keyboard and no mouse.
func (c *chromium) signIn(role identity.Role) {
	c.open("/")
	c.press(c.token(role), "\r")
	c.run(chromedp.WaitReady(`nav[aria-label="Pages"]`))
}

// usable holds a page against what keyboards, screen readers and narrow screens need.
func (c *chromium) usable(path string) {
	c.Helper()
	found := value[[]string](c, `(() => {
		const wrong = [], all = (q) => [...document.querySelectorAll(q)];
		const named = (e) => (e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") && document.getElementById(e.getAttribute("aria-labelledby"))?.innerText || "").trim();
		if (document.documentElement.lang !== "en") wrong.push("it has no language");
		if (all("h1").length !== 1) wrong.push("it has " + all("h1").length + " headings of the first level");
		if (all("main").length !== 1 || all("header").length !== 1 || all("footer").length !== 1) wrong.push("it lacks a landmark");
		let level = 0;
		for (const h of all("h1, h2, h3, h4")) { const l = Number(h.tagName[1]); if (l > level + 1) wrong.push("after a heading of level " + level + " comes " + h.outerHTML); level = l; }
		for (const e of all("nav, section, [role=region]")) if (!named(e)) wrong.push("without a name: " + e.outerHTML.slice(0, 80));
		for (const e of all("table")) if (!e.caption || !e.caption.innerText && !e.caption.textContent.trim()) wrong.push("a table has no caption: " + e.outerHTML.slice(0, 80));
		for (const e of all("th")) if (!e.scope) wrong.push("a head has no scope: " + e.outerHTML);
		for (const e of all("input:not([type=hidden]), select, textarea")) if (!e.labels.length && !named(e)) wrong.push("a field has no label: " + e.outerHTML);
		for (const e of all("button, a")) if (!e.closest("[aria-hidden=true]") && !(e.innerText || e.textContent).trim() && !named(e)) wrong.push("without a text: " + e.outerHTML);
		for (const e of all("[aria-hidden=true] a, [aria-hidden=true] button")) if (e.tabIndex >= 0) wrong.push("hidden, and in the order of the keyboard: " + e.outerHTML);
		for (const e of all("img")) if (!e.alt) wrong.push("a picture has no text: " + e.outerHTML);
		const ids = all("[id]").map((e) => e.id); for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("there are several " + id);
		return [...new Set(wrong)].slice(0, 10);
	})()`)
	for _, wrong := range found {
		c.Errorf("%s: %s", path, wrong)
	}
	c.look(320, "light")
	if wide := value[int](c, "document.documentElement.scrollWidth"); wide > 320 {
		c.Errorf("%s is %d pixels wide on a screen of 320: %s", path, wide, value[string](c, `[...document.querySelectorAll("main *, header *, footer *")].filter((e) => e.getBoundingClientRect().right > 320 && !e.closest(".scroll, nav, .hidden")).map((e) => e.outerHTML.slice(0, 80)).join("\n")`))
	}
	for _, name := range value[[]string](c, `[...document.querySelectorAll("tbody th")].filter((e) => e.getBoundingClientRect().width > 200).map((e) => e.innerText)`) {
		c.Errorf("%s: on a screen of 320 pixels nothing is seen of its row but %s", path, name)
	}
	for _, scheme := range []string{"light", "dark"} {
		c.look(1280, scheme)
		for _, wrong := range value[[]string](c, contrasts) {
			c.Errorf("%s, %s: %s", path, scheme, wrong)
		}
	}
	c.look(1280, "light")
}

// contrasts finds texts that have too little contrast to what is behind them, by WCAG 2 AA.
const contrasts = `(() => {
	const parts = (c) => { const p = c.match(/[\d.]+/g).map(Number); return { r: p[0], g: p[1], b: p[2], a: p.length > 3 ? p[3] : 1 }; };
	const bright = ({ r, g, b }) => { const l = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c.a > 0.99) return c; } return { r: 255, g: 255, b: 255 }; };
	const wrong = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest(".hidden, .skip, option")) continue;
		const a = bright(parts(getComputedStyle(e).color)), b = bright(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) wrong.add("contrast " + ratio.toFixed(1) + " of " + e.tagName + "." + e.className);
	}
	return [...wrong].slice(0, 10);
})()`

// All that takes a browser, with one browser and one server.
func TestInABrowser(t *testing.T) {
	s := hostile(t, querytest.Large(8, 13)...)
	c := newChromium(t, s)
	c.open("/sign-in")
	c.usable("/sign-in")
	c.signIn(identity.Admin)
	step := func(name string, do func()) {
		t.Run(name, func(t *testing.T) {
			c.TB, s.TB = t, t
			do()
		})
	}
	step("pages are usable", func() {
		all := []string{
			"/", "/pipelines/gateway", "/pipelines/shop", "/approvals", "/runs", "/runs/" + url.PathEscape("run-"+markup), "/builds", "/builds/packages-1", "/builds/packages-1/1", "/builds/packages-1/2", "/log?at=700&target=stage/",
			"/environments/shop%2Fprod", "/environments/" + url.PathEscape(markup) + "/diff?after=2", "/nothing",
		}
		for _, path := range all {
			c.open(path)
			c.usable(path)
		}
	})
	step("a page goes on by itself", c.goesOn)
	step("an approval by keyboard", c.approves)
	step("what a job prints", c.showsWhatAJobPrints)
	step("another moment", c.goesBack)
	step("many hosts", func() { c.showsManyHosts(ringtest.Cases(1000, 10_000)) })
	step("a token that is revoked", c.loses)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, said := range c.said {
		if !strings.Contains(said, "status of 404") && !strings.Contains(said, "status of 401") { // of pages that there are not
			t.Errorf("the browser complains: %s", said)
		}
	}
}

// goesBack shows an earlier moment, by the slider and the keyboard, and the present again.
func (c *chromium) goesBack() {
	c.open("/pipelines/gateway")
	c.run(chromedp.Focus("#time"), chromedp.KeyEvent(kb.Home))
	c.run(chromedp.WaitReady(".past"))
	said := value[string](c, `document.querySelector(".past").innerText + document.querySelector("#time").value`)
	assert.True(c, strings.Contains(said, "right after event 1.") && strings.HasSuffix(said, "1"), "it says %s", said)
	c.run(chromedp.Click(".past a"), chromedp.WaitNotPresent(".past"))
}

// loses has the token of who reads a page revoked: the page goes, and asks to sign in.
func (c *chromium) loses() {
	c.open("/pipelines/gateway")
	must.Get(c.tokens.Revoke(c.Context(), "admin", identity.Revoke{By: "ada"}))(c)
	c.run(chromedp.WaitReady("#token"))
	assert.NotContains(c, value[string](c, "document.body.innerText"), "wave0")
}

// approves approves what waits as somebody does who has a keyboard and no mouse.
func (c *chromium) approves() {
	all := pipelines.New(c.log, c.now)
	c.must(all.Command(c.Context(), "web", pipeline.ResumePipeline{By: "ada", ID: c.id()}))
	c.proceed(all, "web")
	c.open("/approvals")
	c.run(chromedp.Focus(`[data-key^="web/"] input[name=reason]`))
	c.press("reviewed", "\t", "\r")
	c.run(chromedp.WaitReady(`main p[role=status]`))
	assert.Equal(c, "Approved.", value[string](c, `document.querySelector("main p[role=status]").innerText`))
	e, ok, err := c.log.Latest(c.Context(), "stage/web/first", deploylog.Succeeded)
	assert.True(c, err == nil && !ok, "the stage is done by itself: %v %v", e, err)
	approved := c.events(deploylog.Filter{Target: "stage/web/first", Name: "stage-approved"})
	require.Len(c, approved, 1)
	assert.Equal(c, markup, approved[0].Revision)
	assert.Contains(c, string(approved[0].Data), "reviewed")
}

// showsManyHosts shows a rollout to so many hosts, which goes on.
func (c *chromium) showsManyHosts(n int) {
	all := environments.New(c.log, c.now)
	var hosts []string
	for i := range n {
		hosts = append(hosts, fmt.Sprintf("web-%05d.example", i))
	}
	d := &definition.Definition{
		Name: "large", Type: definition.Daemon, Task: definition.TaskSpec{Manifest: "web.yaml"}, InstanceGroup: definition.InstanceGroup{Query: "attribute:stack == large"},
		Deployment: definition.Configuration{Method: definition.Replace, Drift: definition.RepairDrift, HealthyDeadline: definition.Duration(time.Hour), ProgressDeadline: definition.Duration(time.Hour)},
	}
	c.must(all.Command(c.Context(), "large", environment.Create{Definition: d, By: "ada"}, hosts...))
	c.must(all.Command(c.Context(), "large", environment.Deploy{Revision: 1, Hosts: hosts, By: "ada"}))
	roll := func(most int) {
		var steps []tasks.Step
		c.must(all.Change(c.Context(), "large", false, func(s *environment.State) (events []deploylog.Event, err error) {
			for step := range s.Decide(c.now(), environment.Can{Disrupt: true}) {
				if steps, events = append(steps, step), append(events, step.Events...); len(steps) == most {
					break
				}
			}
			return events, nil
		}))
		c.must(all.Change(c.Context(), "large", false, func(s *environment.State) (events []deploylog.Event, err error) {
			for i, step := range steps {
				switch {
				case step.Kind == tasks.Record, i%10 == 1: // which goes on
				case i%50 == 2:
					events = append(events, s.Completed(step, tasks.ProbeResult{}, errors.New("exit code 1"))...)
				default:
					events = append(events, s.Completed(step, tasks.ProbeResult{Health: tasks.Healthy}, nil)...)
				}
			}
			return events, nil
		}))
	}
	roll(n / 10)
	began := time.Now()
	c.open("/environments/large")
	took := time.Since(began)
	c.until(`performance.getEntriesByName("first-contentful-paint").length > 0`)
	paint := value[float64](c, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
	require.Equal(c, n, value[int](c, `document.querySelectorAll("#grid .cell").length`), "hosts are shown, of")
	c.usable("/environments/large")
	var updates, asked []float64
	for range 5 {
		before := value[string](c, `document.getElementById("grid").dataset.codes`)
		roll(50)
		c.until(`Number(document.getElementById("main")?.dataset.head) >= ` + c.head())
		after := value[string](c, `document.getElementById("grid").dataset.codes`)
		require.True(c, after != before && len(after) == n, "nothing has changed of %d hosts", len(after))
		if wrong := value[int](c, `[...document.querySelectorAll("#grid .cell")].filter((e, i) => e.className !== "cell " + document.getElementById("grid").dataset.codes[i]).length`); wrong != 0 {
			c.Errorf("%d cells are not as the hosts are", wrong)
		}
		updates, asked = append(updates, value[float64](c, `Number(document.getElementById("main").dataset.took)`)), append(asked, value[float64](c, `Number(document.getElementById("main").dataset.asked)`))
	}
	c.Logf("%d hosts: first paint after %.0f ms, loaded after %s; updates took the page %.1f ms, with the server %.1f ms", n, paint, took, updates, asked)
	c.run(chromedp.Click("#grid .cell:nth-child(3)"), chromedp.WaitReady(`#host[value="web-00002.example"]`))
}

// goesOn has something new happen while a page is shown: it is shown, and who reads the page
// stays where they are.
func (c *chromium) goesOn() {
	c.open("/")
	c.run(chromedp.Focus("#q"))
	c.press("shop")
	c.must(c.log.Append(c.Context(), deploylog.Event{Deployment: "new", Target: "environment/shop/new", Name: "environment-created", Attempt: 1, Data: json.RawMessage(`{}`)}))
	c.until("Number(document.getElementById('main')?.dataset.head) >= " + c.head())
	assert.Equal(c, "q shop", value[string](c, `document.activeElement.id + " " + document.activeElement.value`), "what has the focus")
}
