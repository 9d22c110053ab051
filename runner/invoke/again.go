package invoke

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/deployster-go/deployster/engine"
)

// Asked is a question that a process of a Reserve has answered, and that can be asked again
// without the run that asked it first. It keeps the input and a hash of the answer: questions of
// one type with the same plugs share the rest. The zero value is none.
type Asked struct {
	of     *origin
	input  []byte
	answer [sha256.Size]byte
	said   lineOf // that had the answer
}

// origin is what questions of one type with the same plugs have in common.
type origin struct {
	key   string   // of the processes that answer them
	paths []string // that these see; none on another machine
	call  Call     // without input
	what  string   // names the type in errors
}

// Some reports whether there is a question.
func (a Asked) Some() bool { return a.of != nil }

// Bytes is about how many bytes a question takes.
func (a Asked) Bytes() int { return len(a.input) + 2*sha256.Size + 64 }

// asked is a question that was answered just now by a process that may be kept, by which it can
// be asked again; none where what was said besides its answer counts, too.
func (s *server) asked(c *pendingCall, answer []byte) Asked {
	v := s.invoker
	r := v.containers.Reserve
	if r == nil || !c.Answers || s.action.Image != "" || !v.secrets.none() {
		return Asked{}
	}
	given, err := s.given(s.image)
	if err != nil {
		return Asked{}
	}
	of := origin{key: given.key, call: Call{Action: c.Action, TypeAction: c.TypeAction, Attempt: c.Attempt, Invocation: c.Invocation, Answers: true}, what: strings.Join(v.served(s), ", ")}
	if !v.containers.Remote {
		of.paths = s.seen()
	}
	return Asked{of: r.origin(of), input: c.stdin, answer: sha256.Sum256(answer), said: c.said}
}

// origin returns the one of all that are equal.
func (r *Reserve) origin(o origin) *origin {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("%s %q %q", o.key, o.call.Action, o.call.Invocation.Args)
	if known := r.origins[key]; known != nil {
		return known
	}
	if len(r.origins) >= mostOrigins {
		clear(r.origins) // those that are in use stay with their questions
	}
	r.origins[key] = &o
	return &o
}

// mostOrigins bounds how many origins a Reserve knows.
const mostOrigins = 10_000

// Again asks questions again, all of one origin at once, and reports which of them are answered as
// before. It starts no process: a question for which none is kept counts as answered differently.
func (r *Reserve) Again(ctx context.Context, now time.Time, all []Asked) (same []bool) {
	same = make([]bool, len(all))
	together := map[*origin][]int{}
	for i, a := range all {
		if a.Some() {
			together[a.of] = append(together[a.of], i)
		}
	}
	for of, some := range together {
		r.ask(ctx, now, of, all, some, same)
	}
	return same
}

// ask asks those of some questions that have an origin.
func (r *Reserve) ask(ctx context.Context, now time.Time, of *origin, all []Asked, some []int, same []bool) {
	var view engine.View
	if len(of.paths) > 0 {
		var err error
		if view, err = r.views.Of(of.paths); err != nil {
			return
		}
	}
	secrets := &Secrets{} // there are none
	p := r.take(given{of.key, view}, &Invoker{secrets: secrets, panics: NewPanics(secrets, r.crashed)}, "")
	if p == nil {
		return
	}
	defer func() {
		if !r.put(p, now) {
			p.close()
		}
	}()
	open := make([]*request, 0, len(some))
	answers := make([]answer, len(some))
	for n, i := range some {
		q := &request{ended: make(chan struct{}), expected: all[i].said, pendingCall: &pendingCall{
			Call: of.call, resource: of.what, stdin: all[i].input, stdout: &answers[n], stderr: io.Discard,
		}}
		if p.send(q) != nil {
			break
		}
		open = append(open, q)
	}
	for n, q := range open {
		select {
		case <-q.ended:
		case <-ctx.Done():
			p.cancel(q, fmt.Errorf("was killed: %w", context.Cause(ctx)))
			<-q.ended
		}
		at := some[n]
		same[at] = q.err == nil && q.exit.Code == 0 && (q.said != lineOf{} && q.said == q.expected || sha256.Sum256(answers[n].Bytes()) == all[at].answer)
	}
}
