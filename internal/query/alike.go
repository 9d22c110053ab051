package query

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deployster-go/deployster/deploylog"
	environmentreason "github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// Alike is something that is to be said of several hosts: that of the first of them, and the
// names of all. Of one host, or of what is no host's, it has no names.
type Alike[T any] struct {
	First  T
	Hosts  []string
	Causes map[string]string // by host, where they are too many to be said and differ

	LeftOut map[string]LeftOut // of the hosts and the causes, in a document that is bounded
}

// Name is a target, how many others there are of which the same is said, and whether what is
// said of it is only of its kind.
func (a Alike[T]) Name(target string) string {
	switch more := len(a.Hosts) - 1; {
	case more < 1:
		return target
	case len(a.Causes) > 0:
		return fmt.Sprintf("%s, and %d more with causes of their own (--all)", target, more)
	default:
		return fmt.Sprintf("%s and %d more", target, more)
	}
}

// MarshalJSON writes the first with the names under hosts.
func (a Alike[T]) MarshalJSON() ([]byte, error) {
	first, err := json.Marshal(a.First)
	if err != nil || len(a.Hosts) == 0 {
		return first, err
	}
	others, err := json.Marshal(struct {
		Hosts   []string           `json:"hosts"`
		Causes  map[string]string  `json:"causes,omitempty"`
		LeftOut map[string]LeftOut `json:"left_out,omitempty"`
	}{a.Hosts, a.Causes, a.LeftOut})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s,%s", strings.TrimSuffix(string(first), "}"), others[1:]), nil
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

// words are those in which the same is said of hosts of one kind.
type words[K comparable] struct {
	key  K
	text string
	own  bool // they are of each another
}

// alike says once what is to be said of many hosts in the same words, but for the names of the
// hosts, and once what is left of their kind where it is much. All says each, as is what is no
// host's.
func alike[T any, K comparable](list []T, all bool, of func(T) (hostText[K], bool)) []Alike[T] {
	hosts := map[int]hostText[K]{} // by position in the list
	count := map[words[K]]int{}
	for i, item := range list {
		if h, ok := of(item); ok && !all {
			hosts[i] = h
			count[words[K]{key: h.key, text: h.text}]++
			if nameless := withoutName(h.text, h.host); nameless != h.text {
				count[words[K]{key: h.key, text: nameless}]++
			}
		}
	}
	wordsOf := func(h hostText[K]) words[K] {
		for _, text := range []string{h.text, withoutName(h.text, h.host)} {
			if w := (words[K]{key: h.key, text: text}); count[w] >= fewAlike {
				return w
			}
		}
		return words[K]{key: h.key, own: true}
	}
	groups := map[words[K]][]hostText[K]{}
	for i := range list {
		if h, ok := hosts[i]; ok {
			groups[wordsOf(h)] = append(groups[wordsOf(h)], h)
		}
	}
	folded, said := []Alike[T]{}, map[words[K]]bool{}
	for i, item := range list {
		h, ok := hosts[i]
		w := wordsOf(h)
		switch group := groups[w]; {
		case !ok || len(group) == 1 || w.own && len(group) < manyAlike:
			folded = append(folded, Alike[T]{First: item})
		case !said[w]:
			said[w] = true
			folded = append(folded, together(item, group, w.own))
		}
	}
	return folded
}

// together says of a group of hosts what is said of the first of them.
func together[T any, K comparable](first T, group []hostText[K], own bool) Alike[T] {
	a := Alike[T]{First: first}
	for _, h := range group {
		a.Hosts = append(a.Hosts, h.host)
		if own {
			if a.Causes == nil {
				a.Causes = map[string]string{}
			}
			a.Causes[h.host] = h.text
		}
	}
	return a
}

// withoutName is a text without the name of a host, as in the paths of its files: what is left
// is what may be said of others, too.
func withoutName(text, host string) string {
	if host == "" {
		return text
	}
	ofName := func(r rune) bool { return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	var b strings.Builder
	rest, before := text, ' '
	for {
		i := strings.Index(rest, host)
		if i < 0 {
			return b.String() + rest
		}
		end := i + len(host)
		if i > 0 {
			before, _ = utf8.DecodeLastRuneInString(rest[:i])
		}
		after, _ := utf8.DecodeRuneInString(rest[end:])
		b.WriteString(rest[:i])
		if ofName(before) || ofName(after) {
			b.WriteString(host)
		} else {
			b.WriteByte(0) // of which there is none in a text
		}
		before, _ = utf8.DecodeLastRuneInString(host)
		rest = rest[end:]
	}
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
func AlikeChanges(changes []effect.Change, all bool) []Alike[effect.Change] {
	type key struct {
		effect                                      effect.Effect
		deployment, event, group, manifest, instead string
		code                                        reason.Code
	}
	return alike(changes, all, func(c effect.Change) (hostText[key], bool) {
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
