// Package readiness judges by its status whether an object of Kubernetes is as its
// specification wants it: rolled out, established, finished, or ready by its own conditions.
package readiness

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/rollout"
	"github.com/deployster-go/deployster/resources/internal/kubeapi"
)

// Verdict is what the status of an object says.
type Verdict struct {
	Ready  bool
	Failed bool   // it will not be ready by itself
	Why    string // it is not ready
}

var ready = Verdict{Ready: true}

func waiting(format string, args ...any) Verdict { return Verdict{Why: fmt.Sprintf(format, args...)} }

func failed(why string) Verdict { return Verdict{Failed: true, Why: why} }

// Matters reports whether objects of a kind are anything but ready once they are there. Of kinds
// that are not Kubernetes' own nobody knows.
func Matters(apiVersion, kind string) bool {
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		group = ""
	}
	if judges[kindOf{group, kind}] != nil {
		return kind != "Namespace" // which can be used at once
	}
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") || group == "apiregistration.k8s.io"
}

// Of judges an object.
func Of(object map[string]any) Verdict {
	if kubeapi.Text(object, "metadata", "deletionTimestamp") != "" {
		return waiting("it is being deleted")
	}
	apiVersion := kubeapi.Text(object, "apiVersion")
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		group = ""
	}
	if judge := judges[kindOf{group, kubeapi.Text(object, "kind")}]; judge != nil {
		return judge(object)
	}
	return byConditions(object)
}

type kindOf struct{ group, kind string }

var judges = map[kindOf]func(map[string]any) Verdict{
	{"apps", "Deployment"}:  deployment,
	{"apps", "StatefulSet"}: workload,
	{"apps", "DaemonSet"}:   workload,
	{"batch", "Job"}:        job,
	{"", "Pod"}:             pod,
	{"", "Namespace"}:       namespace,
	{"", "Service"}:         service,
	{"apiextensions.k8s.io", "CustomResourceDefinition"}: definition,
}

func deployment(o map[string]any) Verdict {
	if c := condition(o, "Progressing"); observed(o).Ready && c.status == "False" && c.reason == "ProgressDeadlineExceeded" {
		return failed(c.text())
	}
	return workload(o)
}

// workload judges what is rolled out. What its update strategy leaves to people is not waited for.
func workload(o map[string]any) Verdict {
	p, _ := rollout.Of(kubeapi.Text(o, "kind"), o)
	if !p.Seen {
		return observed(o)
	}
	if why := p.Waits(p.Due); why != "" {
		return waiting("%s", why)
	}
	return ready
}

func job(o map[string]any) Verdict {
	if c := condition(o, "Failed"); c.status == "True" {
		return failed(c.text())
	}
	if suspended, _ := kubeapi.At(o, "spec", "suspend").(bool); suspended || condition(o, "Complete").status == "True" {
		return ready
	}
	return waiting("%d of %d completions", number(o, 0, "status", "succeeded"), number(o, 1, "spec", "completions"))
}

func pod(o map[string]any) Verdict {
	switch phase := kubeapi.Text(o, "status", "phase"); {
	case phase == "Failed":
		return failed("it has failed")
	case phase == "Succeeded", condition(o, "Ready").status == "True":
		return ready
	case phase == "":
		return waiting("it has no status yet")
	default:
		return waiting("it is %s", strings.ToLower(phase))
	}
}

func namespace(o map[string]any) Verdict {
	if phase := kubeapi.Text(o, "status", "phase"); phase != "Active" {
		return waiting("it is %s", strings.ToLower(phase))
	}
	return ready
}

func service(o map[string]any) Verdict {
	if kubeapi.Text(o, "spec", "type") != "LoadBalancer" {
		return ready
	}
	if at, _ := kubeapi.At(o, "status", "loadBalancer", "ingress").([]any); len(at) == 0 {
		return waiting("it has no load balancer yet")
	}
	return ready
}

func definition(o map[string]any) Verdict {
	if c := condition(o, "NamesAccepted"); c.status == "False" {
		return failed(c.text())
	}
	if condition(o, "Established").status != "True" {
		return waiting("it is not established yet")
	}
	return ready
}

// byConditions judges what is no kind of Kubernetes' own, by what most controllers agree on. What
// has no such condition is ready.
func byConditions(o map[string]any) Verdict {
	if v := observed(o); kubeapi.At(o, "status", "observedGeneration") != nil && !v.Ready {
		return v
	}
	if c := condition(o, "Stalled"); c.status == "True" {
		return failed(c.text())
	}
	for _, name := range []string{"Ready", "Available"} {
		c := condition(o, name)
		switch {
		case c.status == "":
		case c.generation > 0 && c.generation < number(o, 0, "metadata", "generation"):
			return waiting("its controller has not seen the change yet")
		case c.status != "True":
			return waiting("it is not %s%s", strings.ToLower(name), c.because())
		default:
			return ready
		}
	}
	return ready
}

func observed(o map[string]any) Verdict {
	if number(o, 0, "status", "observedGeneration") < number(o, 0, "metadata", "generation") {
		return waiting("its controller has not seen the change yet")
	}
	return ready
}

type state struct {
	status, reason, message string
	generation              int64
}

func (s state) text() string {
	if s.message == "" {
		return s.reason
	}
	return strings.TrimPrefix(s.reason+": "+s.message, ": ")
}

func (s state) because() string {
	if s.text() == "" {
		return ""
	}
	return ": " + s.text()
}

func condition(o map[string]any, name string) state {
	all, _ := kubeapi.At(o, "status", "conditions").([]any)
	for _, c := range all {
		members, _ := c.(map[string]any)
		if kubeapi.Text(members, "type") == name {
			return state{
				kubeapi.Text(members, "status"), kubeapi.Text(members, "reason"), kubeapi.Text(members, "message"),
				number(members, 0, "observedGeneration"),
			}
		}
	}
	return state{}
}

func number(o map[string]any, otherwise int64, path ...string) int64 {
	n, ok := kubeapi.At(o, path...).(json.Number)
	if !ok {
		return otherwise
	}
	i, err := n.Int64()
	if err != nil {
		return otherwise
	}
	return i
}
