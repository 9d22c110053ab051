// Package rollout reads how far a workload of Kubernetes is: how many of its Pods are of the
// newest template, and can be used. It decides for all who wait for workloads when these are
// there, as `kubectl rollout status` does.
package rollout

import (
	"encoding/json"
	"fmt"
)

// Progress is what a Deployment, StatefulSet or DaemonSet says of its Pods.
type Progress struct {
	Seen      bool  // its controller has looked at the newest specification
	Wanted    int64 // how many there are to be
	Due       int64 // how many of them are made anew by themselves when the template changes
	Updated   int64 // are of the newest template
	Surplus   int64 // are there beside those that are wanted
	Available int64 // can be used
}

// Of reads the progress of an object; ok is false for other kinds. The kind is one of the API
// group apps, whatever its version.
func Of(kind string, object map[string]any) (p Progress, ok bool) {
	at := func(otherwise int64, path ...string) int64 { return number(object, otherwise, path...) }
	p = Progress{
		Seen:   at(0, "status", "observedGeneration") >= at(0, "metadata", "generation"),
		Wanted: at(1, "spec", "replicas"), Updated: at(0, "status", "updatedReplicas"), Available: at(0, "status", "availableReplicas"),
	}
	p.Surplus = max(at(0, "status", "replicas")-p.Wanted, 0)
	p.Due = p.Wanted
	switch kind {
	case "Deployment":
		return p, true
	case "StatefulSet":
		p.Available = at(at(0, "status", "readyReplicas"), "status", "availableReplicas") // which old clusters do not count
		p.Due = max(p.Wanted-at(0, "spec", "updateStrategy", "rollingUpdate", "partition"), 0)
	case "DaemonSet":
		p.Wanted = at(0, "status", "desiredNumberScheduled")
		p.Due, p.Updated, p.Surplus, p.Available = p.Wanted, at(0, "status", "updatedNumberScheduled"), 0, at(0, "status", "numberAvailable")
	default:
		return Progress{}, false
	}
	if strategy, _ := within(object, "spec", "updateStrategy", "type").(string); strategy == "OnDelete" {
		p.Due = 0 // people delete Pods, and only these are made anew
	}
	return p, true
}

// Waits is what is still to come until so many Pods are of the newest template, all are
// available, and none is too many; "" is nothing.
func (p Progress) Waits(updated int64) string {
	switch {
	case p.Updated < updated:
		return fmt.Sprintf("%d of %d Pods are of its newest template", p.Updated, updated)
	case p.Surplus > 0:
		return fmt.Sprintf("Pods of before are still there: %d", p.Surplus)
	case p.Available < p.Wanted:
		return fmt.Sprintf("%d of %d Pods are available", p.Available, p.Wanted)
	}
	return ""
}

func within(object map[string]any, path ...string) (at any) {
	at = object
	for _, key := range path {
		members, _ := at.(map[string]any)
		at = members[key]
	}
	return at
}

// number is a whole number in any of the forms that decoders give them.
func number(object map[string]any, otherwise int64, path ...string) int64 {
	switch value := within(object, path...).(type) {
	case int64:
		return value
	case float64:
		if n := int64(value); float64(n) == value {
			return n
		}
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
	}
	return otherwise
}
