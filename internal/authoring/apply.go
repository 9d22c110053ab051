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
	var failure *verdict
	if c.state, failure = c.stated(c.answer); failure != nil {
		return *failure, nil
	}
	if failure = c.keepStated(c.one, c.state, protocol.Present); failure != nil {
		return *failure, nil
	}
	c.compareWithSchema(c.state, protocol.Present)
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
	if v := c.unchanged(c.found); v != nil {
		return *v, nil
	}
	again, failure, err := c.observe(ctx, protocol.Present)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	if describe(again) != describe(c.state) {
		return fail("asked twice, with nothing in between, state first answered %s, then %s; it must only look: a plan asks it too, and nobody has agreed to a change then",
			describe(c.state), describe(again)), nil
	}
	return c.steady(c.state, again), nil
}

// steady judges two answers between which nothing has happened.
func (c *checker) steady(first, again protocol.StateOutput) verdict {
	if sameAnswer(first, again) {
		return pass("")
	}
	return fail("asked twice, with nothing in between, state named other actions, arguments or a stale state: first %s, then %s; a saved plan is refused where they change by themselves, as random values and times do",
		c.seen(first), c.seen(again))
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
	return c.actWatched(ctx, c.state)
}

// act runs the actions of an answer.
func (c *checker) act(ctx context.Context, answer protocol.StateOutput, ensure protocol.Ensure) (verdict, error) {
	return c.actOf(ctx, c.one, answer, ensure)
}

// actOf runs the actions of an answer about a resource, perhaps while others are run.
func (c *checker) actOf(ctx context.Context, r *resource, answer protocol.StateOutput, ensure protocol.Ensure) (verdict, error) {
	for _, action := range answer.Actions {
		if v, err := c.actOnce(ctx, r, action, protocol.ActionInput{StateInput: c.stateInputOf(r, ensure), StaleState: answer.StaleState}); err != nil || v.outcome == Failed {
			return v, err
		}
	}
	return pass("%s", actionNames(answer)), nil
}

func (c *checker) actOnce(ctx context.Context, r *resource, action protocol.Action, in protocol.ActionInput) (verdict, error) {
	run, err := c.prepare(ctx, action, in)
	if err != nil {
		return verdict{}, err
	}
	s, err := run(ctx)
	if err != nil {
		return verdict{}, err
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	if v := c.keepPrinted(r, action.Name, s.last); v != nil {
		return *v, nil
	}
	if s.exit.Code != 0 {
		return fail("action %q, run with args %q, %s; the end of what it printed: %s; an action that did its work must exit with 0",
			action.Name, action.Args, s.exit, receivedEnd(c.hide(s.stdout))), nil
	}
	return pass(""), nil
}

func (c *checker) validAfterActions(ctx context.Context) (verdict, error) {
	if c.state.Status == protocol.Valid {
		return skip("no action was run"), nil
	}
	v, err := c.mustBeValid(ctx, protocol.Present, "after its actions")
	c.after = c.last.State
	return v, err
}

// actAgain runs the actions once more, as after an interruption.
func (c *checker) actAgain(ctx context.Context) (verdict, error) {
	if c.state.Status == protocol.Valid {
		return skip("no action was run"), nil
	}
	v, err := c.actWatched(ctx, c.state)
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
	present, failure, err := c.observe(ctx, protocol.Present)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	answer, failure, err := c.observe(ctx, protocol.Absent)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	if answer.Status == protocol.Valid {
		return c.absentAtOnce(present, answer), nil
	}
	again, failure, err := c.observe(ctx, protocol.Absent)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	if v := c.steady(answer, again); v.outcome == Failed {
		v.detail = `with "ensure": "absent": ` + v.detail
		return v, nil
	}
	if v, err := c.act(ctx, answer, protocol.Absent); err != nil || v.outcome == Failed {
		return v, err
	}
	kept := c.one.kept
	if v, err := c.mustBeValid(ctx, protocol.Absent, "with \"ensure\": \"absent\", after its actions"); err != nil || v.outcome == Failed {
		return v, err
	}
	c.one.kept = kept
	v, err := c.act(ctx, answer, protocol.Absent)
	c.one.kept = nil
	if err != nil || v.outcome == Failed {
		v.detail = "run again, as after an interruption, when all was gone: " + v.detail + "; what is gone already is success"
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

// absentAtOnce judges an answer that there is nothing to remove.
func (c *checker) absentAtOnce(present, absent protocol.StateOutput) verdict {
	if path := changed(c.found, c.files()); path != "" && c.state.Status == protocol.Stale {
		return fail("with \"ensure\": \"absent\" state answered VALID at once, and %q is still there, which its actions made: answer STALE with actions that remove it", c.mask(path))
	}
	if present.Status == protocol.Valid && len(absent.State) > 0 && reflect.DeepEqual(present.State, absent.State) {
		return fail(`with "ensure": "absent" state answered VALID, with the same state as with "present": %s; answer STALE with actions that remove it, or, where there is nothing to remove, {"status": "VALID", "state": {}}`, received(c.hide(c.answer.stdout)))
	}
	return warn("with \"ensure\": \"absent\" state answered VALID at once: right only for a type that has nothing to remove")
}

// observe asks for the state. What is wrong with the answer is a failure.
func (c *checker) observe(ctx context.Context, ensure protocol.Ensure) (answer protocol.StateOutput, failure *verdict, err error) {
	return c.observeOf(ctx, c.one, ensure)
}

func (c *checker) observeOf(ctx context.Context, r *resource, ensure protocol.Ensure) (protocol.StateOutput, *verdict, error) {
	answer, failure, err := c.look(ctx, c.stateInputOf(r, ensure))
	if err != nil || failure != nil {
		return answer, failure, err
	}
	c.last = answer
	c.compareWithSchema(answer, ensure)
	return answer, c.keepStated(r, answer, ensure), nil
}

// look asks for the state, and takes over nothing that is to be kept.
func (c *checker) look(ctx context.Context, in protocol.StateInput) (answer protocol.StateOutput, failure *verdict, err error) {
	if c.answer, failure, err = c.askLooking(ctx, in); err != nil || failure != nil {
		return answer, failure, err
	}
	if v := c.exited("state", c.answer); v.outcome != Passed {
		return answer, &v, nil
	}
	answer, failure = c.stated(c.answer)
	return answer, failure, nil
}

// askLooking asks for the state, which must leave plugs as they are.
func (c *checker) askLooking(ctx context.Context, in protocol.StateInput) (said, *verdict, error) {
	before := c.files()
	answer, err := c.ask(ctx, "state", in)
	if err != nil {
		return answer, nil, err
	}
	return answer, c.unchanged(before), nil
}

// unchanged judges whether plugs are as they were before state was asked; nil is well.
func (c *checker) unchanged(before map[string]string) *verdict {
	path := changed(before, c.files())
	if path == "" {
		return nil
	}
	v := fail("while state was asked, %q changed, which is in a plug; it must only look: what it needs for itself goes to the directory that DEPLOYSTER_WORK names", c.mask(path))
	return &v
}

// stated decodes an answer to state.
func (c *checker) stated(s said) (protocol.StateOutput, *verdict) {
	answer, err := protocol.DecodeState(s.stdout)
	if err != nil {
		v := fail("state: %s; `deployster schema state` says what it must be like", c.explain(decodeState, s.stdout))
		return answer, &v
	}
	return answer, nil
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
