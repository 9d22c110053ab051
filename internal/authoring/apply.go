package authoring

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/deployster-go/deployster/protocol"
)

// malformed are inputs that no type can make sense of.
var malformed = []string{`{"name": "test", "conf`, ""}

func (c *checker) stateExits(ctx context.Context) (verdict, error) {
	var err error
	c.found = c.files()
	if c.answer, err = c.ask(ctx, "state", c.stateInput(protocol.Present)); err != nil {
		return verdict{}, err
	}
	return c.exited("state", c.answer), nil
}

func (c *checker) stateOnlyJSON(context.Context) (verdict, error) {
	return c.onlyJSON("state", c.answer.stdout, decodeState), nil
}

func (c *checker) stateValid(context.Context) (verdict, error) {
	var err error
	if c.state, err = protocol.DecodeState(c.answer.stdout); err != nil {
		return fail("%s; `deployster schema state` says what it must be like", c.explain(decodeState, c.answer.stdout)), nil
	}
	for _, action := range c.state.Actions {
		if !c.carries(action.Image) {
			return warn("action %q runs the image %.100q, which action_images of init does not name, so a revision would refuse to run it; name it there, or by its digest, as NAME@sha256:…", action.Name, action.Image), nil
		}
	}
	return pass("%s", describe(c.state)), nil
}

// carries reports whether a revision could carry the image that an action names; "" is that of
// the type.
func (c *checker) carries(ref string) bool {
	if ref == "" || ref == c.Image || slices.Contains(c.init.ActionImages, ref) {
		return true
	}
	parsed, err := reference.ParseAnyReference(ref)
	_, byContent := parsed.(reference.Digested)
	return err == nil && byContent
}

func (c *checker) stateChangesNothing(ctx context.Context) (verdict, error) {
	again, failure, err := c.observe(ctx, protocol.Present)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	if describe(again) != describe(c.state) {
		return fail("asked twice, with nothing in between, state first answered %s, then %s; it must only look: a plan asks it too, and nobody has agreed to a change then",
			describe(c.state), describe(again)), nil
	}
	if path := changed(c.found, c.files()); path != "" {
		return fail("while state was asked, %q changed, which is in a plug; it must only look: what it needs for itself goes to the directory that DEPLOYSTER_WORK names", c.mask(path)), nil
	}
	if !sameAnswer(c.state, again) {
		return fail("asked twice, with nothing in between, state named other actions, arguments or a stale state: first %s, then %s; a saved plan is refused where they change by themselves, as random values and times do",
			c.seen(c.state), c.seen(again)), nil
	}
	return pass(""), nil
}

// sameAnswer compares what a saved plan compares.
func sameAnswer(a, b protocol.StateOutput) bool {
	return reflect.DeepEqual(decisive(a), decisive(b))
}

// decisive is an answer without what people alone read. The state of what is as configured
// may say what changes by itself.
func decisive(answer protocol.StateOutput) []any {
	out := []any{answer.StaleState}
	for _, action := range answer.Actions {
		action.Description = ""
		out = append(out, action)
	}
	return out
}

// seen shows what is decisive of an answer.
func (c *checker) seen(answer protocol.StateOutput) string {
	text, err := json.Marshal(decisive(answer))
	if err != nil {
		return describe(answer)
	}
	return received(c.hide(text))
}

func (c *checker) stateMalformed(ctx context.Context) (verdict, error) {
	for _, input := range malformed {
		s, err := c.askText(ctx, "state", input)
		if err != nil {
			return verdict{}, err
		}
		if s.exit.Code == 0 {
			return fail("given %q on stdin, state exited with 0 and answered %s; end with a non-zero exit code where stdin cannot be read",
				input, received(c.hide(s.stdout))), nil
		}
	}
	return pass(""), nil
}

func (c *checker) actionsExit(ctx context.Context) (verdict, error) {
	if c.state.Status == protocol.Valid {
		return skip("the resource was VALID already; start without it to check the actions"), nil
	}
	return c.act(ctx, c.state, protocol.Present)
}

// act runs the actions of an answer.
func (c *checker) act(ctx context.Context, answer protocol.StateOutput, ensure protocol.Ensure) (verdict, error) {
	for _, action := range answer.Actions {
		s, err := c.do(ctx, action, protocol.ActionInput{StateInput: c.stateInput(ensure), StaleState: answer.StaleState})
		if err != nil {
			return verdict{}, err
		}
		if s.exit.Code != 0 {
			return fail("action %q, run with args %q, %s; the end of what it printed: %s; an action that did its work must exit with 0",
				action.Name, action.Args, s.exit, receivedEnd(c.hide(s.stdout))), nil
		}
	}
	return pass("%s", actionNames(answer)), nil
}

func (c *checker) validAfterActions(ctx context.Context) (verdict, error) {
	if c.state.Status == protocol.Valid {
		return skip("no action was run"), nil
	}
	return c.mustBeValid(ctx, protocol.Present, "after its actions")
}

// actAgain runs the actions once more, as after an interruption.
func (c *checker) actAgain(ctx context.Context) (verdict, error) {
	if c.state.Status == protocol.Valid {
		return skip("no action was run"), nil
	}
	v, err := c.act(ctx, c.state, protocol.Present)
	if err != nil || v.outcome == Failed {
		v.detail = "run again, as after an interruption: " + v.detail + "; what is done already is success"
		return v, err
	}
	if after, err := c.mustBeValid(ctx, protocol.Present, "after its actions were run again"); err != nil || after.outcome == Failed {
		return after, err
	}
	return v, nil
}

func (c *checker) secondApply(ctx context.Context) (verdict, error) {
	return c.mustBeValid(ctx, protocol.Present, "applied again, with nothing in between,")
}

// mustBeValid asks for the state, which must be as configured.
func (c *checker) mustBeValid(ctx context.Context, ensure protocol.Ensure, when string) (verdict, error) {
	answer, failure, err := c.observe(ctx, ensure)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	if answer.Status != protocol.Valid {
		return fail("%s the state must be VALID; it is %s: %s; compare the state only with what the actions bring about",
			when, describe(answer), received(c.hide(c.answer.stdout))), nil
	}
	return pass(""), nil
}

// removal asks a type for the opposite of all before.
func (c *checker) removal(ctx context.Context) (verdict, error) {
	if !c.init.Removable {
		return skip("init does not answer \"removable\": true"), nil
	}
	answer, failure, err := c.observe(ctx, protocol.Absent)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	if answer.Status == protocol.Valid {
		if path := changed(c.found, c.files()); path != "" && c.state.Status == protocol.Stale {
			return fail("with \"ensure\": \"absent\" state answered VALID at once, and %q is still there, which its actions made: answer STALE with actions that remove it", c.mask(path)), nil
		}
		return warn("with \"ensure\": \"absent\" state answered VALID at once: right only for a type that has nothing to remove"), nil
	}
	if v, err := c.act(ctx, answer, protocol.Absent); err != nil || v.outcome == Failed {
		return v, err
	}
	if v, err := c.mustBeValid(ctx, protocol.Absent, "with \"ensure\": \"absent\", after its actions"); err != nil || v.outcome == Failed {
		return v, err
	}
	after, failure, err := c.observe(ctx, protocol.Present)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	if after.Status == protocol.Valid {
		return fail("after %s the resource is still there: with \"ensure\": \"present\" state answered %s", actionNames(answer), received(c.hide(c.answer.stdout))), nil
	}
	return pass("%s", actionNames(answer)), nil
}

// observe asks for the state. What is wrong with the answer is a failure.
func (c *checker) observe(ctx context.Context, ensure protocol.Ensure) (answer protocol.StateOutput, failure *verdict, err error) {
	if c.answer, err = c.ask(ctx, "state", c.stateInput(ensure)); err != nil {
		return answer, nil, err
	}
	if v := c.exited("state", c.answer); v.outcome != Passed {
		return answer, &v, nil
	}
	if answer, err = protocol.DecodeState(c.answer.stdout); err != nil {
		v := fail("state: %s; `deployster schema state` says what it must be like", c.explain(decodeState, c.answer.stdout))
		return answer, &v, nil
	}
	return answer, nil, nil
}

func orPass(v *verdict) verdict {
	if v == nil {
		return pass("")
	}
	return *v
}

// describe is an answer in few words.
func describe(answer protocol.StateOutput) string {
	if answer.Status == protocol.Valid {
		return "VALID"
	}
	return fmt.Sprintf("STALE (%s)", actionNames(answer))
}

func actionNames(answer protocol.StateOutput) string {
	names := make([]string, 0, len(answer.Actions))
	for _, action := range answer.Actions {
		names = append(names, action.Name)
	}
	return strings.Join(names, ", ")
}
