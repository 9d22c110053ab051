package object

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// An application of Argo CD says with what its objects were compared, which may be a revision that
// nobody has applied: it runs that once it is Synced, and until then what was applied last.

// errSources is that an application has more than one source.
var errSources = errors.New("it has several sources, with a revision each: name the one that counts with revision, such as revision: '{.status.history[-1:].revisions[0]}'")

const isSynced = "Synced"

// argoRevision is what an application runs; errNothing is that it says nothing of that.
func argoRevision(live map[string]any) (any, error) {
	sync, spec := within(live, "status", "sync"), within(live, "spec")
	revisions, _ := sync["revisions"].([]any)
	if sources, _ := spec["sources"].([]any); len(revisions) > 0 || len(sources) > 0 {
		return nil, errSources
	}
	from := sync
	if texts(sync, "status") != isSynced {
		all, _ := within(live, "status")["history"].([]any)
		if len(all) == 0 {
			return nil, errNothing
		}
		from, _ = all[len(all)-1].(map[string]any)
	}
	if from["revision"] == nil {
		return nil, errNothing
	}
	return from["revision"], nil
}

// byHand reports whether people sync an application.
func byHand(live map[string]any) bool {
	automated, is := within(live, "spec", "syncPolicy")["automated"].(map[string]any)
	enabled, says := automated["enabled"].(bool)
	return !is || says && !enabled
}

// outOfSync reports whether an application differs from what it was compared with, which is another revision
// than the one that was applied last.
func outOfSync(live map[string]any) bool {
	return texts(live, "status", "sync", "status") == "OutOfSync" && comparedWithAnother(live)
}

// comparedWithAnother reports whether an application was compared with another revision than the one that was
// applied last.
func comparedWithAnother(live map[string]any) bool {
	sync := within(live, "status", "sync")
	all, _ := within(live, "status")["history"].([]any)
	if len(all) == 0 {
		return false
	}
	last, is := all[len(all)-1].(map[string]any)
	return is && !reflect.DeepEqual([]any{sync["revision"], sync["revisions"]}, []any{last["revision"], last["revisions"]})
}

// readsHistory reports whether the revision of an application is what was applied, if another one is
// compared.
func (o *Object) readsHistory() bool {
	names := fields(o.Revision)
	return o.Revision == "" || len(names) > 1 && names[0] == "status" && names[1] == "history"
}

// comparedSince reports whether an application was compared since its last sync ended. Until then its
// health is that of what ran before. Argo CD writes whole seconds, so of two times in one second either
// may be the later one.
func comparedSince(live map[string]any) bool {
	all, _ := within(live, "status")["history"].([]any)
	var last map[string]any
	if len(all) > 0 {
		last, _ = all[len(all)-1].(map[string]any)
	}
	compared, _ := time.Parse(time.RFC3339, texts(live, "status", "reconciledAt"))
	for _, ended := range []string{texts(live, "status", "operationState", "finishedAt"), texts(last, "deployedAt")} {
		if at, err := time.Parse(time.RFC3339, ended); ended != "" && (err != nil || !compared.After(at)) {
			return false
		}
	}
	return true
}

// argo is what an application waits for.
func (o *Object) argo(live map[string]any) string {
	for _, field := range []string{"repoURL", "path", "chart", "targetRevision"} {
		seen := texts(live, "status", "sync", "comparedTo", "source", field)
		if wanted := texts(live, "spec", "source", field); seen != "" && seen != wanted {
			return fmt.Sprintf("its controller has not looked at it since its %s was changed from %s to %s", field, said(seen), said(wanted))
		}
	}
	last := within(live, "status", "operationState")
	phase := texts(last, "phase")
	switch {
	case phase == "Running" || phase == "Terminating": // also between the retries of a sync
		return sentence("its sync is "+phase, texts(last, "message"))
	case live["operation"] != nil:
		return "a sync of it was asked for, and has not begun"
	}
	// The revision that is compared moves on with each commit, whether the failed sync was repeated or not.
	if phase == "Failed" || phase == "Error" {
		return sentence("its sync is "+phase, texts(last, "message"))
	}
	if status := texts(live, "status", "sync", "status"); status != isSynced && (o.suspended(live) == "" || !o.readsHistory()) {
		return "its sync status is " + orNone(status)
	}
	if comparedWithAnother(live) && !comparedSince(live) {
		return "its controller has not compared it since its last sync ended; to have it compared now: argocd app get NAME --refresh"
	}
	if health := texts(live, "status", "health", "status"); health != "Healthy" {
		return sentence("its health is "+orNone(health), texts(live, "status", "health", "message"))
	}
	return ""
}
