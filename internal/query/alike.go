package query

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	environmentreason "github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// Alike is something that is to be said of several hosts in the same words: that of the first
// of them, and the names of all. Of one host, or of what is no host's, it has no names.
type Alike[T any] struct {
	First T
	Hosts []string
}

// MarshalJSON writes the first with the names under hosts.
func (a Alike[T]) MarshalJSON() ([]byte, error) {
	first, err := json.Marshal(a.First)
	if err != nil || len(a.Hosts) == 0 {
		return first, err
	}
	hosts, err := json.Marshal(a.Hosts)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `%s,"hosts":%s}`, strings.TrimSuffix(string(first), "}"), hosts), nil
}

const (
	fewAlike  = 3 // hosts of which the same is said in the same words: from then on it is said once
	manyAlike = 6 // and those with words of their own, such as the output of their runs
)

// hostText is what is said of a host: with which others of its kind it may be said, its name,
// and what of the words is its own.
type hostText[K comparable] struct {
	key        K
	host, text string
}

// alike says once what is to be said of many hosts. All says each, as is what is no host's.
func alike[T any, K comparable](list []T, all bool, of func(T) (hostText[K], bool)) []Alike[T] {
	groups := map[K][]hostText[K]{}
	for _, item := range list {
		if h, ok := of(item); ok {
			groups[h.key] = append(groups[h.key], h)
		}
	}
	once := map[K]bool{}
	for key, group := range groups {
		same := true
		for _, h := range group {
			same = same && h.text == group[0].text
		}
		once[key] = !all && (same && len(group) >= fewAlike || len(group) >= manyAlike)
	}
	folded, said := []Alike[T]{}, map[K]bool{}
	for _, item := range list {
		h, ok := of(item)
		switch {
		case !ok || !once[h.key]:
			folded = append(folded, Alike[T]{First: item})
		case !said[h.key]:
			said[h.key] = true
			a := Alike[T]{First: item}
			for _, other := range groups[h.key] {
				a.Hosts = append(a.Hosts, other.host)
			}
			folded = append(folded, a)
		}
	}
	return folded
}

// hostOf takes the target of a host of a pipeline apart.
func hostOf(t deploylog.Target) (group, host string, ok bool) {
	path, ok := strings.CutPrefix(string(t), "host/")
	i := strings.LastIndexByte(path, '/')
	if !ok || i < 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// AlikeReasons has one reason for hosts of a group that do not move for the same one; all
// keeps each.
func AlikeReasons(reasons []reason.Reason, all bool) []Alike[reason.Reason] {
	type key struct {
		code                                      reason.Code
		deployment, event, group, holder, byEvent string
	}
	return alike(reasons, all, func(r reason.Reason) (hostText[key], bool) {
		group, host, ok := hostOf(r.Target)
		return hostText[key]{key{r.Code, r.Deployment, r.Event, group, r.Holder, r.ByEvent}, host, r.Cause}, ok
	})
}

// AlikeChanges has one change for hosts of a group for which it is the same; all keeps each.
func AlikeChanges(changes []pipeline.Change, all bool) []Alike[pipeline.Change] {
	type key struct {
		effect                                      pipeline.Effect
		deployment, event, group, manifest, instead string
		code                                        reason.Code
	}
	return alike(changes, all, func(c pipeline.Change) (hostText[key], bool) {
		group, host, ok := hostOf(c.Target)
		return hostText[key]{key{c.Effect, c.Deployment, c.Event, group, c.Manifest, c.Instead, c.Reason.Code}, host, ""}, ok
	})
}

// AlikeTasks has one reason for the tasks of a revision for which it is the same; all keeps each.
func AlikeTasks(reasons []environmentreason.Reason, all bool) []Alike[environmentreason.Reason] {
	type key struct {
		code     environmentreason.Code
		revision string // of the environment
	}
	return alike(reasons, all, func(r environmentreason.Reason) (hostText[key], bool) {
		i := strings.LastIndexByte(r.Target, '/')
		if !strings.HasPrefix(r.Target, "task/") || i < 0 {
			return hostText[key]{}, false
		}
		return hostText[key]{key{r.Code, r.Target[:i]}, r.Target[i+1:], r.Message}, true
	})
}
