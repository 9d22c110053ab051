package record

import (
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Target is the target of the pipeline with that name.
func Target(pipeline string) deploylog.Target { return deploylog.Target("pipeline/" + pipeline) }

// StageTarget is the target of a stage of a pipeline.
func StageTarget(pipeline, stage string) deploylog.Target {
	return deploylog.Target("stage/" + definition.Path(pipeline, stage))
}

// GroupTarget is the target of a host group of a pipeline.
func GroupTarget(pipeline, group string) deploylog.Target {
	return deploylog.Target("host-group/" + definition.Path(pipeline, group))
}

// HostTarget is the target of a host as a member of a host group: a host may be
// in several, of several pipelines, and each of them deploys to it.
func HostTarget(pipeline, group, host string) deploylog.Target {
	return deploylog.Target("host/" + definition.Path(pipeline, group) + "/" + host)
}

// NameOf is the pipeline of a target of any of its kinds.
func NameOf(t deploylog.Target) (name string, ok bool) {
	switch t.Kind() {
	case "pipeline", "stage", "host-group", "host":
	default:
		return "", false
	}
	_, path, _ := strings.Cut(string(t), "/")
	name, _, _ = strings.Cut(path, "/")
	return name, name != ""
}

// GroupOf is the host group in which a host target is, member or not.
func GroupOf(t deploylog.Target) (group deploylog.Target, host string, ok bool) {
	path, ok := strings.CutPrefix(string(t), "host/")
	i := strings.LastIndexByte(path, '/')
	if !ok || i < 0 {
		return "", "", false
	}
	return deploylog.Target("host-group/" + path[:i]), path[i+1:], true
}
