package protocol

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is how many characters the name of a plug or an action may have:
// names become parts of file names and labels.
const maxName = 128

// DecodeInit reads what the init action wrote on stdout. Errors about the
// answer are of type *AnswerError.
func DecodeInit(data []byte) (InitOutput, error) {
	object, err := parseObject(data)
	if err != nil {
		return InitOutput{}, err
	}
	f := fields{object: object, data: data}
	f.only("plugs", "config_schema", "state_action", "serve_action", "removable", "action_images", "keeps", "state_schema", "accepts_unknown", "adoptable", "network", "identity", "replace", "makes_nothing")
	out := InitOutput{
		Removable: f.boolean("removable", false), Keeps: f.boolean("keeps", false),
		AcceptsUnknown: f.boolean("accepts_unknown", false), Adoptable: f.boolean("adoptable", false), Network: f.network(),
		MakesNothing: f.boolean("makes_nothing", false),
	}
	if plugs, ok := f.child("plugs"); ok {
		out.Plugs = plugRequests(plugs)
	}
	if _, ok := f.child("config_schema"); ok {
		out.ConfigSchema = rawSchema(data, "config_schema")
	}
	if _, ok := f.child("state_schema"); ok {
		out.StateSchema = rawSchema(data, "state_schema")
	}
	if out.Adoptable && !out.Keeps {
		f.fail("adoptable", `needs "keeps": true: what was taken over is found again by what is kept`)
	}
	if out.MakesNothing && out.Keeps {
		f.fail("makes_nothing", `is not for a type with "keeps": true: there is nothing to keep`)
	}
	if action, ok := f.child("state_action"); ok {
		action.only("image", "entrypoint", "args")
		out.StateAction = action.invocation()
		action.needInvocation(out.StateAction)
	} else {
		f.failOnce("state_action", "missing; it says how the state of a resource is asked for")
	}
	if action, ok := f.child("serve_action"); ok {
		action.only("image", "entrypoint", "args")
		serve := action.invocation()
		action.needInvocation(serve)
		out.ServeAction = &serve
	}
	out.ActionImages, out.Identity, out.Replace = f.actionImages(), f.identity(), f.replaceOrder()
	if f.err != nil {
		return InitOutput{}, f.err
	}
	return out, nil
}

// network is the network of the type's own image.
func (f *fields) network() string {
	name, ok := f.text("network")
	if ok && name != NetworkNone {
		f.fail("network", `must be "none", for a type that needs no network, or be left out: which network there is otherwise is the user's to say`)
	}
	return name
}

// actionImages are the images that actions may name.
func (f *fields) actionImages() (images []string) {
	value, ok := f.object["action_images"]
	if !ok {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		f.fail("action_images", fmt.Sprintf("must be a list, not %s", kindOf(value)))
	}
	for i, item := range list {
		image, ok := item.(string)
		if !ok || image == "" || strings.ContainsRune(image, 0) {
			f.fail(fmt.Sprintf("action_images[%d]", i), "must be the reference of an image")
		}
		images = append(images, image)
	}
	return images
}

// identity are the members of configurations that identify what a resource manages.
func (f *fields) identity() (members []string) {
	value, ok := f.object["identity"]
	if !ok {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		f.fail("identity", fmt.Sprintf("must be a list of members of the configuration, not %s", kindOf(value)))
	}
	for i, item := range list {
		member, ok := item.(string)
		if !ok || member == "" || slices.Contains(strings.Split(member, "."), "") {
			f.fail(fmt.Sprintf("identity[%d]", i), `must name a member of the configuration, such as "path" or "metadata.name"`)
		}
		members = append(members, member)
	}
	return members
}

// replaceOrder is which of the old thing and the new one comes first.
func (f *fields) replaceOrder() ReplaceOrder {
	text, ok := f.text("replace")
	order := ReplaceOrder(text)
	if ok && order != CreateFirst && order != DestroyFirst {
		f.fail("replace", fmt.Sprintf("must be %q or %q, not %s", CreateFirst, DestroyFirst, excerptQuoted(text)))
	}
	return order
}

// rawSchema takes a schema as it was written: decoding and encoding it would
// change large numbers. data is known to be one object.
func rawSchema(data []byte, member string) json.RawMessage {
	var document map[string]json.RawMessage
	if json.Unmarshal(data, &document) != nil {
		return nil
	}
	return document[member]
}

func plugRequests(f *fields) map[string]PlugRequest {
	plugs := make(map[string]PlugRequest, len(f.object))
	targets := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(f.object)) {
		plug, ok := f.child(name)
		if !ok {
			continue
		}
		if !validPlugName(name) {
			f.fail(name, `the name of a plug must match ^[a-zA-Z][a-zA-Z0-9_-]*$`)
		}
		plug.only("container_path", "optional", "writable", "holds")
		at, ok := plug.text("container_path")
		switch {
		case !ok:
			plug.failOnce("container_path", "missing; it says where in the container the plug appears")
		case !path.IsAbs(at) || path.Clean(at) != at || at == "/" || strings.ContainsRune(at, 0):
			plug.fail("container_path", "must be an absolute path below / without . or .. or a slash at its end")
		case at == WorkDir:
			plug.fail("container_path", "is where the container has its work directory; choose another path")
		case targets[at] != "":
			plug.fail("container_path", fmt.Sprintf("is also the container_path of plug %q", targets[at]))
		}
		targets[at] = name
		plugs[name] = PlugRequest{
			ContainerPath: at,
			Optional:      plug.boolean("optional", false),
			Writable:      plug.boolean("writable", true),
			Holds:         plug.boolean("holds", false),
		}
	}
	return plugs
}

// DecodeState reads what the state action wrote on stdout. Integers within the
// states are int64, other numbers float64. Errors about the answer are of type
// *AnswerError.
func DecodeState(data []byte) (StateOutput, error) {
	object, err := parseObject(data)
	if err != nil {
		return StateOutput{}, err
	}
	f := fields{object: object, data: data}
	f.only("status", "state", "staleState", "actions", "planned_state", "keep", "identity", "identities", "message")
	status, ok := f.text("status")
	out := StateOutput{Status: Status(status), Keep: f.keep()}
	switch {
	case !ok:
		f.failOnce("status", "missing; it must be VALID, STALE or CONFLICT")
	case out.Status == Conflict:
		f.forbid("state", "actions", "staleState", "planned_state", "keep")
		if out.Message, _ = f.text("message"); out.Message == "" {
			f.fail("message", "missing; a CONFLICT answer must say what belongs to whom")
		}
	case out.Status == Valid:
		f.forbid("actions", "staleState", "planned_state", "message")
		f.known("state")
		state, ok := f.child("state")
		if !ok {
			f.failOnce("state", "missing; a VALID answer must have it")
			break
		}
		out.State = state.object
	case out.Status == Stale:
		f.forbid("state", "message")
		f.known("staleState")
		out.PlannedState = f.planned()
		if stale, ok := f.child("staleState"); ok {
			out.StaleState = stale.object
		}
		out.Actions = f.actions()
	default:
		f.fail("status", "must be VALID, STALE or CONFLICT, not "+excerptQuoted(status))
	}
	f.things(&out)
	if f.err != nil {
		return StateOutput{}, f.err
	}
	return out, nil
}

// things reads what identifies the things that a resource manages.
func (f *fields) things(out *StateOutput) {
	if identity, ok := f.child("identity"); ok {
		f.forbid("identities")
		if out.Identity = identity.object; len(out.Identity) == 0 {
			f.fail("identity", "must not be empty")
		}
	}
	value, ok := f.object["identities"]
	if !ok {
		if out.Status == Conflict && out.Identity == nil {
			f.fail("identity", "missing; a CONFLICT answer must say which thing it is about")
		}
		return
	}
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		f.fail("identities", "must be a list of objects that is not empty")
	}
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok || len(object) == 0 {
			f.fail(fmt.Sprintf("identities[%d]", i), "must be an object that is not empty")
		}
		out.Identities = append(out.Identities, object)
	}
}

func (f *fields) actions() []Action {
	value, ok := f.object["actions"]
	if !ok {
		f.fail("actions", "missing; a STALE answer must say what brings the resource to its configuration")
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		f.fail("actions", fmt.Sprintf("must be a list, not %s", kindOf(value)))
		return nil
	}
	if len(list) == 0 {
		f.fail("actions", "must not be empty: a STALE answer must say what brings the resource to its configuration")
	}
	actions := make([]Action, 0, len(list))
	for i, item := range list {
		at := fmt.Sprintf("actions[%d]", i)
		object, ok := item.(map[string]any)
		if !ok {
			f.fail(at, fmt.Sprintf("must be an object, not %s", kindOf(item)))
			continue
		}
		action := fields{object: object, data: f.data, path: join(f.path, at), root: f.top()}
		action.only("name", "description", "destroys", "image", "entrypoint", "args")
		name, ok := action.text("name")
		if !ok {
			action.failOnce("name", "missing")
		} else if reason := badActionName(name); reason != "" {
			action.fail("name", reason)
		}
		description := ""
		if _, ok := object["description"]; ok {
			description, _ = action.text("description")
		}
		actions = append(actions, Action{Name: name, Description: description, Destroys: action.boolean("destroys", false), Invocation: action.invocation()})
	}
	return actions
}

// badActionName tells why a name cannot be the name of an action, "" when it
// can. Names become file names and are printed to people.
func badActionName(name string) string {
	switch {
	case name == "" || strings.TrimSpace(name) != name:
		return "must not be empty, nor begin or end with a space"
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Sprintf("must not have more than %d characters", maxName)
	case name == "." || name == "..":
		return "must not be . or .."
	case strings.ContainsAny(name, `/\`):
		return "must not contain slashes"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }):
		return "must consist of printable characters"
	}
	return ""
}

func validPlugName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || (r < '0' || r > '9') && r != '_' && r != '-') {
			return false
		}
	}
	return true
}

func excerptQuoted(s string) string { return `"` + excerpt([]byte(s)) + `"` }
