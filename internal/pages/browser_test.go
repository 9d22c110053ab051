package pages_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

var pictures = flag.String("pictures", "", "directory for pictures of all pages, for who wants to look at them")

// chromium is a browser with one tab.
type chromium struct {
	testing.TB
	*site
	tab context.Context

	mu   sync.Mutex
	said []string // complaints of the browser, as about what the policy forbids
}

// minutes is how long is waited for what comes in any case.
const minutes = 2 * time.Minute

func newChromium(t testing.TB, s *site) *chromium {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("these tests need the Debian package chromium (make test installs it): %v", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(minutes), chromedp.DisableGPU)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(t.Context(), minutes)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // waits for its end
		cancel()
	})
	c := &chromium{TB: t, site: s, tab: tab}
	if err := chromedp.Listen(tab, func(event any) {
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
	}); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	c.look(1280, "light")
	return c
}

// look sets the size of the window, and whether people want it light or dark.
func (c *chromium) look(width int64, scheme string) {
	c.TB.Helper()
	_, err := chromedp.Call(c.tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		c.TB.Fatal(err)
	}
	c.run(chromedp.EmulateViewport(width, 900))
}

func (c *chromium) run(do ...chromedp.Action[chromedp.Void]) {
	c.TB.Helper()
	if err := chromedp.Do(c.tab, do...); err != nil {
		c.TB.Fatal(err)
	}
}

func (c *chromium) open(path string) {
	c.TB.Helper()
	c.run(chromedp.Navigate(c.url+path), chromedp.WaitReady("main"))
}

// value is that of an expression.
func value[T any](c *chromium, expression string) T {
	c.TB.Helper()
	v, err := chromedp.Run(c.tab, chromedp.Evaluate[T](expression))
	if err != nil {
		c.TB.Fatal(err)
	}
	return v
}

// until waits for an expression to become true.
func (c *chromium) until(expression string) {
	c.TB.Helper()
	if _, err := chromedp.Run(c.tab, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(5*time.Millisecond), chromedp.WithPollingTimeout(minutes))); err != nil {
		c.TB.Fatalf("waiting for %s: %v\n%s", expression, err, value[string](c, "document.body?.innerText || String()"))
	}
}

// press presses keys, one after the other.
func (c *chromium) press(keys ...string) {
	c.TB.Helper()
	for _, key := range keys {
		c.run(chromedp.KeyEvent(key))
	}
}

// signIn signs in as somebody does who has a keyboard and no mouse.
func (c *chromium) signIn(role identity.Role) {
	c.TB.Helper()
	c.open("/")
	c.press(c.token(role), "\r")
	c.run(chromedp.WaitReady(`nav[aria-label="Pages"]`))
}

// picture takes one for who wants to look at it: light, dark and narrow.
func (c *chromium) picture(name string) {
	c.TB.Helper()
	if *pictures == "" {
		return
	}
	for _, look := range []struct {
		name, scheme string
		width        int64
	}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"narrow", "light", 380}} {
		c.look(look.width, look.scheme)
		picture, err := chromedp.Run(c.tab, chromedp.CaptureScreenshot())
		if err != nil {
			c.TB.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*pictures, name+"-"+look.name+".png"), picture, 0o600); err != nil {
			c.TB.Fatal(err)
		}
	}
	c.look(1280, "light")
}

// usable holds a page against what keyboards, screen readers and narrow screens need.
func (c *chromium) usable(path string) {
	c.TB.Helper()
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
		c.TB.Errorf("%s: %s", path, wrong)
	}
	c.look(320, "light")
	if wide := value[int](c, "document.documentElement.scrollWidth"); wide > 320 {
		c.TB.Errorf("%s is %d pixels wide on a screen of 320: %s", path, wide, value[string](c, `[...document.querySelectorAll("main *, header *, footer *")].filter((e) => e.getBoundingClientRect().right > 320 && !e.closest(".scroll, nav, .hidden")).map((e) => e.outerHTML.slice(0, 80)).join("\n")`))
	}
	for _, scheme := range []string{"light", "dark"} {
		c.look(1280, scheme)
		for _, wrong := range value[[]string](c, contrasts) {
			c.TB.Errorf("%s, %s: %s", path, scheme, wrong)
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
	s := newSite(t, querytest.Large(8, 13)...)
	c := newChromium(t, s)
	for _, path := range []string{"/sign-in"} {
		c.open(path)
		c.usable(path)
		c.picture("sign-in")
	}
	c.signIn(identity.Admin)
	t.Run("pages are usable", func(t *testing.T) {
		for i, path := range paths {
			c.open(path)
			c.usable(path)
			c.picture(fmt.Sprintf("%02d%s", i, strings.NewReplacer("/", "-", "?", "-", "%", "").Replace(path)))
		}
	})
	t.Run("a page goes on by itself", func(t *testing.T) { c.goesOn() })
	if len(c.said) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(c.said, "\n"))
	}
}

// goesOn has something new happen while a page is shown: it is shown, and who reads the page
// stays where they are.
func (c *chromium) goesOn() {
	c.open("/")
	c.run(chromedp.Focus("#q"))
	c.press("shop")
	c.append(deploylog.Event{Deployment: "new", Target: "environment/shop/new", Name: "environment-created", Attempt: 1, Data: json.RawMessage(`{}`)})
	c.until(fmt.Sprintf("Number(document.getElementById('main')?.dataset.head) >= %d", c.head()))
	if got := value[string](c, `document.activeElement.id + " " + document.activeElement.value`); got != "q shop" {
		c.TB.Errorf("what has the focus is %s", got)
	}
}

func (c *chromium) append(events ...deploylog.Event) {
	c.TB.Helper()
	if _, err := c.log.Append(c.TB.Context(), events...); err != nil {
		c.TB.Fatal(err)
	}
}

func (c *chromium) head() (head int64) {
	c.TB.Helper()
	for e, err := range c.log.Read(c.TB.Context(), deploylog.Filter{Last: 1}) {
		if err != nil {
			c.TB.Fatal(err)
		}
		head = e.Seq
	}
	return head
}
