package object

import (
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/rollout"
)

// mostSaid is how much of what a controller says is told, in bytes.
const mostSaid = 200

// waits is what the object waits for until it is well, "" where it is. It fails where that cannot
// be told.
func (o *Object) waits(live map[string]any) (string, error) {
	generation, _ := number(live, "metadata", "generation")
	if seen, has := number(live, "status", "observedGeneration"); has && seen < generation {
		if seen <= 0 { // Flux says -1 until its controller has looked
			return "its controller has not looked at it yet", nil
		}
		return fmt.Sprintf("its controller has not looked at it since it was changed: it has seen generation %d of %d", seen, generation), nil
	}
	switch {
	case o.Ready != "":
		return o.saysReady(live)
	case o.known(application):
		return argo(live), nil
	case o.workload():
		return rolledOut(o.Kind, live), nil
	}
	return condition(live, generation), nil
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
	if o.Ready != "" || o.known(application) || o.workload() {
		return false
	}
	generation, _ := number(live, "metadata", "generation")
	c := readyOf(live)
	of, has := number(c, "observedGeneration")
	seen, looked := number(live, "status", "observedGeneration")
	return looked && seen >= generation && (!has || of >= generation) && texts(c, "status") == "Unknown" && texts(c, "reason") == "Progressing"
}

// rolledOut is what a workload waits for: as many Pods as it wants, all of its newest template and
// available, and no others. Those that an update strategy leaves as they are count, too: the stage
// runs the revision of the template only when all do.
func rolledOut(kind string, live map[string]any) string {
	p, _ := rollout.Of(kind, live)
	switch now, next := texts(live, "status", "currentRevision"), texts(live, "status", "updateRevision"); {
	case !p.Seen:
		return "its controller has not looked at it yet"
	case kind == statefulSet && now != next:
		return "not all of its Pods are of its newest template: " + now + " gives way to " + next
	case p.Wanted == 0:
		return "it wants no Pod, so nothing of it runs"
	}
	return p.Waits(p.Wanted)
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
