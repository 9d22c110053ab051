package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/protocol"
)

// twoAtOnce makes two resources at the same time, and removes them so.
func (c *checker) twoAtOnce(ctx context.Context) (verdict, error) {
	fixed, of := c.fixedName()
	switch {
	case c.state.Status == protocol.Valid:
		return skip("no action was run"), nil
	case fixed != "" && c.Second == nil:
		return skip("needs a good configuration of another resource (--second-config): each time %q was written aside to become %s, and if another resource uses that name too, both write into one file when they are made at the same time",
			fixed, of), nil
	case c.Second == nil:
		return skip("needs a good configuration of another resource (--second-config)"), nil
	}
	two := &resource{name: "test-2", config: c.Second}
	w := c.watch()
	v, err := c.actAtOnce(ctx, two, protocol.Present)
	seen := w.stop()
	switch {
	case err != nil || fixed == "":
	case v.outcome == Failed:
		v.detail = fmt.Sprintf("%s; each time %q was written aside: %s", v.detail, fixed, ownName)
	case seen[fixed].times > c.aside[1][fixed].times:
		v = fail("both wrote %q aside: one would take what the other has written; %s", fixed, ownName)
	}
	if !c.init.Removable || err != nil || v.outcome != Passed {
		return v, err
	}
	return c.actAtOnce(ctx, two, protocol.Absent)
}

const ownName = "give what is written aside a name of its own, as mktemp does ($$ is none: it is 1 in every container)"

// actAtOnce brings both resources to what is wanted of them at the same time.
func (c *checker) actAtOnce(ctx context.Context, two *resource, ensure protocol.Ensure) (verdict, error) {
	both := []*resource{c.one, two}
	answers := make([]protocol.StateOutput, len(both))
	for i, r := range both {
		answer, failure, err := c.observeOf(ctx, r, ensure)
		if err != nil || failure != nil {
			return orPass(failure), err
		}
		if answer.Status == protocol.Valid && r == c.one && ensure == protocol.Present {
			answer = c.state // it was not removed: its actions are run again
		}
		if answer.Status == protocol.Valid && r == two {
			return warn("the second resource is VALID already, with \"ensure\": %q; start without it to try two at once", ensure), nil
		}
		answers[i] = answer
	}
	verdicts, errs := make([]verdict, len(both)), make([]error, len(both))
	var all sync.WaitGroup
	for i, r := range both {
		all.Go(func() {
			defer crash.Catch(&errs[i], "running an action")
			verdicts[i], errs[i] = c.actOf(ctx, r, answers[i], ensure)
		})
	}
	all.Wait()
	for i, r := range both {
		if errs[i] != nil || verdicts[i].outcome == Failed {
			verdicts[i].detail = fmt.Sprintf("at the same time as those of another resource, %s: %s; what two resources share needs a lock, or names of their own", r.name, verdicts[i].detail)
			return verdicts[i], errs[i]
		}
	}
	for _, r := range both {
		answer, failure, err := c.observeOf(ctx, r, ensure)
		if err != nil || failure != nil {
			return orPass(failure), err
		}
		if answer.Status != protocol.Valid {
			return fail("after the actions of two resources were run at the same time, the state of %s must be VALID; it is %s: %s; what two resources share needs a lock, or names of their own",
				r.name, describe(answer), received(c.hide(c.answer.stdout))), nil
		}
	}
	return pass(""), nil
}

// actWatched runs actions, and sees what they write aside.
func (c *checker) actWatched(ctx context.Context, answer protocol.StateOutput) (verdict, error) {
	w := c.watch()
	v, err := c.act(ctx, answer, protocol.Present)
	c.aside = append(c.aside, w.stop())
	return v, err
}

// watch watches the directories of plugs.
func (c *checker) watch() *watch {
	var dirs []string
	for path, is := range c.files() {
		if strings.HasPrefix(is, "d") {
			dirs = append(dirs, path)
		}
	}
	return watchDirs(dirs)
}

// renames are files that were renamed or removed, by the path that they had before.
type renames map[string]renamed

type renamed struct {
	times int
	to    string // path; "" is that it was made, and removed
}

// fixedName is a file that was written aside each time that the actions ran, under a name that
// tells nothing of the resource, and what became of it; "" is none.
func (c *checker) fixedName() (path, became string) {
	if len(c.aside) < 2 {
		return "", ""
	}
	telling := []string{c.one.name}
	for _, text := range texts(c.Config) {
		telling = append(telling, filepath.Base(text))
	}
	for _, path := range slices.Sorted(maps.Keys(c.aside[0])) {
		name, to := filepath.Base(path), c.aside[0][path].to
		_, again := c.aside[1][path]
		tells := func(part string) bool { return strings.Contains(name, part) }
		switch {
		case !again || slices.ContainsFunc(telling, tells):
		case to == "" && !strings.Contains(strings.ToLower(name), "lock"):
			return path, "nothing that stays"
		case to != "" && !tells(filepath.Base(to)):
			return path, to
		}
	}
	return "", ""
}

// texts returns all text within v that is long enough to be told from others.
func texts(v any) []string {
	const telling = 3
	var found []string
	switch t := v.(type) {
	case string:
		if len(t) >= telling {
			found = append(found, t)
		}
	case json.Number:
		found = append(found, texts(t.String())...)
	case []any:
		for _, item := range t {
			found = append(found, texts(item)...)
		}
	case map[string]any:
		for _, item := range t {
			found = append(found, texts(item)...)
		}
	}
	return found
}
