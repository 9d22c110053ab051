package record

import (
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

// Ends reports whether an event ends what had been started of a target before,
// in whichever deployment that was. The markers of the log end only what their
// own deployment started; but with an environment all its deployments and tasks
// end, and of a task or environment there is one start at a time.
func Ends(e deploylog.Event, t deploylog.Target) bool {
	name, ok := NameOf(t)
	if !ok {
		return false
	}
	switch e.Name {
	case EnvironmentDeleted:
		return e.Target == Target(name)
	case EnvironmentStarted, EnvironmentFinished, EnvironmentFailed, TaskStarted, TaskFinished, TaskFailed, TaskTerminated:
		return e.Target == t
	default:
		return false
	}
}

// Target is the target of an environment.
func Target(name string) deploylog.Target { return deploylog.Target("environment/" + name) }

// TaskTarget is the target of the task of a revision on a host.
func TaskTarget(name string, revision int, host string) deploylog.Target {
	return deploylog.Target("task/" + name + "/" + strconv.Itoa(revision) + "/" + host)
}

// NameOf is the environment of a target of any of its kinds.
func NameOf(t deploylog.Target) (name string, ok bool) {
	if name, ok = strings.CutPrefix(string(t), "environment/"); ok {
		return name, name != ""
	}
	name, _, _, ok = TaskOf(t)
	return name, ok
}

// TaskOf takes the target of a task apart.
func TaskOf(t deploylog.Target) (name string, revision int, host string, ok bool) {
	path, ok := strings.CutPrefix(string(t), "task/")
	if !ok {
		return "", 0, "", false
	}
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", 0, "", false
	}
	path, host = path[:i], path[i+1:]
	if i = strings.LastIndexByte(path, '/'); i < 1 {
		return "", 0, "", false
	}
	revision, err := strconv.Atoi(path[i+1:])
	return path[:i], revision, host, err == nil && revision > 0 && host != ""
}
