// Package proposal is the commands of pipelines of both kinds, environments and build groups as
// they are sent to a server: which there are, the role that each needs, and its body.
//
// A body is the command without what the server knows better: who wants it, and the ids of
// what begins with it.
package proposal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/notification"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// The kinds beside those that grants are for.
const (
	Builds     = "builds"
	Promotions = "promotions" // pipelines that promote by observed state
)

// Verb is a command that can be sent.
type Verb struct {
	Kind    string // pipelines, promotions, environments, builds, tokens or notifications
	Name    string
	Role    identity.Role
	Summary string
	Begins  bool // what it is for does not exist before, and has no name of the sender's
	Whole   bool // it is for those whose role is for everything

	command reflect.Type
	body    reflect.Type
	fields  []string // of the command, in the order of those of the body
}

// verbs are all that can be sent. They are collected when they are first needed: most commands
// send nothing.
var verbs = sync.OnceValue(func() []Verb {
	return []Verb{
		of(identity.Pipelines, "release", identity.Operator, pipeline.Release{}, "Register a revision and start its deployment; what it carries is kept before, as objects"),
		whole(of(identity.Pipelines, "accept", identity.Operator, pipeline.Accept{}, "Release a revision that was asked for, as it was then")),
		of(identity.Pipelines, "decline", identity.Operator, pipeline.Decline{}, "Decline a revision that was asked for, or take it back"),
		of(identity.Pipelines, "receive-artifact", identity.Operator, pipeline.ReceiveArtifact{}, "Record that an artifact was received"),
		of(identity.Pipelines, "fail-artifact", identity.Operator, pipeline.FailArtifact{}, "Record that an artifact was not built"),
		of(identity.Pipelines, "approve", identity.Approver, pipeline.Approve{}, "Approve a revision at a stage"),
		of(identity.Pipelines, "reject", identity.Approver, pipeline.Reject{}, "Reject a revision at a stage"),
		of(identity.Pipelines, "skip", identity.Operator, pipeline.Skip{}, "Pass over a revision that waits"),
		of(identity.Pipelines, "cancel", identity.Operator, pipeline.Cancel{}, "Cancel the deployment of a revision"),
		of(identity.Pipelines, "retry", identity.Operator, pipeline.Retry{}, "Retry a revision that failed, was cancelled or was skipped"),
		of(identity.Pipelines, "repair", identity.Operator, pipeline.Repair{}, "Do what failed on hosts of a stage again"),
		of(identity.Pipelines, "rerun", identity.Operator, pipeline.Rerun{}, "Do a stage of a revision again"),
		of(identity.Pipelines, "rollback", identity.Operator, pipeline.Rollback{}, "Deploy an earlier revision to a stage again, and pause the stage"),
		of(identity.Pipelines, "pause", identity.Operator, pipeline.PausePipeline{}, "Pause a pipeline or one of its stages"),
		of(identity.Pipelines, "resume", identity.Operator, pipeline.ResumePipeline{}, "Resume a pipeline or one of its stages"),
		of(identity.Pipelines, "confirm", identity.Operator, pipeline.Confirm{}, "Confirm that a host group loses hosts"),
		of(identity.Pipelines, "define", identity.Admin, pipeline.Define{}, "Define a pipeline or change it; what revisions under way are to carry is kept before, as objects"),
		of(identity.Pipelines, "delete", identity.Admin, pipeline.Delete{}, "Delete a pipeline"),
		of(identity.Pipelines, "add-key", identity.Admin, approval.AddKey{}, "Let a key sign approvals of a pipeline, however it promotes"),
		of(identity.Pipelines, "revoke-key", identity.Admin, approval.RevokeKey{}, "Have a key sign no approvals of a pipeline any more"),
		of(Promotions, "approve", identity.Approver, promotion.Approve{}, "Approve that a revision comes to a stage of a pipeline that promotes by observed state"),
		of(Promotions, "reject", identity.Approver, promotion.Reject{}, "Keep a revision from a stage of a pipeline that promotes by observed state, which waits for approval"),
		of(Promotions, "hold", identity.Operator, promotion.HoldStage{}, "Keep revisions from being promoted to a stage"),
		of(Promotions, "release-hold", identity.Operator, promotion.ReleaseHold{}, "Let revisions be promoted to a stage again that was held"),
		of(Promotions, "stop-the-line", identity.Operator, promotion.StopLine{}, "Keep revisions from being promoted to any stage"),
		of(Promotions, "resume", identity.Operator, promotion.ResumeLine{}, "Let revisions be promoted again after stop-the-line"),
		of(Promotions, "define", identity.Admin, promotion.Define{}, "Define a pipeline that promotes by observed state, or change it; what verifies its stages is kept before, as objects"),
		of(Promotions, "delete", identity.Admin, promotion.Delete{}, "Delete a pipeline that promotes by observed state"),
		of(identity.Environments, "pause", identity.Operator, environment.Pause{}, "Pause an environment"),
		of(identity.Environments, "resume", identity.Operator, environment.Resume{}, "Resume an environment"),
		of(identity.Environments, "promote", identity.Operator, environment.Promote{}, "Go on to the next step of a deployment"),
		of(identity.Environments, "create", identity.Operator, environment.Create{}, "Create an environment with its first revision; what that carries is kept before, as objects"),
		of(identity.Environments, "update", identity.Operator, environment.Update{}, "Create a revision from the newest one, which has to be named; what it carries is kept before, as objects"),
		whole(of(identity.Environments, "accept", identity.Operator, environment.Accept{}, "Make a revision that was asked for, as it was then")),
		of(identity.Environments, "decline", identity.Operator, environment.Decline{}, "Decline a revision that was asked for, or take it back"),
		of(identity.Environments, "deploy", identity.Operator, environment.Deploy{}, "Deploy a revision", "Hosts"),
		of(identity.Environments, "rollback", identity.Operator, environment.Rollback{}, "Go back to an earlier revision", "Hosts"),
		of(identity.Environments, "restart", identity.Operator, environment.Restart{}, "Start the tasks of the active revision anew", "Hosts"),
		of(identity.Environments, "delete", identity.Operator, environment.Delete{}, "Delete an environment"),
		of(identity.Environments, "confirm", identity.Operator, environment.ConfirmHosts{}, "Confirm that an environment loses hosts", "Hosts"),
		of(identity.Environments, "cordon", identity.Operator, environment.CordonHosts{}, "Leave hosts as they are, or terminate their tasks first"),
		of(identity.Environments, "uncordon", identity.Operator, environment.UncordonHosts{}, "Let an environment change its cordoned hosts again"),
		of(identity.Environments, "clean", identity.Operator, environment.Clean{}, "Terminate what a deleted environment left running"),
		of(identity.Environments, "adopt", identity.Operator, environment.Adopt{}, "Have a deleted environment exist again, with what it left running", "Hosts"),
		of(identity.Environments, "adopt-from", identity.Operator, environment.AdoptFrom{}, "Deploy an environment with what a deleted one left running", "Hosts"),
		of(identity.Kind, "create", identity.Admin, identity.Issue{}, "Create a token of which the sender has made the secret: dpl_, the id, _ and random text; it is sent as its SHA-256"),
		of(identity.Kind, "revoke", identity.Admin, identity.Revoke{}, "Have a token authenticate nobody any more"),
		beginning(of(Builds, "submit", identity.Operator, build.Submit{}, "Queue a build group; what it carries is kept before, as objects, and its sources as artifacts", "Pipeline")),
		of(notification.Notifications, "retry", identity.Operator, notification.Retry{}, "Have what a notification could not tell be told again"),
		of(Builds, "cancel", identity.Operator, build.Cancel{}, "Cancel a build group"),
		of(Builds, "retry", identity.Operator, build.Retry{}, "Retry a build group that failed or was canceled"),
	}
})

// GrantedBy is the kind of what grants name that let somebody do it: one name is of one pipeline,
// however it promotes.
func (v Verb) GrantedBy() string {
	if v.Whole {
		return ""
	}
	switch v.Kind {
	case Promotions:
		return identity.Pipelines
	case identity.Kind, notification.Notifications:
		return "" // no grant is for some of them alone
	}
	return v.Kind
}

// known is what the server says itself.
var known = []string{"By", "ID", "Group", "Signature", "Step", "Inventory", "Known", "Taken", "Same", "Bound"}

// of is a verb of a command. omitted is what else of it the server says itself: of hosts that a
// query selects it has its own inventory.
func of(kind, name string, role identity.Role, command any, summary string, omitted ...string) Verb {
	v := Verb{Kind: kind, Name: name, Role: role, Summary: summary, command: reflect.TypeOf(command)}
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(v.command) {
		if !f.IsExported() || f.Anonymous || slices.Contains(known, f.Name) && (f.Name != "Group" || kind == Builds) || slices.Contains(omitted, f.Name) {
			continue
		}
		v.fields = append(v.fields, f.Name)
		fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: reflect.StructTag(fmt.Sprintf(`json:"%s,omitempty"`, snake(f.Name)))})
	}
	v.body = reflect.StructOf(fields)
	return v
}

// beginning is a verb that begins something.
func beginning(v Verb) Verb {
	v.Begins = true
	return v
}

// whole is a verb for those whose role is for everything.
func whole(v Verb) Verb {
	v.Whole = true
	return v
}

// Path is where a command is sent that is for what has a name, which is escaped already.
func (v Verb) Path(name string) string {
	if v.Begins {
		return "/v1/" + v.Kind + "/commands/" + v.Name
	}
	return "/v1/" + v.Kind + "/" + name + "/commands/" + v.Name
}

// snake is the name of a field as JSON has it.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Verbs are all that can be sent.
func Verbs() []Verb { return slices.Clone(verbs()) }

// Body is the type of the body.
func (v Verb) Body() reflect.Type { return v.body }

// ErrUnsent is wrapped where a command cannot be sent.
var ErrUnsent = errors.New("cannot be sent to a server yet")

// Encode is the verb and the body of a command.
func Encode(kind string, command any) (v Verb, body []byte, err error) {
	t := reflect.TypeOf(command)
	i := slices.IndexFunc(verbs(), func(v Verb) bool { return v.Kind == kind && v.command == t })
	if i < 0 {
		return v, nil, fmt.Errorf("the command %s of %s %w: run it where the log is, without --server and DEPLOYSTER_SERVER", strings.ToLower(t.Name()), kind, ErrUnsent)
	}
	v = verbs()[i]
	if signed := reflect.ValueOf(command).FieldByName("Signature"); signed.IsValid() && !signed.IsNil() {
		return v, nil, fmt.Errorf("an approval that is signed %w in this way: it is a request of its own", ErrUnsent)
	}
	sent := reflect.New(v.body).Elem()
	for _, name := range v.fields {
		sent.FieldByName(name).Set(reflect.ValueOf(command).FieldByName(name))
	}
	body, err = json.Marshal(sent.Interface())
	if err != nil {
		return v, nil, fmt.Errorf("encoding the command %s: %w", v.Name, err)
	}
	return v, body, nil
}

// Says is what the server says of a command itself.
type Says struct {
	By    string // who wants it
	ID    string // fresh
	Group string // the build group that the path names
}

// Decode is the command that a body is of. The error says what is wrong with the body.
func (v Verb) Decode(body []byte, says Says) (command any, err error) {
	sent := reflect.New(v.body)
	if len(bytes.TrimSpace(body)) > 0 {
		if err := Unmarshal(body, sent.Interface()); err != nil {
			return nil, fmt.Errorf("the body is no command %s: %w", v.Name, err)
		}
	}
	made := reflect.New(v.command).Elem()
	for _, name := range v.fields {
		value := sent.Elem().FieldByName(name)
		if err := checkText(snake(name), value); err != nil {
			return nil, err
		}
		made.FieldByName(name).Set(value)
	}
	for name, text := range map[string]string{"By": says.By, "ID": says.ID, "Group": says.Group} {
		if f := made.FieldByName(name); f.IsValid() && !slices.Contains(v.fields, name) {
			f.SetString(text)
		}
	}
	return made.Interface(), nil
}

// longest is how long a name, reason or reference may be, in bytes.
const longest = 1000

// checkText refuses texts that must not enter the log.
func checkText(name string, value reflect.Value) error {
	switch {
	case value.Kind() == reflect.String:
		text := value.String()
		if len(text) > longest {
			return fmt.Errorf("%s has %d bytes, and at most %d are possible", name, len(text), longest)
		}
		if strings.ContainsFunc(text, unicode.IsControl) {
			return fmt.Errorf("%s must be one line, without control characters", name)
		}
	case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.String:
		for i := range value.Len() {
			if err := checkText(name, value.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
