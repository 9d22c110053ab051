package authoring

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/protocol"
)

const keepsNothing = `, and init does not answer "keeps": true, without which nothing is: add that`

// keepStated takes over what an answer of state has kept; nil is well.
func (c *checker) keepStated(of *resource, answer protocol.StateOutput, ensure protocol.Ensure) *verdict {
	if answer.Keep != nil {
		if !c.init.Keeps {
			v := fail(`state has something kept ("keep")%s`, keepsNothing)
			return &v
		}
		of.kept = answer.Keep
	}
	if ensure == protocol.Absent && answer.Status == protocol.Valid {
		of.kept = nil // as of all that is gone
	}
	return nil
}

// keepPrinted takes over what an action in a container has kept, by its last line on stdout;
// nil is well.
func (c *checker) keepPrinted(of *resource, action string, line []byte) *verdict {
	keep, is, err := protocol.DecodeKeep(line)
	var v verdict
	switch {
	case !is:
		return nil
	case err != nil:
		v = fail("the last line of action %q is to have something kept: %v", action, err)
	case !c.init.Keeps:
		v = fail(`the last line of action %q is to have something kept ("keep")%s`, action, keepsNothing)
	default:
		c.learnKept(keep)
		of.kept = keep
		return nil
	}
	return &v
}

// keepServed takes over what a served answer has kept; nil is well.
func (c *checker) keepServed(of *resource, action string, keep map[string]any) *verdict {
	if keep == nil {
		return nil
	}
	var v verdict
	switch action {
	case "init", "state":
		v = fail(`%s, served, has "keep" beside its output; only an action may: what state has kept is a member of its document`, action)
		return &v
	}
	if !c.init.Keeps {
		v = fail(`action %q, served, has something kept ("keep")%s`, action, keepsNothing)
		return &v
	}
	c.learnKept(keep)
	of.kept = keep
	return nil
}

// memoryLost asks as after the death of Deployster between the moment in which an action made
// something and that in which the log had what it keeps.
func (c *checker) memoryLost(ctx context.Context) (verdict, error) {
	switch {
	case !c.init.Keeps:
		return skip(`init does not answer "keeps": true`), nil
	case len(c.one.kept) == 0:
		return skip("nothing was kept"), nil
	}
	in := c.stateInput(protocol.Present)
	in.Kept, in.Interrupted = map[string]any{}, true
	answer, failure, err := c.look(ctx, in)
	if err != nil || failure != nil {
		return orPass(failure), err
	}
	if answer.Status == protocol.Stale && answer.StaleState == nil {
		return warn(`with "interrupted": true and nothing kept, as after a death in the moment in which an action made something, state answered %s without staleState, so another one would be made; mark what you make with the "id" of the input, and look for that`,
			describe(answer)), nil
	}
	return pass(""), nil
}

// statesAsDescribed judges all states by the schema that init has for them.
func (c *checker) statesAsDescribed(context.Context) (verdict, error) {
	switch {
	case c.states == nil:
		return skip("init answers no state_schema"), nil
	case c.unlike != "":
		return warn("%s; it is no error, but where state_schema and states disagree secrets may be shown: make them agree", c.unlike), nil
	}
	return pass(""), nil
}

// compareWithSchema notes the first state that is otherwise than the schema says.
func (c *checker) compareWithSchema(answer protocol.StateOutput, ensure protocol.Ensure) {
	if c.states == nil || c.unlike != "" || ensure == protocol.Absent && answer.Status == protocol.Valid { // of what is gone little is said
		return
	}
	member, state := "state", answer.State
	if answer.Status == protocol.Stale {
		member, state = "staleState", answer.StaleState
	}
	if state == nil {
		return
	}
	if wrong := c.states.Validate(state); len(wrong) > 0 {
		c.unlike = fmt.Sprintf("%s, of a %s answer: %s %s", member, answer.Status, strings.Join(append([]string{member}, wrong[0].Path...), "."), wrong[0].Message)
	}
}

// asPlanned judges the state after the actions by what was planned before.
func (c *checker) asPlanned(context.Context) (verdict, error) {
	planned := c.state.PlannedState
	if planned == nil {
		return skip("state answered no planned_state"), nil
	}
	if path := unplanned(planned, c.after, "state"); path != "" {
		return fail(`after the actions %s is another than planned_state said, by which all that depends on it is planned; say {"$unknown": true} there, where it is not known before`, path), nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.after)) {
		if _, said := planned[name]; !said {
			return warn(`after the actions the state has %q, of which planned_state says nothing, so what depends on it cannot be planned; say {"$unknown": true} there, where it is not known before`, name), nil
		}
	}
	return pass(""), nil
}

// unplanned is the path of what is otherwise than planned; "" is none.
func unplanned(planned, got any, path string) string {
	if protocol.IsUnknown(planned) {
		return ""
	}
	switch planned := planned.(type) {
	case map[string]any:
		got, is := got.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(planned)) {
			value, there := got[key]
			if !there && !protocol.IsUnknown(planned[key]) {
				return path + "." + key
			}
			if at := unplanned(planned[key], value, path+"."+key); at != "" {
				return at
			}
		}
		if is {
			return ""
		}
	case []any:
		if got, _ := got.([]any); len(got) == len(planned) {
			for i := range planned {
				if at := unplanned(planned[i], got[i], path+"."+strconv.Itoa(i)); at != "" {
					return at
				}
			}
			return ""
		}
	default:
		if reflect.DeepEqual(planned, got) {
			return ""
		}
	}
	return path
}
