// Package protocol is what Deployster and a resource type say to each other:
// JSON documents over the stdin and stdout of a container (seed "Deployment
// lifecycle & resource protocol").
//
// A resource type is a container image. Deployster runs it three ways:
//
//	init      the image as it is, no arguments: what plugs, what configuration, how to ask for state
//	state     the state action: is the resource as configured, and if not, which actions make it so
//	actions   one container each, in order; then the state action again, which must answer VALID
//
// A type may also offer to be asked all of that as one long-lived process, a
// line of JSON for each question and answer: ServeRequest and ServeAnswer.
//
// The types here are those documents. DecodeInit and DecodeState are strict:
// an answer that is not exactly one document of the described form is an
// error. Type is the helper for those who write resource types in Go.
package protocol

import "encoding/json"

// InitInput is what the init action reads.
type InitInput struct {
	Name      string `json:"name"`      // the resource's name in the manifest
	Type      string `json:"type"`      // its type, as written in the manifest
	Version   string `json:"version"`   // Deployster's version
	Verbose   bool   `json:"verbose"`   // the user asked for more output
	Workspace string `json:"workspace"` // where the workspace is mounted, read-only
}

// InitOutput is what the init action answers.
type InitOutput struct {
	Plugs        map[string]PlugRequest `json:"plugs,omitempty"`
	ConfigSchema json.RawMessage        `json:"config_schema,omitempty"` // JSON Schema; absent accepts any object
	StateAction  Invocation             `json:"state_action"`
	ServeAction  *Invocation            `json:"serve_action,omitempty"`  // how to start a process that answers many requests
	Removable    bool                   `json:"removable,omitempty"`     // the state action understands "ensure": "absent"
	ActionImages []string               `json:"action_images,omitempty"` // that actions of its answers to state may name
}

// PlugRequest asks for something of the user's machine.
type PlugRequest struct {
	ContainerPath string `json:"container_path"`
	Optional      bool   `json:"optional"` // default false
	Writable      bool   `json:"writable"` // default true
}

// Invocation says how to run an image; what is absent is the image's own.
type Invocation struct {
	Image      string   `json:"image,omitempty"` // default: the resource type's image
	Entrypoint string   `json:"entrypoint,omitempty"`
	Args       []string `json:"args,omitempty"`
}

// Action is one step that brings a resource closer to its configuration.
type Action struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Invocation
}

// StateInput is what the state action reads.
type StateInput struct {
	InitInput
	Config map[string]any `json:"config"`
	Ensure Ensure         `json:"ensure,omitempty"` // only sent to removable types
}

// Ensure is what is wanted of a resource.
type Ensure string

// The values of Ensure; the zero value means Present.
const (
	Present Ensure = "present"
	Absent  Ensure = "absent"
)

// StateOutput is what the state action answers.
type StateOutput struct {
	Status     Status         `json:"status"`
	State      map[string]any `json:"state,omitempty"`      // VALID only, and required there
	StaleState map[string]any `json:"staleState,omitempty"` // STALE only; nil when the resource does not exist
	Actions    []Action       `json:"actions,omitempty"`    // STALE only, and required there
}

// Status is whether a resource is as configured.
type Status string

// The statuses.
const (
	Valid Status = "VALID"
	Stale Status = "STALE"
)

// ActionInput is what an action reads.
type ActionInput struct {
	StateInput
	StaleState map[string]any `json:"staleState"` // {} when the resource does not exist
}
