package tfplugin

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/resources/internal/tftest"
)

// started is the provider of tests, whose world is an empty directory.
func started(t *testing.T) *Provider {
	t.Helper()
	t.Setenv(tftest.World, t.TempDir())
	p, err := Start(t.Context(), os.Args[0], os.Environ(), time.Now())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// thing is a configuration of the resource of tests.
func thing(p *Provider, attributes map[string]cty.Value) cty.Value {
	t := p.Schemas.Resources["fake_thing"].Type()
	values := map[string]cty.Value{}
	for name, of := range t.AttributeTypes() {
		values[name] = cty.NullVal(of)
	}
	values["rule"] = cty.SetValEmpty(t.AttributeType("rule").ElementType())
	for name, v := range attributes {
		values[name] = v
	}
	return cty.ObjectVal(values)
}

func none(p *Provider) Instance {
	return Instance{State: cty.NullVal(p.Schemas.Resources["fake_thing"].Type())}
}

func TestBothVersionsOfTheProtocol(t *testing.T) {
	for _, version := range []string{"5", "6"} {
		t.Run(version, func(t *testing.T) {
			t.Setenv(tftest.Protocol, version)
			p := started(t)
			ctx := t.Context()
			checkSchema(t, p)
			configureIt(t, p)
			given := thing(p, map[string]cty.Value{"name": cty.StringVal("a"), "size": cty.NumberIntVal(7)})
			if said, err := p.Validate(ctx, "fake_thing", given); err != nil || len(said) > 0 {
				t.Fatal(said, err)
			}
			plan, said, err := p.Plan(ctx, "fake_thing", none(p), given, given)
			if err != nil || said.Errors() != nil || plan.Planned.State.GetAttr("id").IsKnown() || string(plan.Planned.Private) != "planned" {
				t.Fatal(plan, said, err)
			}
			made, said, err := p.Apply(ctx, "fake_thing", none(p).State, plan.Planned, given)
			if err != nil || said.Errors() != nil || made.State.GetAttr("id").AsString() != "id-a" || string(made.Private) != "applied" {
				t.Fatal(made, said, err)
			}
			now, said, err := p.Read(ctx, "fake_thing", made)
			if err != nil || said.Errors() != nil || !now.State.RawEquals(made.State) {
				t.Fatal(now, said, err)
			}
			checkImport(t, p, made)
			checkReplacement(t, p, made)
			gone, said, err := p.Apply(ctx, "fake_thing", made.State, none(p), none(p).State)
			if err != nil || said.Errors() != nil || !gone.State.IsNull() {
				t.Fatal(gone, said, err)
			}
			if now, _, err := p.Read(ctx, "fake_thing", made); err != nil || !now.State.IsNull() {
				t.Fatal(now, err)
			}
		})
	}
}

func checkSchema(t *testing.T, p *Provider) {
	t.Helper()
	schema := p.Schemas.Resources["fake_thing"]
	assert.True(t, schema.Version == 3 && p.Schemas.PlanDestroy && len(schema.Attributes) == 8 && len(schema.Blocks) == 1,
		"the schemas are %+v", p.Schemas)
	for _, a := range schema.Attributes {
		assert.True(t, a.Sensitive == (a.Name == "password") && a.WriteOnly == (a.Name == "token") && a.Required == (a.Name == "name"),
			"the attribute %s is %+v", a.Name, a)
	}
}

func configureIt(t *testing.T, p *Provider) {
	t.Helper()
	config := cty.ObjectVal(map[string]cty.Value{"greeting": cty.StringVal("hello"), "key": cty.NullVal(cty.String)})
	config, said, err := p.ValidateProvider(t.Context(), config)
	if err != nil || said.Errors() != nil || config.GetAttr("greeting").AsString() != "hello" {
		t.Fatal(config, said, err)
	}
	if said, err := p.Configure(t.Context(), config); err != nil || said.Errors() != nil {
		t.Fatal(said, err)
	}
}

func checkImport(t *testing.T, p *Provider, made Instance) {
	t.Helper()
	imported, said, err := p.Import(t.Context(), "fake_thing", "id-a")
	if err != nil || said.Errors() != nil || !imported.State.RawEquals(made.State) {
		t.Fatal(imported, said, err)
	}
}

func checkReplacement(t *testing.T, p *Provider, made Instance) {
	t.Helper()
	renamed := thing(p, map[string]cty.Value{"name": cty.StringVal("b")})
	plan, _, err := p.Plan(t.Context(), "fake_thing", made, renamed, renamed)
	if err != nil || len(plan.Replace) != 1 || PathText(plan.Replace[0]) != "name" {
		t.Fatal(plan, err)
	}
}

func TestDiagnosticsSayWhatAndWhere(t *testing.T) {
	p := started(t)
	said, err := p.Validate(t.Context(), "fake_thing", thing(p, map[string]cty.Value{"name": cty.StringVal("a b")}))
	require.NoError(t, err)
	problem := said.Errors()
	assert.True(t, problem != nil && problem.Error() == "name: a name has no spaces", "the error is %v", problem)
	warnings := said.Warnings()
	assert.True(t, len(warnings) == 1 && warnings[0] == "names should be short", "the warnings are %q", warnings)
}

func TestManyCallsAtOnce(t *testing.T) {
	p := started(t)
	var calls sync.WaitGroup
	for range 200 {
		calls.Go(func() {
			given := thing(p, map[string]cty.Value{"name": cty.StringVal("a")})
			if _, said, err := p.Plan(t.Context(), "fake_thing", none(p), given, given); err != nil || said.Errors() != nil {
				t.Error(said, err)
			}
		})
	}
	calls.Wait()
}

// What a provider does that is broken, or hostile.
func TestProvidersThatMisbehave(t *testing.T) {
	for fault, problem := range map[string]string{
		tftest.Garbage:  "is not a message of Protocol Buffers",
		tftest.BadValue: "does not fit its schema",
	} {
		t.Run(fault, func(t *testing.T) {
			p := started(t)
			given := thing(p, map[string]cty.Value{"name": cty.StringVal("a"), "fault": cty.StringVal(fault)})
			_, _, err := p.Plan(t.Context(), "fake_thing", none(p), given, given)
			assert.ErrorContains(t, err, problem)
		})
	}
	t.Run("a crash", func(t *testing.T) {
		p := started(t)
		given := thing(p, map[string]cty.Value{"name": cty.StringVal("a"), "fault": cty.StringVal(tftest.CrashInApply)})
		plan, _, err := p.Plan(t.Context(), "fake_thing", none(p), given, given)
		require.NoError(t, err)
		_, _, err = p.Apply(t.Context(), "fake_thing", none(p).State, plan.Planned, given)
		var crash *CrashError
		assert.True(t, errors.As(err, &crash) && strings.Contains(crash.Output, "the provider of tests crashes") && p.Dead(),
			"the error is %v", err)
		_, _, err = p.Read(t.Context(), "fake_thing", plan.Planned)
		assert.ErrorAs(t, err, &crash, "after the crash the error")
	})
	t.Run("a call that never ends", func(t *testing.T) {
		p := started(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		given := thing(p, map[string]cty.Value{"name": cty.StringVal("a"), "fault": cty.StringVal(tftest.Hang)})
		time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
		_, _, err := p.Plan(ctx, "fake_thing", none(p), given, given)
		assert.ErrorIs(t, err, stop)
	})
}

func TestProgramsThatAreNoProviders(t *testing.T) {
	for said, problem := range map[string]string{
		"hello":                       "is not that of a provider of Terraform",
		"1|4|unix|/tmp/x|grpc|x":      `version "4" of the plugin protocol`,
		strings.Repeat("x", 64<<10):   "has more than 16384 bytes",
		"1|6|unix|/nowhere|grpc|AAAA": "its certificate",
	} {
		t.Setenv(tftest.Handshake, said)
		_, err := Start(t.Context(), os.Args[0], os.Environ(), time.Now())
		assert.ErrorContains(t, err, problem, "a provider that says %.20q gave %v, want %q", said, err, problem)
	}
	t.Setenv(tftest.Handshake, "none")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
	_, err := Start(ctx, os.Args[0], os.Environ(), time.Now())
	assert.ErrorIs(t, err, stop, "a provider that says nothing")
	_, err = Start(t.Context(), "/bin/false", nil, time.Now())
	assert.ErrorContains(t, err, "exit status 1", "a program that ends at once")
	_, err = Start(t.Context(), "/nonexistent", nil, time.Now())
	assert.Error(t, err, "a program that is not there started")
}

func TestMessagesAreBounded(t *testing.T) {
	frame := func(compressed byte, length uint32, content string) io.Reader {
		head := make([]byte, 5)
		head[0] = compressed
		binary.BigEndian.PutUint32(head[1:], length)
		return io.MultiReader(strings.NewReader(string(head)), strings.NewReader(content))
	}
	m, err := readMessage(frame(0, 3, "abc"))
	assert.True(t, err == nil && string(m) == "abc", "it read %q and %v", m, err)
	_, err = readMessage(strings.NewReader(""))
	assert.ErrorIs(t, err, io.EOF, "the end")
	for name, from := range map[string]io.Reader{
		"compressed":        frame(1, 3, "abc"),
		"too large":         frame(0, maxMessage+1, ""),
		"shorter than said": frame(0, maxMessage, "abc"),
		"a cut head":        strings.NewReader("\x00\x00"),
	} {
		_, err := readMessage(from)
		assert.True(t, err != nil && !errors.Is(err, io.EOF), "what is %s gave %v", name, err)
	}
}
