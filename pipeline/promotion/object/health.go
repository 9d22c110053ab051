package object

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/rollout"
)

// mostSaid is how much of what a controller says is told, in bytes.
const mostSaid = 200

// waits is what the object waits for until it is well, "" where it is. It fails where that cannot
// be told.
func (o *Object) waits(live map[string]any) (string, error) {
	if o.ofFlux() && o.suspended(live) != "" {
		return o.waitsSuspended(live)
	}
	generation, _ := number(live, "metadata", "generation")
	if c := readyOf(live); o.saysByCondition() && texts(c, "status") != "True" {
		// Flux counts a generation as observed only when it succeeds, so a failure is told by the condition.
		if of, has := number(c, "observedGeneration"); has && of >= generation {
			return condition(live, generation), nil
		}
	}
	if unseen := unobserved(live, generation); unseen != "" {
		return unseen, nil
	}
	switch {
	case o.Ready != "":
		return o.saysReady(live)
	case o.known(application):
		return o.argo(live), nil
	case o.workload():
		return rolledOut(o.Kind, live), nil
	}
	if why := condition(live, generation); why != "" {
		return why, nil
	}
	return o.differs(live), nil
}

// saysByCondition reports whether only the condition Ready says whether the object is well.
func (o *Object) saysByCondition() bool {
	return o.Ready == "" && !o.known(application) && !o.workload()
}

// unseen reports whether the object was changed since its controller has looked at it.
func (o *Object) unseen(live map[string]any) bool {
	generation, _ := number(live, "metadata", "generation")
	if !o.workload() && !o.saysByCondition() || o.ofFlux() && o.suspended(live) != "" {
		return false
	}
	seen, looked := number(live, "status", "observedGeneration")
	c := readyOf(live)
	of, has := number(c, "observedGeneration")
	failed := texts(c, "status") == "False" && has && of >= generation
	return !failed && (looked && 0 < seen && seen < generation || o.saysByCondition() && has && of < generation)
}

// pods are those of a workload.
func (o *Object) pods(live map[string]any) Pods {
	if !o.workload() {
		return Pods{}
	}
	p, _ := rollout.Of(o.Kind, live)
	return Pods{Wanted: p.Wanted, Serving: min(p.Updated, p.Available)}
}

// unobserved returns why the status may be of an older generation, or "".
func unobserved(live map[string]any, generation int64) string {
	value, has := within(live, "status")["observedGeneration"]
	if !has || value == nil {
		return ""
	}
	seen, ok := number(live, "status", "observedGeneration")
	if text, is := value.(string); is { // Argo Rollouts writes a text
		n, err := strconv.ParseInt(text, 10, 64)
		seen, ok = n, err == nil
	}
	switch {
	case !ok:
		return fmt.Sprintf("its status.observedGeneration is no number: %s", said(fmt.Sprint(value)))
	case seen >= generation:
		return ""
	case seen <= 0: // Flux says -1 until its controller has looked
		return "its controller has not looked at it yet"
	}
	return fmt.Sprintf("its controller has not looked at it since it was changed: it has seen generation %d of %d", seen, generation)
}

// differs returns how the revision that a controller of Flux attempted last differs from the one
// that runs, or "". The controller writes conditions first and revisions some milliseconds later,
// so a ready object may still name the revision before.
func (o *Object) differs(live map[string]any) string {
	if !o.known(kustomization) && !o.known(helmRelease) {
		return ""
	}
	attempted := texts(live, "status", "lastAttemptedRevision")
	runs := texts(live, "status", "lastAppliedRevision")
	if o.known(helmRelease) && history(live) != nil {
		version, _ := released(live)
		runs, _ = version.(string)
	}
	if attempted == "" || attempted == runs {
		return ""
	}
	return fmt.Sprintf("it attempted %s last, and runs %s", said(attempted), orNone(runs))
}

// saysReady looks at where a definition says that the object says whether it is well.
func (o *Object) saysReady(live map[string]any) (string, error) {
	path, wanted := splitReady(o.Ready)
	value, err := find(path, live)
	if errors.Is(err, errNothing) {
		return "it does not say whether it is ready: there is nothing at " + path, nil
	}
	if err != nil {
		return "", err
	}
	text := said(fmt.Sprint(value))
	if wanted == "" && strings.EqualFold(text, "true") || wanted != "" && text == wanted {
		return "", nil
	}
	if wanted == "" {
		wanted = "True"
	}
	return fmt.Sprintf("%s is %s, not %s", path, text, wanted), nil
}

// ready is the condition by which objects say whether they are well.
const ready = "Ready"

// condition is what the condition of an object waits for.
func condition(live map[string]any, generation int64) string {
	c := readyOf(live)
	seen, has := number(c, "observedGeneration")
	switch {
	case c == nil:
		return "it has no condition " + ready + " yet"
	case has && seen < generation:
		return fmt.Sprintf("its condition %s is of generation %d, and it was changed since: %d", ready, seen, generation)
	case texts(c, "status") == "True":
		return ""
	}
	return sentence(fmt.Sprintf("its condition %s is %s", ready, orNone(texts(c, "status"))), texts(c, "reason"), texts(c, "message"))
}

// readyOf is that condition; nil where there is none.
func readyOf(live map[string]any) map[string]any {
	status, _ := live["status"].(map[string]any)
	all, _ := status["conditions"].([]any)
	for _, one := range all {
		if c, _ := one.(map[string]any); texts(c, "type") == ready {
			return c
		}
	}
	return nil
}

// atWork reports whether its controller only says that it is at work, of what it had seen before:
// those of Flux do so at each interval, whether there is anything to do or not.
func (o *Object) atWork(live map[string]any) bool {
	if !o.saysByCondition() {
		return false
	}
	generation, _ := number(live, "metadata", "generation")
	c := readyOf(live)
	of, has := number(c, "observedGeneration")
	seen, looked := number(live, "status", "observedGeneration")
	return looked && seen >= generation && (!has || of >= generation) && texts(c, "status") == "Unknown" && texts(c, "reason") == "Progressing"
}

const wantsNone = "it wants no Pod, so nothing of it runs"

// rolledOut is what a workload waits for: as many Pods as it wants, all of its newest template and
// available, and no others. Those that an update strategy leaves as they are count, too: the stage
// runs the revision of the template only when all do.
func rolledOut(kind string, live map[string]any) string {
	p, _ := rollout.Of(kind, live)
	switch now, next := texts(live, "status", "currentRevision"), texts(live, "status", "updateRevision"); {
	case !p.Seen:
		return "its controller has not looked at it yet"
	case kind == statefulSet && now != next && !replacedByHand(live, p):
		return "not all of its Pods are of its newest template: " + now + " gives way to " + next
	case p.Wanted == 0:
		return wantsNone
	}
	return p.Waits(p.Wanted)
}

// replacedByHand reports whether people have deleted all Pods of older templates of a StatefulSet
// that updates on deletion. Its status.currentRevision stays at the older template then.
func replacedByHand(live map[string]any, p rollout.Progress) bool {
	return texts(live, "spec", "updateStrategy", "type") == "OnDelete" && p.Updated == p.Wanted
}

// sentence is what is so, and what others say of that, as far as they do.
func sentence(what string, reasons ...string) string {
	for _, text := range reasons {
		if text = said(text); text != "" {
			what += ": " + text
		}
	}
	return what
}

func orNone(text string) string {
	if text == "" {
		return "not known yet"
	}
	return said(text)
}

// said is the beginning of a text of others, in one line.
func said(text string) string {
	return phrase.Cut(strings.Join(strings.Fields(phrase.Plain(strings.ToValidUTF8(text, ""))), " "), mostSaid)
}
