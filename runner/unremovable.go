package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

// refuseUnremovable refuses what must not be removed, or has a type that cannot, and returns
// it.
func (d *removal) refuseUnremovable(ctx context.Context) (bad []*resource) {
	for _, res := range d.toDestroy {
		if d.keeps(res) && !d.inPart(res) {
			continue
		}
		if why := d.unremovable(res); why != nil {
			bad = append(bad, res)
			d.refuse(ctx, res, why)
		}
	}
	return bad
}

// unremovable is why a resource must not or cannot be removed, nil where it can, as far as that is known
// before its type is asked.
func (r *Runner) unremovable(res *resource) error {
	now := r.spec.Manifest.Kin(res.Name) // of an instance that is gone its for_each decides
	problem := manifest.Problem{Position: res.Position, Path: "resources." + res.Name}
	code := report.ReasonNotRemovable
	switch {
	case res.PreventDestroy && res.orphan:
		code = report.ReasonPrevented
		problem.Message = fmt.Sprintf(`%s is an orphan, and not removed, as it was made with prevent_destroy: true; if it is to go, remove it by hand, then "deployster state forget %s", or declare it again without, and apply that`, res.undeclared.Target(), res.undeclared.Reference())
	case res.PreventDestroy && (now == nil || !now.PreventDestroy):
		code = report.ReasonPrevented
		problem.Message = "it is no longer declared, and not removed, as it was made with prevent_destroy: true; if it is to go, declare it again without, apply that, and then remove it"
	case res.PreventDestroy:
		code = report.ReasonPrevented
		problem.Position, problem.Message = now.PreventedAt(), `it is not removed: its prevent_destroy is true; set that to false first, if it is to go`
	case !res.init.Removable && !res.unprepared && res.undeclared != nil:
		problem.Message = fmt.Sprintf(`it is no longer declared, and its type %s cannot remove it: its init does not answer "removable": true; remove it by hand if it is to go, and then "deployster state forget %s"`, res.Type, res.undeclared.Reference())
	case !res.init.Removable && !res.unprepared:
		problem.Message = fmt.Sprintf(`its type %s cannot remove it: its init does not answer "removable": true; "readonly: true" would leave it alone`, res.Type)
	default:
		return nil
	}
	return failure.Because(code, &manifest.Error{Problems: []manifest.Problem{problem}})
}

// advise adds to a refusal how to remove the rest: that on which nothing bad
// depends.
func (d *removal) advise(err error, bad []*resource, ways string) error {
	if err == nil || errors.Is(err, ErrInterrupted) {
		return err
	}
	const most = 8
	g, stays := d.order(), map[string]bool{}
	for _, res := range bad {
		stays[res.node()] = true
		maps.Copy(stays, g.Downstream(res.node()))
	}
	goes := func(res *resource) bool { return d.removes(res) && !stays[res.node()] }
	var targets []string
	for _, res := range slices.Backward(d.removed()) {
		// A target takes along what depends on it.
		if res.orphan && goes(res) {
			targets = append(targets, "--target "+res.undeclared.Target())
			continue
		}
		along := res.undeclared != nil || slices.ContainsFunc(res.dependsOn, func(name string) bool { return slices.ContainsFunc(d.behind(name), goes) })
		if goes(res) && !along {
			targets = append(targets, "--target "+res.Name)
		}
	}
	if len(targets) == 0 {
		return err
	}
	if len(targets) > most {
		targets = append(targets[:most], "…")
	}
	advice := "nothing was removed; the rest can be, with " + ways + strings.Join(targets, " ")
	var invalid *manifest.Error
	if errors.As(err, &invalid) {
		invalid.Problems = append(invalid.Problems, manifest.Problem{Message: advice})
		return err
	}
	var failed *failure.Error
	if errors.As(err, &failed) {
		failed.Causes = append(failed.Causes, errors.New(advice))
	}
	return err
}

// unknownConfiguration explains why a type cannot be asked about a resource.
func unknownConfiguration(res *resource, s finding, findings map[string]finding) error {
	var why []string
	for _, name := range s.lacks {
		switch d := findings[name]; {
		case d.err != nil:
			why = append(why, fmt.Sprintf("%s, which could not be read (%v)", name, d.err))
		case len(d.lacks) > 0:
			why = append(why, name+", which is not known either")
		default:
			why = append(why, name+", which does not exist")
		}
	}
	return failure.Because(report.ReasonUnknown, fmt.Errorf(
		"its type cannot be asked whether it is there: its configuration (%s) needs the state of %s; apply first, so that it can be asked",
		res.At(), strings.Join(why, ", and of ")))
}
