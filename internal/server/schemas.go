package server

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	environmentreason "github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/duration"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// The types below are what others are as JSON that write themselves.

// PipelineReason is a reason of a pipeline.
type PipelineReason struct {
	reason.Reason
	Why     reason.Code `json:"why"`
	Message string      `json:"message"`
	Says    string      `json:"says"`
	Change  string      `json:"change"`
}

// PipelineReasons is one that is said of several hosts.
type PipelineReasons struct {
	PipelineReason
	Hosts   []string                 `json:"hosts,omitempty" doc:"All of which the same is said."`
	Causes  map[string]string        `json:"causes,omitempty"`
	LeftOut map[string]query.LeftOut `json:"left_out,omitempty"`
}

// EnvironmentReason is a reason of an environment.
type EnvironmentReason struct {
	environmentreason.Reason
	Says string `json:"says"`
}

// describe has the document describe types as they are written.
func describe(schemas huma.Registry) {
	schemas.RegisterTypeAlias(reflect.TypeFor[budget.Budget](), reflect.TypeFor[string]())
	schemas.RegisterTypeAlias(reflect.TypeFor[duration.Duration](), reflect.TypeFor[string]())
	schemas.RegisterTypeAlias(reflect.TypeFor[query.Alike[reason.Reason]](), reflect.TypeFor[PipelineReasons]())
	schemas.RegisterTypeAlias(reflect.TypeFor[reason.Reason](), reflect.TypeFor[PipelineReason]())
	schemas.RegisterTypeAlias(reflect.TypeFor[environmentreason.Reason](), reflect.TypeFor[EnvironmentReason]())
}

// schemaName is what the schema of a type is called. Many packages have types of the same name,
// such as definitions: their names are in it.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	room, is := strings.CutPrefix(t.PkgPath(), module+"/")
	if room = strings.TrimPrefix(room, "internal/"); !is || room == "server" || room == "deploylog" {
		return name
	}
	prefix, last := "", ""
	for element := range strings.SplitSeq(room, "/") {
		last = strings.ToUpper(element[:1]) + element[1:]
		prefix += last
	}
	return prefix + strings.TrimPrefix(name, last)
}

// module is where the packages of this program are.
var module = strings.TrimSuffix(reflect.TypeFor[Server]().PkgPath(), "/internal/server")
