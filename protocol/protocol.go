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

	Keeps          bool            `json:"keeps,omitempty"`           // its answers may have something kept, which later inputs give back
	StateSchema    json.RawMessage `json:"state_schema,omitempty"`    // JSON Schema of its states; writeOnly marks what is secret
	AcceptsUnknown bool            `json:"accepts_unknown,omitempty"` // its state action understands a configuration of which parts are not known yet
	Adoptable      bool            `json:"adoptable,omitempty"`       // its state action finds, by an id, what was made otherwise
	Network        string          `json:"network,omitempty"`         // NetworkNone, or "" for what a container has otherwise

	// Identity names the members of a configuration that identify what a resource manages, such as "path" or
	// "metadata.name". With other values of them, or with its plugs elsewhere, it is another thing: the old one
	// is removed. Empty: only the plugs, the type, and what its answers to state say.
	Identity []string     `json:"identity,omitempty"`
	Replace  ReplaceOrder `json:"replace,omitempty"` // which comes first where it is another thing; "" is CreateFirst

	// MakesNothing says that resources only look at what others make, or wait for it: there is no thing that is
	// listed, has a manifest, or stays behind.
	MakesNothing bool `json:"makes_nothing,omitempty"`
}

// ReplaceOrder is the order in which the old thing is removed and the new one created.
type ReplaceOrder string

// The orders.
const (
	CreateFirst  ReplaceOrder = "create_before_destroy"
	DestroyFirst ReplaceOrder = "destroy_before_create" // both cannot exist at once, as with a port that both publish
)

// NetworkNone is the network of a type whose image needs none.
const NetworkNone = "none"

// WorkDir is where a container finds its work directory, whatever user it runs as: outside the
// workspace, whose directories may be closed to it.
const WorkDir = "/var/lib/deployster/work"

// PlugRequest asks for something of the user's machine.
type PlugRequest struct {
	ContainerPath string `json:"container_path"`
	Optional      bool   `json:"optional"` // default false
	Writable      bool   `json:"writable"` // default true

	// Holds says that all that the resource manages is within the plug: who moves the directory moves
	// that along, and who removes it removes that, too. Default false.
	Holds bool `json:"holds,omitempty"`
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
	Destroys    bool   `json:"destroys,omitempty"` // what there is of the resource is lost by it, as by a replacement
	Invocation
}

// StateInput is what the state action reads.
type StateInput struct {
	InitInput
	Config map[string]any `json:"config"`           // its parts may be Unknown while planning, of types that accept that
	Ensure Ensure         `json:"ensure,omitempty"` // only sent to removable types

	ID          string         `json:"id,omitempty"`          // of the resource: its own in all the world, and always the same
	Interrupted bool           `json:"interrupted,omitempty"` // how the last action of the resource ended is not known
	Kept        map[string]any `json:"kept,omitzero"`         // what answers had kept last, {} for nothing; only sent to types that keep
	Adopt       string         `json:"adopt,omitempty"`       // the id of what the resource is to take over; only sent to adoptable types
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

	PlannedState map[string]any `json:"planned_state,omitempty"` // STALE only: what it will be after the actions; parts may be Unknown
	Keep         map[string]any `json:"keep,omitzero"`           // what is to be kept from now on, {} for nothing; nil leaves what is kept

	// Identity identifies what the resource manages, where the world gives that, as an id: it is equal for two
	// resources that manage one thing. Nil is what InitOutput.Identity says.
	Identity map[string]any `json:"identity,omitempty"`

	// Identities is Identity of a type whose resources manage several things, such as the objects of one
	// manifest of Kubernetes: each is identified by itself.
	Identities []map[string]any `json:"identities,omitempty"`

	Message string `json:"message,omitempty"` // CONFLICT only, and required there: what belongs to whom, and what the user can do
}

// Things returns the identities of what the resource manages.
func (o StateOutput) Things() []map[string]any {
	if len(o.Identity) > 0 {
		return []map[string]any{o.Identity}
	}
	return o.Identities
}

// Status is whether a resource is as configured.
type Status string

// The statuses.
const (
	Valid Status = "VALID"
	Stale Status = "STALE"

	// Conflict says that another resource has the thing. If the deployment log knows which one, that is said, or
	// it is taken over; else the resource fails with the message of the answer.
	Conflict Status = "CONFLICT"
)

// ActionInput is what an action reads.
type ActionInput struct {
	StateInput
	StaleState map[string]any `json:"staleState"` // {} when the resource does not exist
}
