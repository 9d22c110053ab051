package authoring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/protocol"
)

// mostUnknown is how many values of a configuration are asked about one by one.
const mostUnknown = 10

// fewestUnknown is how many values a configuration must have for it to be wrong that none may be unknown.
const fewestUnknown = 2

// unknownBefore asks as a plan does, of what does not exist yet.
func (c *checker) unknownBefore(ctx context.Context) (verdict, error) {
	accepted, refused := []string{}, []string{}
	v, err := c.eachUnknown(ctx, func(path string, answer *protocol.StateOutput) *verdict {
		if answer == nil {
			refused = append(refused, path)
			return nil
		}
		accepted = append(accepted, path)
		if answer.Status == protocol.Valid && c.state.Status == protocol.Stale && c.state.StaleState == nil {
			v := fail("with %s unknown, state answered VALID, although there is nothing: VALID means that all that is known is as configured; answer STALE with the actions that will be needed", path)
			return &v
		}
		return nil
	})
	switch {
	case err != nil || v.outcome != Passed:
		return v, err
	case len(accepted)+len(refused) < fewestUnknown && len(accepted) == 0: // what tells a thing from others must be known
		return skip("the configuration has too few values to tell: give one that says more than which thing it is"), nil
	case len(accepted) == 0:
		return fail(`init answers "accepts_unknown": true, and state refuses whatever is unknown (%s): answer STALE with the actions that will be needed, or leave accepts_unknown out`, list(refused)), nil
	case len(refused) > 0:
		return pass("%s; not of %s", list(accepted), list(refused)), nil
	}
	return pass("%s", list(accepted)), nil
}

// unknownAfter asks as a plan does, of what is as configured.
func (c *checker) unknownAfter(ctx context.Context) (verdict, error) {
	return c.eachUnknown(ctx, func(path string, answer *protocol.StateOutput) *verdict {
		if answer == nil || answer.Status == protocol.Valid || answer.StaleState == nil {
			return nil // it is refused, or not known which one it is
		}
		v := warn("with %s unknown, and all else as configured, state answered %s: compare only what is known, or plans show changes that may never come",
			path, describe(*answer))
		return &v
	})
}

// eachUnknown asks with each value of the configuration unknown, one after the other. judge
// gets the answer, nil where it was an error, which is none of a plan.
func (c *checker) eachUnknown(ctx context.Context, judge func(path string, answer *protocol.StateOutput) *verdict) (verdict, error) {
	if !c.init.AcceptsUnknown {
		return skip(`init does not answer "accepts_unknown": true`), nil
	}
	paths := leaves(c.Config, nil)
	for _, path := range paths[:min(len(paths), mostUnknown)] {
		in := c.stateInput(protocol.Present)
		in.Config, _ = replaced(c.Config, path, protocol.Unknown{}).(map[string]any)
		at := strings.Join(path, ".")
		said, failure, err := c.askLooking(ctx, in)
		if err != nil {
			return verdict{}, err
		}
		var answer *protocol.StateOutput
		if failure == nil && said.exit.Code == 0 {
			var decoded protocol.StateOutput
			decoded, failure = c.stated(said)
			answer = &decoded
		} else if failure == nil {
			failure = c.refusal(said)
		}
		if failure == nil && answer != nil && leaks(*answer) {
			v := fail(`state put {"$unknown": true} into the args of an action: received %s; it is no value, and no action is ever run with it`, received(c.hide(said.stdout)))
			failure = &v
		}
		if failure == nil {
			failure = judge(at, answer)
		} else {
			failure.detail = fmt.Sprintf(`asked with {"$unknown": true} as %s: %s`, at, failure.detail)
		}
		if failure != nil {
			return *failure, nil
		}
	}
	return pass(""), nil
}

// leaks reports whether an action is to be given what stands for the unknown.
func leaks(answer protocol.StateOutput) bool {
	return slices.ContainsFunc(answer.Actions, func(a protocol.Action) bool {
		return slices.ContainsFunc(a.Args, func(arg string) bool { return strings.Contains(arg, "$unknown") })
	})
}

// leaves are the paths of the values of a configuration that hold no others.
func leaves(v any, path []string) (paths [][]string) {
	inside := func(name string, item any) { paths = append(paths, leaves(item, append(slices.Clone(path), name))...) }
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inside(name, v[name])
		}
	case []any:
		for i, item := range v {
			inside(strconv.Itoa(i), item)
		}
	default:
		return [][]string{path}
	}
	return paths
}

// replaced is v with another value at a path of it.
func replaced(v any, path []string, by any) any {
	if len(path) == 0 {
		return by
	}
	switch v := v.(type) {
	case map[string]any:
		return with(v, path[0], replaced(v[path[0]], path[1:], by))
	case []any:
		v = slices.Clone(v)
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(v) {
			v[i] = replaced(v[i], path[1:], by)
		}
		return v
	}
	return v
}

// refusal judges an error of state: nil is that it is one for people.
func (c *checker) refusal(s said) *verdict {
	if s.exit.Code < 128 && len(s.stderr) > 0 && !crashed().Match(s.stderr) {
		return nil
	}
	v := c.exited("state", s)
	if len(s.stderr) > 0 {
		v.detail += "; that is a crash: handle it, and say on stderr in one line what is wrong"
	}
	return &v
}
