package env

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/view"
)

// patience is how often somebody who waits is told why, where that is not told already.
const patience = 3 * time.Second

// tellWhy says why what is waited for on some hosts does not come, each time that is
// something else, until ctx ends. Without it a wait for what never comes says nothing.
func (f *follower) tellWhy(ctx context.Context) {
	said := map[string]bool{}
	for {
		select {
		case <-time.After(patience):
		case <-ctx.Done():
			return
		}
		now := map[string]bool{}
		for _, text := range f.waitsFor() {
			if now[text] = true; !said[text] {
				f.screen.Notice(text)
			}
		}
		said = now
	}
}

// tellPromotion says, once of each step, that the deployment waits after it for a person, and
// what lets it go on.
func (f *follower) tellPromotion() {
	s := f.Report.Step
	if s == nil || f.Over || !s.Promote && !s.Until.After(f.app.Now()) || s.Seq == f.promotable {
		return
	}
	f.promotable = s.Seq
	text := fmt.Sprintf("step %d of %d is done", s.Number, s.Of)
	switch {
	case !s.Promote:
		text += ": the deployment goes on at " + phrase.Moment(s.Until) + ", at once by"
	case s.Verify != "" && !s.Verified:
		text = fmt.Sprintf("step %d of %d could not be verified: the deployment goes on all the same by", s.Number, s.Of)
	default:
		text += ": the deployment waits for somebody to let it go on by"
	}
	f.screen.Notice(view.Clean(text + " deployster env promote " + f.name))
}

// waitsFor is why nothing happens on the hosts that are waited for, and what would help.
func (f *follower) waitsFor() (texts []string) {
	reasons, err := f.environments.Explain(record.Target(f.name), f.inventory, true)
	if err != nil {
		return nil // the wait itself fails of that
	}
	now, err := f.environments.Status(f.name)
	if err != nil {
		return nil
	}
	left := withTasks(now[0], f.hosts) // on others nothing is waited for any more
	hosts := map[string][]string{}     // by text
	for _, r := range reasons {
		text := fmt.Sprintf("%s; what helps: %s", r.Message, r.Change)
		switch host, ours := waitedFor(r.Target, left); {
		case ours && r.Code != reason.Ready && r.Code != reason.InProgress:
			if hosts[text] = append(hosts[text], host); len(hosts[text]) == 1 {
				texts = append(texts, text)
			}
		case r.Code == reason.NoController, r.Code == reason.SilentController, r.Code == reason.ForeignInventory:
			texts = append(texts, text)
		}
	}
	for i, text := range texts {
		if on := hosts[text]; len(on) > 0 {
			text = phrase.First(on, mostNamed) + ": " + text
		}
		texts[i] = view.Clean(text)
	}
	return texts
}

// waitedFor is the host of the target of a task, where that is one of some.
func waitedFor(target string, hosts []string) (host string, ours bool) {
	for _, host := range hosts {
		if strings.HasPrefix(target, "task/") && strings.HasSuffix(target, "/"+host) {
			return host, true
		}
	}
	return "", false
}
