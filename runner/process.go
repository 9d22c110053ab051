package runner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/protocol"
)

// process is a container that answers many calls: a line of JSON on its stdin
// for each, and at least one on its stdout. Whatever it says or does that it
// may not is its end, and that of the calls in flight.
type process struct {
	what   string // names it in errors
	runner *Runner
	stdin  *feed
	kill   func(error)
	ended  chan struct{} // closed once the container is gone

	stderr *lines // of the process itself; calls have their own
	said   tail
	kept   transcript

	mu        sync.Mutex
	open      map[int64]*request // that it has not answered
	last      int64              // id
	line      []byte             // of its stdout, begun and not ended
	heard     bool
	stillborn bool        // it ended before it said anything, in a way that was not its own
	closing   bool        // its stdin is closed
	failure   error       // what it did wrong, or why it was killed
	spent     error       // why it is asked no more, and may only finish what acts
	idle      *time.Timer // to its closing
	forced    *time.Timer // to its kill, from when it was closed and nothing acts
}

// request is a call in flight.
type request struct {
	*calling       // nil once it was abandoned
	at       int64 // where in stdin it begins
	ended    chan struct{}
	exit     engine.Exit
	blamed   bool // the process was killed for its sake
	unasked  bool // the process has not seen it, or never came to life: err is why, and it can be made elsewhere
	err      error
}

// errClosing refuses a request because the process is about to end as it should.
var errClosing = errors.New("the process is about to end")

func newProcess(what string, r *Runner, kept string) *process {
	p := &process{what: what, runner: r, stdin: newFeed(), ended: make(chan struct{}), open: map[int64]*request{}}
	p.kept.path = kept
	p.stderr = &lines{secrets: &r.secrets, each: func(line string) {
		p.said.add("stderr", line)
		p.kept.write(line + "\n")
	}}
	p.idle = time.AfterFunc(idleAfter, p.closeIdle)
	return p
}

// send asks the process. It fails with errClosing, or because the process is
// broken.
func (p *process) send(q *request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failure != nil:
		return p.failure
	case p.spent != nil:
		return p.spent
	case p.closing:
		return errClosing
	}
	line, err := json.Marshal(protocol.ServeRequest{
		ID: p.last + 1, Action: cmp.Or(q.asked, q.action), Args: q.invocation.Args, Input: json.RawMessage(q.stdin),
	})
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	p.idle.Stop()
	p.last++
	p.open[p.last] = q
	q.at = p.stdin.add(append(line, '\n'))
	return nil
}

// giveUp kills the process for the sake of a request, unless that is answered
// by now. What only observes is not worth an action of another resource, which
// must be let finish: while there is one, the request is abandoned, and the
// process asked no more.
func (p *process) giveUp(q *request, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case q.over():
	case q.answers && p.acting():
		why = fmt.Errorf("%s %w", p.what, why)
		if p.spent == nil {
			p.spent = why
		}
		q.abandon(why)
		p.end()
	default:
		q.blamed = true
		p.fail(why)
	}
}

// abandon lets go of a request, unless that is answered by now.
func (p *process) abandon(q *request, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !q.over() {
		q.abandon(why)
	}
}

// over tells whether nobody waits for the request any longer.
func (q *request) over() bool {
	select {
	case <-q.ended:
		return true
	default:
		return false
	}
}

// abandon ends an open request; its answer is dropped when it comes.
func (q *request) abandon(why error) {
	q.calling, q.err = nil, why
	close(q.ended)
}

// close lets the process end: it finishes what it was asked and exits, or is
// killed soon after its last action.
func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

func (p *process) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 {
		p.end()
	}
}

// end is close; p.mu is held.
func (p *process) end() {
	if p.closing || p.failure != nil {
		return
	}
	p.closing = true
	p.idle.Stop()
	p.stdin.close()
	p.force()
}

// force has a closed process killed soon, unless it acts; p.mu is held.
func (p *process) force() {
	if p.closing && p.forced == nil && !p.acting() {
		p.forced = time.AfterFunc(grace, p.overdue)
	}
}

// overdue kills a closed process, unless it went on to an action that it had
// not read before.
func (p *process) overdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acting() {
		p.forced = nil
		return
	}
	if p.failure == nil {
		p.failure = p.spent
	}
	p.kill(cmp.Or(p.failure, errClosing))
}

// fail breaks the process; p.mu is held.
func (p *process) fail(why error) {
	if p.failure == nil {
		p.failure = fmt.Errorf("%s %w", p.what, why)
		p.kill(p.failure)
	}
}

// Write takes what the process writes on its stdout.
func (p *process) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = true
	for rest := data; len(rest) > 0 && p.failure == nil; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if len(p.line)+len(line) > maxAnswer {
			begins := p.runner.secrets.mask(string(append(p.line, line...)[:maxAnswer])) // whole, since a part of a secret is not known for one
			p.fail(fmt.Errorf("printed a line of more than %d MiB, which begins with %.100q", maxAnswer>>20, begins))
			break
		}
		if !whole || len(p.line) > 0 {
			p.line = append(p.line, line...)
			line = p.line
		}
		if !whole {
			break
		}
		if p.line = p.line[:0]; cap(p.line) > maxLine {
			p.line = nil
		}
		if err := p.take(line); err != nil {
			p.fail(err)
		}
	}
	if p.failure != nil {
		return 0, p.failure
	}
	return len(data), nil
}

// take takes one line; p.mu is held. After a panic nothing is known of what the
// line was about, so that is the end of the process, too.
func (p *process) take(line []byte) error {
	err := p.runner.try("taking an answer", func() error { return p.answer(line) })
	if errors.As(err, new(*crash.Error)) {
		return fmt.Errorf("answered what could not be taken: %w", err)
	}
	return err
}

// answer is take without a guard.
func (p *process) answer(line []byte) error {
	a, err := protocol.DecodeServeAnswer(line)
	if err != nil {
		return fmt.Errorf("printed what is no answer: %w", p.runner.secrets.unsecret(err, line, func(text []byte) error {
			_, err := protocol.DecodeServeAnswer(text)
			return err
		}))
	}
	q, open := p.open[a.ID]
	switch {
	case a.ID > p.last:
		return fmt.Errorf("answered request %d, which it was not asked", a.ID)
	case !open:
		return fmt.Errorf("answered request %d twice", a.ID)
	}
	if q.calling != nil {
		if err := q.say(a); err != nil {
			return fmt.Errorf("answered %s of %s with %w", q.action, q.resource, err)
		}
	}
	if a.Exit == nil {
		return nil
	}
	delete(p.open, a.ID)
	if q.calling != nil {
		q.exit.Code = *a.Exit
		close(q.ended)
	}
	p.force()
	if len(p.open) == 0 && !p.closing {
		p.idle.Reset(idleAfter)
	}
	return nil
}

// say hands on what an answer says, as a container would have said it.
func (i *calling) say(a protocol.ServeAnswer) error {
	said := []byte(a.Output)
	var text string
	isText := json.Unmarshal(a.Output, &text) == nil
	switch {
	case a.Output == nil:
	case i.answers && a.Exit == nil:
		return errors.New("an output before its exit, to which the one document belongs")
	case !i.answers && !isText:
		return errors.New("an output that is no string, as text for people must be")
	case isText && (!i.answers || *a.Exit != 0):
		said = []byte(text)
	}
	if _, err := i.stdout.Write(said); err != nil {
		return err
	}
	_, err := io.WriteString(i.stderr, a.Stderr)
	return err
}

// over is told how the container ended. Whatever panics here, nobody waits for
// the process any longer.
func (p *process) over(exit engine.Exit, err error) {
	p.stdin.close()
	err = errors.Join(err, p.runner.try("keeping what it said", func() error {
		p.stderr.flush()
		_ = p.kept.close() // what is kept of it is of help, and nothing is lost without
		return nil
	}))
	p.mu.Lock()
	defer p.mu.Unlock()
	failure := fmt.Errorf("%s ended, and it is not known how", p.what)
	defer func() { p.release(failure) }()
	p.idle.Stop()
	if p.forced != nil {
		p.forced.Stop()
	}
	if line := p.line; len(line) > 0 && p.failure == nil {
		p.line = nil
		if err := p.take(line); err != nil && !p.closing {
			p.fail(err)
		}
	}
	switch {
	case p.failure != nil:
	case p.closing && !p.awaited():
	case err != nil:
		p.stillborn = !p.heard
		p.fail(fmt.Errorf("can not be run: %w", err))
	default:
		p.fail(errors.New(exitText(exit)))
	}
	failure = p.failure
	if said := p.said.excerpt(); said != "" && failure != nil {
		failure = fmt.Errorf("%w; the last it said is:\n%s", failure, said)
	}
}

// release ends the requests that are still open, and tells that the process has
// ended; p.mu is held.
func (p *process) release(failure error) {
	for _, q := range p.open {
		if q.calling == nil {
			continue
		}
		q.unasked = !q.blamed && (p.stdin.unread(q.at) || p.stillborn && q.answers)
		q.err = failure
		close(q.ended)
	}
	clear(p.open)
	close(p.ended)
}

// acting tells whether an action may have begun that is not over; p.mu is held.
func (p *process) acting() bool {
	for _, q := range p.open {
		if q.calling != nil && !q.answers && !p.stdin.unread(q.at) {
			return true
		}
	}
	return false
}

// awaited tells whether anybody waits for an answer; p.mu is held.
func (p *process) awaited() bool {
	for _, q := range p.open {
		if q.calling != nil {
			return true
		}
	}
	return false
}
