package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/deployster-go/deployster/protocol"
)

// notServing is the verdict on a type that does not serve, which it need not.
func notServing() verdict { return skip("init answers no serve_action") }

func (c *checker) serveStarts(ctx context.Context) (verdict, error) {
	if c.init.ServeAction == nil {
		return notServing(), nil
	}
	var err error
	if c.served, err = c.start(ctx); err != nil {
		return verdict{}, err
	}
	answer, err := c.askServed(ctx, question{"init", nil, c.initInput()})
	if err != nil {
		return verdict{}, err
	}
	return c.servedWell("init", answer, decodeInit), nil
}

// askServed asks one thing.
func (c *checker) askServed(ctx context.Context, q question) (served, error) {
	answers, err := c.served.ask(ctx, q)
	if err != nil {
		return served{}, err
	}
	c.learn(answers[0].stdout)
	return answers[0], nil
}

// servedWell judges a served answer to init or state.
func (c *checker) servedWell(action string, answer served, decode func([]byte) error) verdict {
	if v := c.exited(action+", served,", answer.said); v.outcome != Passed {
		return v
	}
	if v := c.keepServed(c.one, action, answer.keep); v != nil {
		return *v
	}
	if !answer.document || decode(answer.stdout) != nil {
		return fail("%s, served: output: %s; it must be the document itself, not text that contains it", action, c.explain(decode, answer.stdout))
	}
	return pass("")
}

// servedAgrees asks everything both ways. It brings the resource about and
// removes it again, where the type can.
func (c *checker) servedAgrees(ctx context.Context) (verdict, error) {
	if c.served == nil {
		return notServing(), nil
	}
	asked := []string{"init", "state"}
	answer, err := c.askServed(ctx, question{"init", nil, c.initInput()})
	if err != nil {
		return verdict{}, err
	}
	if v := c.servedWell("init", answer, decodeInit); v.outcome != Passed {
		return v, nil
	}
	s, err := c.ask(ctx, "init", c.initInput())
	if err != nil {
		return verdict{}, err
	}
	if !sameDocument(answer.stdout, s.stdout) {
		return c.differ("init", answer.stdout, s.stdout), nil
	}
	if v, err := c.failsAlike(ctx); err != nil || v.outcome == Failed {
		return v, err
	}
	wanted := []protocol.Ensure{protocol.Present}
	if c.init.Removable {
		wanted = append(wanted, protocol.Absent)
	}
	for _, ensure := range wanted {
		actions, v, err := c.actServed(ctx, ensure)
		if err != nil || v.outcome == Failed {
			return v, err
		}
		asked = append(asked, actions...)
	}
	return pass("%s", strings.Join(asked, ", ")), nil
}

// failsAlike asks for the state with an input that is none.
func (c *checker) failsAlike(ctx context.Context) (verdict, error) {
	s, err := c.askText(ctx, "state", `""`)
	if err != nil {
		return verdict{}, err
	}
	answer, err := c.askServed(ctx, question{"state", c.init.StateAction.Args, ""})
	if err != nil {
		return verdict{}, err
	}
	if (s.exit.Code == 0) != (answer.exit.Code == 0) {
		return fail(`given "" as input, state %s in a container of its own; served, it %s`, s.exit, answer.exit), nil
	}
	return pass(""), nil
}

// actServed brings the resource to what is wanted of it by served actions, and
// asks for the state before and after.
func (c *checker) actServed(ctx context.Context, ensure protocol.Ensure) (names []string, v verdict, err error) {
	state, v, err := c.stateBothWays(ctx, ensure)
	if err != nil || v.outcome == Failed || state.Status == protocol.Valid {
		return nil, v, err
	}
	for _, action := range state.Actions {
		in := protocol.ActionInput{StateInput: c.stateInput(ensure), StaleState: state.StaleState}
		if action.Image != "" || action.Entrypoint != "" { // which no process can serve
			if v, err := c.actOnce(ctx, c.one, action, in); err != nil || v.outcome == Failed {
				return nil, v, err
			}
			continue
		}
		if in.StaleState == nil {
			in.StaleState = map[string]any{}
		}
		answer, err := c.askServed(ctx, question{action.Name, action.Args, in})
		if err != nil {
			return nil, verdict{}, err
		}
		if v := c.keepServed(c.one, action.Name, answer.keep); v != nil {
			return nil, *v, nil
		}
		switch printed := append(answer.stdout, answer.stderr...); {
		case answer.document:
			return nil, fail("action %q, served, answered output %s; it must be a JSON string with what the action prints", action.Name, received(c.hide(answer.stdout))), nil
		case answer.exit.Code != 0:
			return nil, fail("action %q, served, %s; the end of what it printed: %s; in a container of its own it succeeded", action.Name, answer.exit, receivedEnd(c.hide(printed))), nil
		}
		names = append(names, action.Name)
	}
	state, v, err = c.stateBothWays(ctx, ensure)
	if err == nil && v.outcome == Passed && state.Status != protocol.Valid {
		v = fail("after its actions, served, the state must be VALID; it is %s: %s; a served action does what a container of its own would", describe(state), received(c.hide(c.answer.stdout)))
	}
	return names, v, err
}

// stateBothWays asks for the state, in a container of its own and served.
func (c *checker) stateBothWays(ctx context.Context, ensure protocol.Ensure) (protocol.StateOutput, verdict, error) {
	state, failure, err := c.observe(ctx, ensure)
	if err != nil || failure != nil {
		return state, orPass(failure), err
	}
	first := c.answer.stdout
	answer, err := c.askServed(ctx, question{"state", c.init.StateAction.Args, c.stateInput(ensure)})
	if err != nil {
		return state, verdict{}, err
	}
	if v := c.servedWell("state", answer, decodeState); v.outcome != Passed || sameDocument(answer.stdout, first) {
		return state, v, nil
	}
	// A state may say what changes by itself: then two containers disagree too.
	again, failure, err := c.observe(ctx, ensure)
	if err != nil || failure != nil {
		return state, orPass(failure), err
	}
	decoded, err := protocol.DecodeState(answer.stdout)
	if err != nil || sameDocument(first, c.answer.stdout) || describe(decoded) != describe(again) {
		return state, c.differ("state", answer.stdout, first), nil
	}
	return state, pass(""), nil
}

func (c *checker) differ(action string, served, oneShot []byte) verdict {
	return fail("%s answered %s in a container of its own and %s served; a process that serves must look anew for each request, and keep nothing between two",
		action, received(c.hide(oneShot)), received(c.hide(served)))
}

// sameDocument compares JSON, not how it is written.
func sameDocument(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func (c *checker) servedAtOnce(ctx context.Context) (verdict, error) {
	if c.served == nil {
		return notServing(), nil
	}
	state := question{"state", c.init.StateAction.Args, c.stateInput(protocol.Present)}
	answers, err := c.served.ask(ctx, state, state)
	if err != nil {
		return verdict{}, err
	}
	for _, answer := range answers {
		if v := c.servedWell("state", answer, decodeState); v.outcome != Passed {
			return v, nil
		}
	}
	return pass(""), nil
}

func (c *checker) serveEnds(ctx context.Context) (verdict, error) {
	if c.served == nil {
		return notServing(), nil
	}
	_ = c.served.stdin.Close()
	line, err := c.served.next(ctx, "did not end after its stdin had ended")
	if err != nil {
		return verdict{}, err
	}
	if line != nil {
		return verdict{}, fmt.Errorf("after everything was answered, and stdin had ended, it wrote %s; it must answer each request once and then end", received(c.hide(line)))
	}
	return c.exited("serve", said{exit: c.served.exit, stderr: c.served.stderr.data, flood: flood(c.served.stderr.total)}), nil
}
