package authoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

// program is a type within the test: what a container of it does with its arguments and streams.
type program func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

func (p program) Image(_ context.Context, ref string, _ engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	return engine.Image{Ref: ref, ID: "sha256:" + ref}, nil
}

func (p program) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	if spec.Timeout > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Timeout, engine.ErrTimeout)
		defer cancel()
	}
	stdout := &guarded{w: streams.Stdout}
	code := p(ctx, spec.Args, streams.Stdin, stdout, streams.Stderr)
	if ctx.Err() != nil {
		return engine.Exit{}, context.Cause(ctx)
	}
	return engine.Exit{Code: code}, stdout.err
}

// checked is what a check of a program finds, by the names of the checks.
func checked(t *testing.T, p program, opts Options) map[string]Result {
	opts.Engine, opts.Image = p, "vm"
	results := map[string]Result{}
	_ = Check(t.Context(), opts, func(r Result) { results[r.Name] = r })
	return results
}

// onlyFound is the finding that is expected of a check, and no other.
func onlyFound(t *testing.T, results map[string]Result, name string, outcome Outcome, detail string) {
	t.Helper()
	for _, r := range results {
		assert.False(t, (r.Outcome == Failed || r.Outcome == Warning) && r.Name != name, "also %s: %s: %s", r.Name, r.Outcome, r.Detail)
	}
	if r := results[name]; r.Outcome != outcome || !strings.Contains(r.Detail, detail) {
		t.Errorf("%s: got %s: %s\nwant %s: …%s…", name, r.Outcome, r.Detail, outcome, detail)
	}
}

// vm is the configuration of a virtual machine.
type vm struct {
	Size  string            `json:"size"`
	Image string            `json:"image"`
	Tags  map[string]string `json:"tags"`
}

// cloud is where machines get ids that nobody knows before.
type cloud struct {
	mu       sync.Mutex
	made     int
	machines map[string]*machine
}

type machine struct {
	vm
	owner string
}

// vmType is a type with every optional member, and with none of their mistakes.
type vmType struct {
	protocol.Type[vm]
	cloud *cloud
	find  func(protocol.Request[vm]) (string, error) // the id of the machine that is meant, "" for none
}

func newVMType() *vmType {
	v := &vmType{cloud: &cloud{machines: map[string]*machine{}}}
	v.Removable, v.Keeps, v.AcceptsUnknown, v.Adoptable = true, true, true, true
	v.ConfigSchema = json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["size"], "properties": {
		"size": {"type": "string"}, "image": {"type": "string"}, "tags": {"type": "object", "additionalProperties": {"type": "string"}}}}`)
	v.StateSchema = json.RawMessage(`{"type": "object", "properties": {"id": {"type": "string"}, "password": {"type": "string", "writeOnly": true}}}`)
	v.State, v.find = v.state, v.machine
	v.Actions = map[string]func(context.Context, protocol.Request[vm]) error{"create": v.create, "resize": v.resize, "delete": v.remove}
	return v
}

// machine finds a machine by what is to be adopted, by what was kept, and by whose it is.
func (v *vmType) machine(r protocol.Request[vm]) (string, error) {
	if r.Adopt != "" {
		if !strings.HasPrefix(r.Adopt, "i-") {
			return "", fmt.Errorf("%q is not the id of a machine, which begins with i-", r.Adopt)
		}
		if v.cloud.machines[r.Adopt] == nil {
			return "", nil
		}
		return r.Adopt, nil
	}
	if id, _ := r.Kept["id"].(string); v.cloud.machines[id] != nil {
		return id, nil
	}
	for id, m := range v.cloud.machines {
		if m.owner == r.ID {
			return id, nil
		}
	}
	return "", nil
}

func (v *vmType) state(_ context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
	v.cloud.mu.Lock()
	defer v.cloud.mu.Unlock()
	id, err := v.find(r)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	m := v.cloud.machines[id]
	switch {
	case r.Ensure == protocol.Absent && m == nil:
		return protocol.AnswerValid(nil)
	case m == nil:
		answer, err := protocol.AnswerStale(nil, protocol.Do("create", "create a machine"))
		if err != nil {
			return answer, err
		}
		planned := map[string]any{"size": r.Config.Size, "image": r.Config.Image, "tags": r.Config.Tags}
		for _, path := range r.Unknown {
			property, _, _ := strings.Cut(path, ".")
			planned[property] = protocol.Unknown{}
		}
		return answer.Planned(planned, "id", "password")
	}
	if err := r.Keep(map[string]any{"id": id}); err != nil {
		return protocol.StateOutput{}, err
	}
	found := map[string]any{"id": id, "size": m.Size, "image": m.Image, "tags": m.Tags, "password": "hunter-" + id}
	switch {
	case r.Ensure == protocol.Absent:
		return protocol.AnswerStale(found, protocol.Do("delete", "delete "+id))
	case m.Size != r.Config.Size && !r.Unknown.Has("size"):
		return protocol.AnswerStale(found, protocol.Do("resize", "resize "+id))
	}
	return protocol.AnswerValid(found)
}

func (v *vmType) create(_ context.Context, r protocol.Request[vm]) error {
	v.cloud.mu.Lock()
	defer v.cloud.mu.Unlock()
	id, err := v.find(r)
	if err != nil {
		return err
	}
	if id == "" {
		v.cloud.made++
		id = fmt.Sprintf("i-%04d", v.cloud.made)
		v.cloud.machines[id] = &machine{r.Config, r.ID}
	}
	r.Sayf("made %s with the password hunter-%s", id, id)
	return r.Keep(map[string]any{"id": id})
}

func (v *vmType) resize(context.Context, protocol.Request[vm]) error { return nil }

func (v *vmType) remove(_ context.Context, r protocol.Request[vm]) error {
	v.cloud.mu.Lock()
	defer v.cloud.mu.Unlock()
	id, err := v.find(r)
	delete(v.cloud.machines, id)
	return err
}

func aVM() Options {
	return Options{Config: map[string]any{"size": "small", "image": "debian", "tags": map[string]any{"team": "web"}}}
}

func TestATypeWithEveryOptionalMemberPasses(t *testing.T) {
	v := newVMType()
	opts := aVM()
	opts.Second = map[string]any{"size": "large"}
	for _, r := range checked(t, v.Run, opts) {
		assert.Equal(t, Passed, r.Outcome, "%s: %s: %s", r.Name, r.Outcome, r.Detail)
	}
	assert.True(t, len(v.cloud.machines) <= 0, "the check left %v", v.cloud.machines)
}

func TestMistakesWithOptionalMembersAreFound(t *testing.T) {
	stale := func(state func(context.Context, protocol.Request[vm]) (protocol.StateOutput, error), change func(protocol.Request[vm], *protocol.StateOutput)) func(context.Context, protocol.Request[vm]) (protocol.StateOutput, error) {
		return func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
			answer, err := state(ctx, r)
			if answer.Status == protocol.Stale {
				change(r, &answer)
			}
			return answer, err
		}
	}
	for name, tc := range map[string]struct {
		change  func(*vmType)
		check   string
		outcome Outcome
		detail  string
	}{
		"something kept, which init does not say": {func(v *vmType) { v.Keeps, v.Adoptable = false, false },
			"actions exit with 0", Failed, "nothing can be kept: the type does not say that it Keeps"},
		"a schema of states that is none": {func(v *vmType) { v.StateSchema = json.RawMessage(`{"type": "objekt"}`) },
			"state_schema compiles", Failed, "state_schema must be a JSON Schema"},
		"a schema of states that they do not keep to": {func(v *vmType) { v.StateSchema = json.RawMessage(`{"required": ["ip"]}`) },
			"states are as state_schema says", Warning, `state missing property "ip"; it is no error`},
		"a plan that does not come true": {
			func(v *vmType) {
				v.State = stale(v.state, func(_ protocol.Request[vm], o *protocol.StateOutput) {
					if o.PlannedState != nil {
						o.PlannedState["tags"] = map[string]any{"team": "another"}
					}
				})
			},
			"state is as planned", Failed, "after the actions state.tags.team is another than planned_state said",
		},
		"a plan that leaves something out": {
			func(v *vmType) {
				v.State = stale(v.state, func(_ protocol.Request[vm], o *protocol.StateOutput) { delete(o.PlannedState, "id") })
			},
			"state is as planned", Warning, `the state has "id", of which planned_state says nothing`,
		},
		"what is unknown is taken for what is there": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					if len(r.Unknown) > 0 {
						return protocol.AnswerValid(nil)
					}
					return v.state(ctx, r)
				}
			},
			"state accepts what is unknown", Failed, "with image unknown, state answered VALID, although there is nothing",
		},
		"whatever is unknown is refused": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					if len(r.Unknown) > 0 {
						return protocol.StateOutput{}, fmt.Errorf("%s is not known", r.Unknown[0])
					}
					return v.state(ctx, r)
				}
			},
			"state accepts what is unknown", Failed, "state refuses whatever is unknown (image, size, tags.team)",
		},
		"what is unknown is a crash": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					if r.Unknown.Has("size") && v.cloud.made == 0 {
						panic("no size")
					}
					return v.state(ctx, r)
				}
			},
			"state accepts what is unknown", Failed, `exited with 1; on its stderr: "panic: no size"; that is a crash`,
		},
		"what is unknown is compared": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					if r.Unknown.Has("size") {
						r.Unknown, r.Config.Size = nil, "?"
					}
					return v.state(ctx, r)
				}
			},
			"what is unknown is not compared", Warning, "with size unknown, and all else as configured, state answered STALE (resize)",
		},
		"what is unknown becomes an argument": {
			func(v *vmType) {
				v.State = stale(v.state, func(r protocol.Request[vm], o *protocol.StateOutput) {
					if len(r.Unknown) > 0 && o.StaleState == nil {
						o.Actions[0].Args = []string{"create", `{"$unknown": true}`}
					}
				})
			},
			"state accepts what is unknown", Failed, `state put {"$unknown": true} into the args of an action`,
		},
		"what was not kept is made again": {
			func(v *vmType) {
				v.find = func(r protocol.Request[vm]) (string, error) {
					r.ID = "nobody's"
					return v.machine(r)
				}
			},
			"what is not kept is found again", Warning, `state answered STALE (create) without staleState, so another one would be made; mark what you make with the "id"`,
		},
		"whatever id is given, what is configured is adopted": {
			func(v *vmType) {
				v.find = func(r protocol.Request[vm]) (string, error) {
					r.Adopt = ""
					return v.machine(r)
				}
			},
			"only what has the id is adopted", Failed, `asked to adopt "no-such-id", which nothing has as its id, state found something`,
		},
		"an id that is none is a crash": {
			func(v *vmType) {
				v.find = func(r protocol.Request[vm]) (string, error) {
					if strings.Contains(r.Adopt, "\n") {
						panic("split")
					}
					return v.machine(r)
				}
			},
			"only what has the id is adopted", Failed, `"\"';$(exit 1)\n\\", which nothing has as its id: state exited with 1`,
		},
		"the id of what is adopted is not kept": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					answer, err := v.state(ctx, r)
					if r.Adopt != "" {
						err = r.Keep(nil)
					}
					return answer, err
				}
			},
			"only what has the id is adopted", Failed, `that was kept as "id", state found it, and had nothing kept`,
		},
		"removing fails where nothing is left": {
			func(v *vmType) {
				v.Actions["delete"] = func(ctx context.Context, r protocol.Request[vm]) error {
					if id, _ := r.Kept["id"].(string); v.cloud.machines[id] == nil {
						return fmt.Errorf("no machine %s", id)
					}
					return v.remove(ctx, r)
				}
			},
			"removal ends VALID", Failed, `when all was gone: action "delete"`,
		},
		"removing has random arguments": {
			func(v *vmType) {
				var asked atomic.Int64
				v.State = stale(v.state, func(r protocol.Request[vm], o *protocol.StateOutput) {
					if r.Ensure == protocol.Absent {
						o.StaleState["asked"] = asked.Add(1)
					}
				})
			},
			"removal ends VALID", Failed, `with "ensure": "absent": asked twice, with nothing in between, state named other actions`,
		},
		"what is absent is as what is present": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					r.Ensure = protocol.Present
					return v.state(ctx, r)
				}
			},
			"removal ends VALID", Failed, `with "ensure": "absent" state answered VALID, with the same state as with "present"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVMType()
			tc.change(v)
			onlyFound(t, checked(t, v.Run, aVM()), tc.check, tc.outcome, tc.detail)
		})
	}
}

// What tells a thing from others must be known, so a configuration that has no more shows nothing.
func TestAConfigurationOfOneValueSaysNothingOfTheUnknown(t *testing.T) {
	v := newVMType()
	v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
		if r.Unknown.Has("size") {
			return protocol.StateOutput{}, errors.New("which machine it is is not known yet")
		}
		return v.state(ctx, r)
	}
	onlyFound(t, checked(t, v.Run, Options{Config: map[string]any{"size": "small"}}), "state accepts what is unknown", Skipped, "too few values")
}

// What keeps to the form, and says what nobody has asked for.
func TestWhatIsKeptMustBeAnnounced(t *testing.T) {
	say := func(init, state, action string) program {
		acted := false
		return func(_ context.Context, args []string, stdin io.Reader, stdout, _ io.Writer) int {
			text, _ := io.ReadAll(stdin)
			switch {
			case len(args) == 0:
				fmt.Fprintf(stdout, `{"state_action": {"args": ["state"]}, "config_schema": {"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}%s}`, init)
			case !json.Valid(text):
				return 1
			case args[0] == "state" && acted:
				fmt.Fprintf(stdout, `{"status": "VALID", "state": {}%s}`, state)
			case args[0] == "state":
				fmt.Fprintf(stdout, `{"status": "STALE", "actions": [{"name": "make", "args": ["make"]}]%s}`, state)
			default:
				acted = true
				fmt.Fprint(stdout, "making\n", action)
			}
			return 0
		}
	}
	for name, tc := range map[string]struct {
		program program
		check   string
		detail  string
	}{
		"by state":                {say("", `, "keep": {"id": "i-1"}`, ""), "state answer is valid", `state has something kept ("keep"), and init does not answer "keeps": true`},
		"by an action":            {say("", "", `{"keep": {"id": "i-1"}}`+"\n"), "actions exit with 0", `the last line of action "make" is to have something kept ("keep"), and init`},
		"by an action, in excess": {say(`, "keeps": true`, "", `{"keep": {"id": "`+strings.Repeat("x", 70_000)+`"}}`), "actions exit with 0", "at most 65536 are kept of a resource"},
		"an action that keeps no object": {
			say(`, "keeps": true`, "", `{"keep": "i-1"}`), "actions exit with 0", "keep: must be an object, not ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onlyFound(t, checked(t, tc.program, Options{Config: map[string]any{"a": "b"}}), tc.check, Failed, tc.detail)
		})
	}
	results := checked(t, say(`, "keeps": true`, "", `{"keep": {"id": "i-1"}}`+"\n"), Options{Config: map[string]any{"a": "b"}})
	onlyFound(t, results, "what is not kept is found again", Passed, "")
}
