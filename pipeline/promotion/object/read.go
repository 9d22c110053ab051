package object

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
)

// mostRevision is how long a revision may be, in bytes.
const mostRevision = 200

// Reading is what an object runs at one moment.
type Reading struct {
	Revision string // "" is none
	Healthy  bool   // its controllers say that it is well, and runs the revision wholly
	Unknown  bool   // what it runs cannot be told
	Working  bool   // all that keeps it from healthy is that its controller is at work
	Why      string // it is not healthy, or unknown

	Changing  bool // all that keeps it from healthy is that its controller is at work, or has yet to look at a change
	Suspended bool // its controller leaves it as it is
	Declared  bool // of a suspended one: the revision is only what it is to run once somebody resumes it

	// Fewer is why a suspended workload is not well as what it ran before: Pods are missing, whatever template they
	// are of, or some are of its newest one. "" is that it is well.
	// It is nil if the revision is not only declared, and of what is no workload.
	Fewer *string

	Pods Pods // of a workload
}

// Pods are how many of a workload there are.
type Pods struct {
	Wanted  int64
	Serving int64 // of its newest template, and available
}

// Unseen is the reading of an object that cannot be looked at.
func Unseen(why error) Reading { return Reading{Unknown: true, Why: why.Error()} }

// Read reads an object as it is in its cluster; nil is that there is none.
func (o *Object) Read(live map[string]any) Reading {
	if live == nil {
		return Reading{Why: "it does not exist"}
	}
	revision, err := o.revision(live)
	if err != nil && !errors.Is(err, errNothing) {
		return Unseen(err)
	}
	waits, err := o.waits(live)
	if err != nil {
		return Unseen(err)
	}
	r := Reading{Revision: revision, Healthy: waits == "", Why: waits, Pods: o.pods(live)}
	if why := o.suspended(live); why != "" {
		r.Suspended, r.Declared = true, o.declared(live, r.Healthy)
		if r.Declared {
			r.Fewer = o.fewer(live)
		}
		switch {
		case r.Why == "":
			r.Why = why
		case !strings.HasPrefix(r.Why, why):
			r.Why = why + ": " + r.Why
		}
	}
	atWork := !r.Healthy && o.atWork(live)
	r.Working = atWork && o.differs(live) == "" // else the one that runs is being replaced
	r.Changing = atWork || !r.Healthy && o.unseen(live)
	if texts(live, "metadata", "deletionTimestamp") != "" {
		r.Healthy, r.Working, r.Changing, r.Why = false, false, false, "it is being removed"
	}
	switch {
	case revision == "" && !r.Healthy:
		return Reading{Why: r.Why, Suspended: r.Suspended}
	case revision == "":
		return Reading{Why: "it has applied no revision yet: there is nothing at " + o.revisionPath(live), Suspended: r.Suspended}
	}
	return r
}

// The places where objects of kinds that are known say what they run.
const (
	appliedPath = "{.status.lastAppliedRevision}"
	syncPath    = "{.status.sync.revision}"
	syncedPath  = "{.status.history[-1:].revision}"
	chartPath   = "{.status.history[0].chartVersion}"
	imagePath   = "{.spec.template.spec.containers[0].image}"
)

// revisionPath is where the object says what it runs.
func (o *Object) revisionPath(live map[string]any) string {
	switch {
	case o.Revision != "":
		return o.Revision
	case o.known(application) && texts(live, "status", "sync", "status") != isSynced:
		return syncedPath
	case o.known(application):
		return syncPath
	case o.workload():
		return imagePath
	case o.known(helmRelease) && history(live) != nil:
		return chartPath
	}
	return appliedPath
}

func (o *Object) workload() bool {
	return o.known(deployment) || o.known(statefulSet) || o.known(daemonSet)
}

// revision is what the object runs; errNothing is that it says nothing of that.
func (o *Object) revision(live map[string]any) (string, error) {
	var value any
	var err error
	switch {
	case o.Revision == "" && o.known(helmRelease) && history(live) != nil:
		value, err = released(live)
	case o.Revision == "" && o.known(application):
		value, err = argoRevision(live)
	default:
		value, err = find(o.revisionPath(live), live)
	}
	if err != nil {
		return "", err
	}
	text, is := value.(string)
	switch n := value.(type) {
	case int64:
		text, is = strconv.FormatInt(n, 10), true
	case float64:
		text, is = strconv.FormatFloat(n, 'f', -1, 64), true
	}
	if text == "" && is {
		return "", errNothing
	}
	part := o.Part
	if part == All && o.Revision == "" {
		part = o.partByKind(live)
	}
	cut := part.of(text)
	switch {
	case !is, cut != "" && !IsRevision(cut):
		return "", fmt.Errorf("what is at %s is no text or number that can be a revision", o.revisionPath(live))
	case cut == "":
		if part == Path {
			part = Commit
		}
		return "", fmt.Errorf("%q at %s has no %s that could be the revision", phrase.Cut(phrase.Plain(text), mostRevision), o.revisionPath(live), part)
	}
	return cut, nil
}

// IsRevision reports whether a text can be a revision.
func IsRevision(text string) bool {
	return text != "" && len(text) <= mostRevision && text == phrase.Plain(text) && strings.TrimSpace(text) == text
}

// partByKind returns the part that counts if a definition names none.
func (o *Object) partByKind(live map[string]any) Part {
	switch {
	case o.workload():
		return Tag
	case o.known(helmRelease) && fromRegistry(live):
		return Version
	}
	return All
}

// fromRegistry reports whether a release is of a chart from an OCI repository. The controller adds
// the beginning of the digest to its version: 1.0.0+78f492005649.
func fromRegistry(live map[string]any) bool {
	for _, one := range history(live) {
		entry, _ := one.(map[string]any)
		if texts(entry, "status") == "deployed" {
			return texts(entry, "ociDigest") != ""
		}
	}
	return texts(live, "status", "lastAttemptedRevisionDigest") != ""
}

// history is that of a release of Helm; nil where the object has none.
func history(live map[string]any) []any {
	status, _ := live["status"].(map[string]any)
	all, _ := status["history"].([]any)
	return all
}

// released is the version of the chart that was released last without an error.
func released(live map[string]any) (any, error) {
	for _, one := range history(live) {
		entry, _ := one.(map[string]any)
		if texts(entry, "status") == "deployed" && entry["chartVersion"] != nil {
			return entry["chartVersion"], nil
		}
	}
	return nil, errNothing
}

// isDigest reports whether the text is ALGORITHM:HEX, as Flux writes digests and commits.
func isDigest(text string) bool {
	algorithm, sum, _ := strings.Cut(text, ":")
	return strings.HasPrefix(algorithm, "sha") && sum != "" && strings.Trim(sum, "0123456789abcdef") == ""
}

// of is the part of a text, "" where it has none.
func (p Part) of(text string) string {
	name, digest, has := text, "", false
	if at := strings.LastIndexByte(text, '@'); at >= 0 { // a branch may have one in its name
		name, digest, has = text[:at], text[at+1:], true
	}
	bare := !has && isDigest(text) // without a name, as Flux writes it of a pinned source
	switch p {
	case Name:
		if bare {
			return ""
		}
		return name
	case Version:
		version, _, _ := strings.Cut(name, "+")
		return version
	case Digest:
		if bare {
			return text
		}
		return digest
	case Commit, Path:
		if !has { // as Argo CD writes it
			digest = text
		}
		_, after, algorithm := strings.Cut(digest, ":")
		if algorithm {
			digest = after
		}
		if strings.Trim(digest, "0123456789abcdef") != "" {
			return ""
		}
		return digest
	case Tag:
		base := name[strings.LastIndexByte(name, '/')+1:]
		if _, tag, tagged := strings.Cut(base, ":"); tagged {
			return tag
		}
		return digest
	case All:
	}
	return text
}

// within is the object at some keys, nil where there is none.
func within(of map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		of, _ = of[key].(map[string]any)
	}
	return of
}

// texts is the text at some keys, "" where there is none.
func texts(of map[string]any, keys ...string) string {
	text, _ := within(of, keys[:len(keys)-1]...)[keys[len(keys)-1]].(string)
	return text
}

// number is the whole number at some keys.
func number(of map[string]any, keys ...string) (n int64, has bool) {
	switch value := within(of, keys[:len(keys)-1]...)[keys[len(keys)-1]].(type) {
	case int64:
		return value, true
	case float64:
		return int64(value), value == float64(int64(value))
	}
	return 0, false
}
