package targets

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// The bounds of what is recorded of a stage.
const (
	mostHosts = 1000
	mostWhy   = 300 // bytes
	mostText  = 200 // bytes of a revision that is read
)

// A stage of which a host does not answer is blocked, and that is to be known soon, however many
// others do not answer either.
const (
	silence  = 20 * time.Second // who has said nothing for so long does not answer
	hostTime = time.Minute      // of all questions to a host
	someHost = 3                // that may be silent at least before the others are not asked
)

// look looks at all hosts of a stage, and at last at those that did not answer before. It returns
// which these are now.
func (o *Observed) look(ctx context.Context, s Stage, before map[string]bool) (seen promotion.Sighting, silent map[string]bool) {
	hosts, err := o.Selected(s.Targets.Hosts)
	resource, _ := s.Targets.Attribute()
	switch {
	case err != nil:
		return promotion.Sighting{Why: short(err.Error())}, nil
	case len(hosts) == 0:
		return promotion.Sighting{Why: fmt.Sprintf("%s selects no host", s.Targets.Hosts)}, nil
	case len(hosts) > mostHosts:
		return promotion.Sighting{Why: fmt.Sprintf("%s selects %d hosts, and at most %d of a stage are observed", s.Targets.Hosts, len(hosts), mostHosts)}, nil
	case resource == "" && len(s.Candidates) == 0:
		return promotion.Sighting{Why: "no revision is known yet that they could run"}, nil
	}
	if resource == "" {
		for _, c := range s.Candidates {
			seen.Asked = append(seen.Asked, c.Revision)
		}
	}
	seen.Hosts = make([]promotion.HostSighting, len(hosts))
	values := make([]any, len(hosts))
	silent = o.lookAt(hosts, before, func(i int) (answers bool) {
		began := o.Now()
		ctx, cancel := context.WithTimeout(ctx, hostTime)
		defer cancel()
		if resource != "" {
			seen.Hosts[i], values[i] = o.read(ctx, s, hosts[i])
		} else {
			seen.Hosts[i], values[i] = o.tell(ctx, s, hosts[i])
		}
		return !seen.Hosts[i].Unknown || o.Now().Sub(began) < silence
	})
	for i, host := range hosts {
		switch {
		case seen.Hosts[i].Host != "":
		case silent[host]:
			seen.Hosts[i] = promotion.HostSighting{Host: host, Unknown: true, Why: "it did not answer, and was not asked again, for others do not answer, either"}
		default:
			seen.Hosts[i] = promotion.HostSighting{Host: host, Unknown: true, Why: "it was not asked yet, for others do not answer"}
		}
	}
	seen.Value = values[0]
	for _, h := range seen.Hosts {
		if h.Unknown || h.Revision != seen.Hosts[0].Revision {
			seen.Value = nil
		}
	}
	return seen, silent
}

// lookAt looks at hosts by their index, some at once, until all were looked at or too many of them
// do not answer. Those that did not before come last, and one that is not asked again stays one of
// them. So it soon looks at the same hosts each time, and at all that answer.
func (o *Observed) lookAt(hosts []string, before map[string]bool, look func(i int) (answers bool)) (silent map[string]bool) {
	silent = map[string]bool{}
	order := make([]int, 0, len(hosts))
	for _, was := range []bool{false, true} {
		for i, host := range hosts {
			if before[host] != was {
				continue
			}
			order = append(order, i)
			if was {
				silent[host] = true
			}
		}
	}
	var mu sync.Mutex
	found := 0
	free := make(chan struct{}, max(o.Parallelism, 1))
	var looking sync.WaitGroup
	for _, i := range order {
		free <- struct{}{}
		mu.Lock()
		enough := found >= max(o.Parallelism, someHost)
		mu.Unlock()
		if enough {
			break
		}
		looking.Go(func() {
			defer func() { <-free }()
			answers := look(i)
			mu.Lock()
			defer mu.Unlock()
			delete(silent, hosts[i])
			if !answers {
				silent[hosts[i]] = true
				found++
			}
		})
	}
	looking.Wait()
	return silent
}

// ask asks a host about a revision, or, with "", whatever the manifest says without one. Each
// that is asked about has a number, so that looks at several are repeated.
func (o *Observed) ask(ctx context.Context, s Stage, host string, number int, c promotion.Candidate, read string) (tasks.ProbeResult, map[string]any) {
	q := s.On(host, c)
	q.Task.Environment, q.Read = fmt.Sprintf("%s:%d", s.Place, number), read
	return o.Engines.ObserveTarget(ctx, q)
}

// On is the question whether a host runs a revision, or, with that of "", whatever the manifest
// says without one.
func (s *Stage) On(host string, c promotion.Candidate) Question {
	vars := map[string]any{}
	switch {
	case c.Revision == "":
	case promotion.TextOf(c.Value) == c.Revision:
		vars[s.Variable] = c.Value
	default:
		vars[s.Variable] = c.Revision
	}
	return Question{Pipeline: s.Pipeline, Stage: s.Name, Task: tasks.Task{Environment: s.Place, Host: host, Spec: definition.TaskSpec{
		Manifest: s.Targets.Manifest, Digest: s.Targets.Files[s.Targets.Manifest], Includes: s.Targets.Files, Vars: vars,
	}}}
}

// tell tells which of the candidates a host runs.
func (o *Observed) tell(ctx context.Context, s Stage, host string) (seen promotion.HostSighting, value any) {
	seen.Host = host
	var runs, others, unknown []string
	for i, c := range s.Candidates {
		if c.Former && len(runs) > 0 {
			continue
		}
		began := o.Now()
		found, _ := o.ask(ctx, s, host, i+1, c, "")
		if found.Health == tasks.Unknown && (ctx.Err() != nil || o.Now().Sub(began) >= silence) {
			seen.Unknown, seen.Why = true, short(fmt.Sprintf("for revision %s: %s", c.Revision, found.Cause()))
			if ctx.Err() != nil {
				seen.Why = fmt.Sprintf("host %s has not answered about all revisions within %s", host, hostTime)
			}
			return seen, nil
		}
		switch found.Health {
		case tasks.Healthy:
			runs, value = append(runs, c.Revision), c.Value
		case tasks.Unknown:
			unknown = append(unknown, fmt.Sprintf("for revision %s: %s", c.Revision, found.Cause()))
		default:
			others = append(others, fmt.Sprintf("for revision %s: %s", c.Revision, found.Cause()))
		}
	}
	switch {
	case len(runs) == 1:
		seen.Revision = runs[0]
		return seen, value
	case len(runs) > 1:
		seen.Unknown = true
		seen.Why = fmt.Sprintf("all resources are VALID for revision %s alike, so the manifest does not tell them apart: it must read the variable %s where the revision shows", strings.Join(runs, " and "), s.Variable)
	case len(unknown) > 0:
		seen.Unknown, seen.Why = true, short(unknown[0])
	default:
		seen.Why = short(strings.Join(others, "; "))
	}
	return seen, nil
}

// read reads which revision a host runs, and asks whether it does.
func (o *Observed) read(ctx context.Context, s Stage, host string) (seen promotion.HostSighting, value any) {
	seen.Host = host
	resource, attribute := s.Targets.Attribute()
	var first promotion.Candidate
	if len(s.Candidates) > 0 {
		first = s.Candidates[0]
	}
	found, state := o.ask(ctx, s, host, 1, first, resource)
	value, has := state[attribute]
	text := promotion.TextOf(value)
	switch {
	case state == nil && found.Health == tasks.Unknown:
		seen.Unknown, seen.Why = true, short(found.Cause())
		return seen, nil
	case state == nil:
		seen.Why = short(resource + " does not exist")
		return seen, nil
	case !has:
		seen.Why = short(fmt.Sprintf("the state of %s has no %s", resource, attribute))
		return seen, nil
	case text == "" || len(text) > mostText || text != phrase.Plain(text):
		seen.Why = short(fmt.Sprintf("%s of %s is no text or number that can be a revision", attribute, resource))
		return seen, nil
	}
	if text != first.Revision {
		found, _ = o.ask(ctx, s, host, 2, promotion.Candidate{Revision: text, Value: value}, resource) //nolint:mnd // the second question
	}
	switch found.Health {
	case tasks.Healthy:
		seen.Revision = text
		return seen, value
	case tasks.Unknown:
		seen.Unknown, seen.Why = true, short(found.Cause())
	default:
		seen.Why = short("revision " + strconv.Quote(text) + " is not as its manifest says: " + found.Cause())
	}
	return seen, nil
}

// short is the beginning of a text, in one line.
func short(text string) string {
	text = strings.Join(strings.Fields(phrase.Plain(strings.ToValidUTF8(text, ""))), " ")
	return phrase.Cut(text, mostWhy)
}
