package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/hidden"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/schema"
)

// resolve finishes the configuration of a resource whose dependencies are
// verified.
func (r *Runner) resolve(res *resource) error {
	if res.final {
		return nil
	}
	config, err := r.configured(res)
	if err != nil {
		return err
	}
	if err := r.check(res, config); err != nil {
		return err
	}
	res.config = config
	return nil
}

// askState runs the state action and decodes its answer.
func (r *Runner) askState(ctx context.Context, res *resource) (protocol.StateOutput, error) {
	ctx, cancel := r.containers.Stop.Context(ctx)
	defer cancel()
	var out protocol.StateOutput
	var malformed error
	call := r.stateCall(res)
	call.Learn = func(answer []byte) {
		if out, malformed = protocol.DecodeState(answer); malformed == nil {
			r.learn(res, out)
		}
	}
	got, err := r.invoker.Call(ctx, &res.target, call)
	res.output, res.question = got.Tail.Lines(), got.Asked
	if err != nil {
		return protocol.StateOutput{}, err
	}
	if got.Exit.Code != 0 {
		return protocol.StateOutput{}, r.exitError("state", got)
	}
	if malformed != nil {
		return protocol.StateOutput{}, fmt.Errorf("state of %s: %w", res.Type, r.secrets.MaskAnswerError(malformed, got.Answer, func(text []byte) error {
			_, err := protocol.DecodeState(text)
			return err
		}))
	}
	if out.Status == protocol.Conflict {
		return protocol.StateOutput{}, fmt.Errorf("state of %s: %w", res.Type, &conflict{message: r.secrets.Mask(out.Message), things: out.Things()})
	}
	keep := out.Keep
	if res.ensure == protocol.Absent && out.Status == protocol.Valid && res.init.Keeps {
		keep = map[string]any{} // of what is gone
	}
	if err := r.remember(ctx, res, keep); err != nil {
		return protocol.StateOutput{}, fmt.Errorf("state of %s: %w", res.Type, err)
	}
	return out, nil
}

func (r *Runner) stateCall(res *resource) invoke.Call {
	return invoke.Call{
		Action: "state", Attempt: 1, Invocation: res.init.StateAction, Input: r.stateInput(res), Answers: true,
		Keeps: res.init.Keeps, Discreet: res.marksSecrets(),
	}
}

// learn makes secret what a state answer has at places that the type's schemas mark as
// secret, in a state or in a configuration: an old password is one, too.
func (r *Runner) learn(res *resource, out protocol.StateOutput) {
	r.learnFormer(res, out.StaleState)
	for _, state := range []map[string]any{out.State, out.StaleState, out.PlannedState, out.Keep} {
		r.learnIn(res, state)
	}
}

// learnFormer makes secret what a type has found at places where the configuration has
// secrets of variables, and where something else was found: that holds the former ones.
func (r *Runner) learnFormer(res *resource, found map[string]any) {
	for _, path := range res.hiding {
		r.secrets.Add(hidden.Former(schema.Within(found, path), schema.Within(res.config, path)), [][]string{{}})
	}
}

func (r *Runner) learnIn(res *resource, state map[string]any) {
	for _, s := range []*schema.Schema{res.schema, res.states} {
		if s == nil || state == nil {
			continue
		}
		paths := s.Secrets(protocol.ReplaceUnknown(state, nil))
		r.secrets.Add(state, paths)
		res.target.Secret.Add(paths)
	}
}

func (r *Runner) stateInput(res *resource) protocol.StateInput {
	in := protocol.StateInput{InitInput: r.initInput(res), Config: res.asked(), ID: r.id(res), Interrupted: res.past.Interrupted}
	if res.init.Keeps {
		if in.Kept = res.past.Kept; in.Kept == nil {
			in.Kept = map[string]any{}
		}
	}
	if res.init.Removable {
		in.Ensure = cmp.Or(res.ensure, protocol.Present)
	}
	if res.adopted != nil {
		in.Adopt = res.adopted.ID
	}
	return in
}

// misconfigured puts the error of an expression at its place in the manifest.
func (r *Runner) misconfigured(res *resource, err error) error {
	var elsewhere *manifest.Error // what it reads of a module, or is given
	if errors.As(err, &elsewhere) {
		return redact.Error(r.secrets, elsewhere)
	}
	var where *expression.PathError
	var path []string
	if errors.As(err, &where) {
		path, err = where.Path, where.Err
	}
	return &manifest.Error{Problems: []manifest.Problem{{
		Position: res.At(path...),
		Path:     res.Path(path...),
		Message:  r.secrets.Mask(err.Error()),
	}}}
}

// exitError is the error of a container that ended with something else than 0.
func (r *Runner) exitError(action string, got invoke.Result) error {
	output := got.Tail.Excerpt()
	if output == "" {
		answer := r.secrets.Mask(string(got.Answer)) // whole, since a part of a secret is not known for one
		output = strings.TrimSpace(answer[:min(len(answer), 500)])
	}
	if output == "" {
		return failure.Because(report.ReasonProgramFailed, fmt.Errorf("%s %s and printed nothing", action, got.Exit))
	}
	return failure.Because(report.ReasonProgramFailed, fmt.Errorf("%s %s: %s", action, got.Exit, output))
}
