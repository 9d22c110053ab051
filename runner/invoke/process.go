package invoke

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
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
	what  string      // names it in errors
	home  *Invoker    // runs its container
	view  engine.View // what its mounts led to when it was started
	work  string      // its work directory; "" is none on this machine
	stdin *stdinQueue
	kill  func(error)
	ended chan struct{} // closed once the container is gone
	gone  func()        // called after that

	mu         sync.Mutex
	invoker    *Invoker // of the run that has it, home while none has
	stderr     *lines   // of the process itself, nil while no run has it; calls have their own
	tail       Tail
	transcript transcript

	open      map[int64]*request // that it has not answered
	last      int64              // id
	line      []byte             // of its stdout, begun and not ended
	responded bool               // it printed something
	failed    bool               // an answer of it had another exit than 0
	neverRan  bool               // it ended before it printed anything, in a way that was not its own
	closing   bool               // its stdin is closed
	failure   error              // what it did wrong, or why it was killed
	retired   error              // why it is sent nothing more, and may only finish what acts
	idleTimer *time.Timer        // to its closing
	killTimer *time.Timer        // to its kill, from when it was closed and nothing acts
}

// request is a call in flight.
type request struct {
	*pendingCall        // nil once it was abandoned
	offset       int64  // where in stdin it begins
	said         lineOf // the line that answered it
	parts        bool   // it was answered in more than one
	expected     lineOf // a line that answers it like this one need not be understood again; zero: none
	ended        chan struct{}
	exit         engine.Exit
	canceled     bool // the process was killed for its sake
	notSent      bool // the process has not seen it, or never came to life: err is why, and it can be made elsewhere
	err          error
}

// errClosing refuses a request because the process is about to end as it should.
var errClosing = errors.New("the process is about to end")

func newProcess(what string, home *Invoker) *process {
	p := &process{what: what, home: home, invoker: home, stdin: newStdinQueue(), ended: make(chan struct{}), gone: func() {}, open: map[int64]*request{}}
	p.idleTimer = time.AfterFunc(idleTimeout, p.closeIdle)
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
	case p.retired != nil:
		return p.retired
	case p.closing:
		return errClosing
	}
	line, err := json.Marshal(protocol.ServeRequest{
		ID: p.last + 1, Action: cmp.Or(q.TypeAction, q.Action), Args: q.Invocation.Args, Input: json.RawMessage(q.stdin),
	})
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	p.idleTimer.Stop()
	p.last++
	p.open[p.last] = q
	q.offset = p.stdin.put(append(line, '\n'))
	return nil
}

// cancel kills the process for the sake of a request, unless that is answered
// by now. What only observes is not worth an action of another resource, which
// must be let finish: while there is one, the request is abandoned, and the
// process asked no more.
func (p *process) cancel(q *request, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case q.done():
	case q.Answers && p.acting():
		why = fmt.Errorf("%s %w", p.what, why)
		if p.retired == nil {
			p.retired = why
		}
		q.abandon(why)
		p.end()
	default:
		q.canceled = true
		p.fail(why)
	}
}

// abandon lets go of a request, unless that is answered by now.
func (p *process) abandon(q *request, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !q.done() {
		q.abandon(why)
	}
}

// done reports whether nobody waits for the request any longer.
func (q *request) done() bool {
	select {
	case <-q.ended:
		return true
	default:
		return false
	}
}

// abandon ends an open request; its answer is dropped when it comes.
func (q *request) abandon(why error) {
	q.pendingCall, q.err = nil, why
	close(q.ended)
}

// close lets the process end: it finishes what it was asked and exits, or is
// killed soon after its last action.
func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

// wait returns when the process has ended, which it is made to when ctx is done.
func (p *process) wait(ctx context.Context) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.kill(context.Cause(ctx))
		<-p.ended
	}
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
	p.idleTimer.Stop()
	p.stdin.close()
	p.scheduleKill()
}

// scheduleKill has a closed process killed soon, unless it acts; p.mu is held.
func (p *process) scheduleKill() {
	if p.closing && p.killTimer == nil && !p.acting() {
		p.killTimer = time.AfterFunc(gracePeriod, p.killOverdue)
	}
}

// killOverdue kills a closed process, unless it went on to an action that it had
// not read before.
func (p *process) killOverdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acting() {
		p.killTimer = nil
		return
	}
	if p.failure == nil {
		p.failure = p.retired
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
	p.responded = true
	for rest := data; len(rest) > 0 && p.failure == nil; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if len(p.line)+len(line) > maxAnswer {
			begins := p.invoker.secrets.Mask(string(append(p.line, line...)[:maxAnswer])) // whole, since a part of a secret is not known for one
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
		if err := p.receive(line); err != nil {
			p.fail(err)
		}
	}
	if p.failure != nil {
		return 0, p.failure
	}
	return len(data), nil
}

// receive handles one line; p.mu is held. After a panic nothing is known of what the
// line was about, so that is the end of the process, too.
func (p *process) receive(line []byte) error {
	err := p.invoker.panics.Try("taking an answer", func() error { return p.handle(line) })
	if errors.As(err, new(*crash.Error)) {
		return fmt.Errorf("answered what could not be taken: %w", err)
	}
	return err
}

// lineOf is a hash of a line that answers a request, without the id of the request. The zero value is none.
type lineOf [sha256.Size]byte

// answerLine tells the id in an answer from the rest of its line. Where it does not stand first, as it
// usually does, id is 0.
func answerLine(line []byte) (id int64, rest []byte) {
	text, ok := bytes.CutPrefix(line, []byte(`{"id":`))
	digits, rest, more := bytes.Cut(text, []byte(","))
	if !ok || !more || len(digits) > 18 {
		return 0, nil
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, nil
		}
		id = 10*id + int64(d-'0')
	}
	return id, rest
}

// handle is receive without a guard.
func (p *process) handle(line []byte) error {
	id, rest := answerLine(line)
	q, open := p.open[id]
	if open && q.pendingCall != nil {
		q.said = sha256.Sum256(rest)
		if q.said == q.expected {
			p.answered(id, q, 0)
			return nil
		}
	}
	a, err := protocol.DecodeServeAnswer(line)
	if err != nil {
		return fmt.Errorf("printed what is no answer: %w", p.invoker.secrets.MaskAnswerError(err, line, func(text []byte) error {
			_, err := protocol.DecodeServeAnswer(text)
			return err
		}))
	}
	q, open = p.open[a.ID]
	switch {
	case a.ID > p.last:
		return fmt.Errorf("answered request %d, which it was not asked", a.ID)
	case !open:
		return fmt.Errorf("answered request %d twice", a.ID)
	}
	if q.pendingCall != nil {
		if err := q.deliver(a); err != nil {
			return fmt.Errorf("answered %s of %s with %w", q.Action, q.resource, err)
		}
	}
	if a.Exit == nil {
		q.parts = true
		return nil
	}
	if q.parts || *a.Exit != 0 {
		q.said = lineOf{}
	}
	p.failed = p.failed || *a.Exit != 0
	p.answered(a.ID, q, *a.Exit)
	return nil
}

// answered ends a request; p.mu is held.
func (p *process) answered(id int64, q *request, exit int) {
	delete(p.open, id)
	if q.pendingCall != nil {
		q.exit.Code = exit
		close(q.ended)
	}
	p.scheduleKill()
	if len(p.open) == 0 && !p.closing {
		p.idleTimer.Reset(idleTimeout)
	}
}

// deliver hands on the output in an answer, as a container would have printed it.
func (c *pendingCall) deliver(a protocol.ServeAnswer) error {
	output := []byte(a.Output)
	var text string
	isText := json.Unmarshal(a.Output, &text) == nil
	switch {
	case a.Output == nil:
	case c.Answers && a.Exit == nil:
		return errors.New("an output before its exit, to which the one document belongs")
	case !c.Answers && !isText:
		return errors.New("an output that is no string, as text for people must be")
	case isText && (!c.Answers || *a.Exit != 0):
		output = []byte(text)
	}
	if a.Keep != nil {
		if !c.Keeps || c.Answers {
			return errors.New(`something to keep, which only an action may have, of a type whose init answers "keeps": true`)
		}
		c.keep = a.Keep
	}
	if _, err := c.stdout.Write(output); err != nil {
		return err
	}
	_, err := io.WriteString(c.stderr, a.Stderr)
	return err
}

// exited handles the end of the container. Whatever panics here, nobody waits for
// the process any longer.
func (p *process) exited(exit engine.Exit, err error) {
	p.stdin.close()
	defer p.gone()
	p.mu.Lock()
	defer p.mu.Unlock()
	err = errors.Join(err, p.keepOutput())
	failure := fmt.Errorf("%s ended, and it is not known how", p.what)
	defer func() { p.release(failure) }()
	p.idleTimer.Stop()
	if p.killTimer != nil {
		p.killTimer.Stop()
	}
	if line := p.line; len(line) > 0 && p.failure == nil {
		p.line = nil
		if err := p.receive(line); err != nil && !p.closing {
			p.fail(err)
		}
	}
	switch {
	case p.failure != nil:
	case p.closing && !p.awaited():
	case err != nil:
		p.neverRan = !p.responded
		p.fail(fmt.Errorf("cannot be run: %w", err))
	default:
		p.fail(errors.New(exit.String()))
	}
	failure = p.failure
	if output := p.tail.Excerpt(); output != "" && failure != nil {
		failure = fmt.Errorf("%w; last output:\n%s", failure, output)
	}
}

// release ends the requests that are still open, and marks the process as
// ended; p.mu is held.
func (p *process) release(failure error) {
	for _, q := range p.open {
		if q.pendingCall == nil {
			continue
		}
		q.notSent = !q.canceled && (p.stdin.unread(q.offset) || p.neverRan && q.Answers)
		q.err = failure
		close(q.ended)
	}
	clear(p.open)
	close(p.ended)
}

// acting reports whether an action may have begun that is not over; p.mu is held.
func (p *process) acting() bool {
	for _, q := range p.open {
		if q.pendingCall != nil && !q.Answers && !p.stdin.unread(q.offset) {
			return true
		}
	}
	return false
}

// awaited reports whether anybody waits for an answer; p.mu is held.
func (p *process) awaited() bool {
	for _, q := range p.open {
		if q.pendingCall != nil {
			return true
		}
	}
	return false
}
