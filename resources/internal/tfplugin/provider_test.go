package tfplugin

import (
	"context"
	"encoding/base64"
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

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/resources/internal/tftest"
)

// started is the provider of tests, whose world is an empty directory.
func started(t *testing.T) *Provider {
	t.Setenv(tftest.World, t.TempDir())
	p := must.Get(Start(t.Context(), os.Args[0], os.Environ(), time.Now()))(t)
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
			require.True(t, err == nil && said.Errors() == nil && now.State.RawEquals(made.State), "%v %v %v", now, said, err)
			checkImport(t, p, made)
			checkReplacement(t, p, made)
			gone, said, err := p.Apply(ctx, "fake_thing", made.State, none(p), none(p).State)
			require.True(t, err == nil && said.Errors() == nil && gone.State.IsNull(), "%v %v %v", gone, said, err)
			now, _, err = p.Read(ctx, "fake_thing", made)
			require.True(t, err == nil && now.State.IsNull(), "%v %v", now, err)
		})
	}
}

func checkSchema(t *testing.T, p *Provider) {
	schema := p.Schemas.Resources["fake_thing"]
	assert.True(t, schema.Version == 3 && p.Schemas.PlanDestroy && len(schema.Attributes) == 8 && len(schema.Blocks) == 1,
		"the schemas are %+v", p.Schemas)
	for _, a := range schema.Attributes {
		assert.True(t, a.Sensitive == (a.Name == "password") && a.WriteOnly == (a.Name == "token") && a.Required == (a.Name == "name"),
			"the attribute %s is %+v", a.Name, a)
	}
}

func configureIt(t *testing.T, p *Provider) {
	config := cty.ObjectVal(map[string]cty.Value{"greeting": cty.StringVal("hello"), "key": cty.NullVal(cty.String)})
	config, said, err := p.ValidateProvider(t.Context(), config)
	require.True(t, err == nil && said.Errors() == nil && config.GetAttr("greeting").AsString() == "hello", "%v %v %v", config, said, err)
	said, err = p.Configure(t.Context(), config)
	require.True(t, err == nil && said.Errors() == nil, "%v %v", said, err)
}

func checkImport(t *testing.T, p *Provider, made Instance) {
	imported, said, err := p.Import(t.Context(), "fake_thing", "id-a")
	require.True(t, err == nil && said.Errors() == nil && imported.State.RawEquals(made.State), "%v %v %v", imported, said, err)
}

func checkReplacement(t *testing.T, p *Provider, made Instance) {
	renamed := thing(p, map[string]cty.Value{"name": cty.StringVal("b")})
	plan, _, err := p.Plan(t.Context(), "fake_thing", made, renamed, renamed)
	require.True(t, err == nil && len(plan.Replace) == 1 && PathText(plan.Replace[0]) == "name", "%v %v", plan, err)
}

func TestDiagnosticsSayWhatAndWhere(t *testing.T) {
	p := started(t)
	said := must.Get(p.Validate(t.Context(), "fake_thing", thing(p, map[string]cty.Value{"name": cty.StringVal("a b")})))(t)
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
			_, said, err := p.Plan(t.Context(), "fake_thing", none(p), given, given)
			assert.True(t, err == nil && said.Errors() == nil, "%v %v", said, err)
		})
	}
	calls.Wait()
}

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
	assert.ErrorIs(t, must.Fail(Start(ctx, os.Args[0], os.Environ(), time.Now())), stop, "a provider that says nothing")
	assert.ErrorContains(t, must.Fail(Start(t.Context(), "/bin/false", nil, time.Now())), "exit status 1", "a program that ends at once")
	assert.Error(t, must.Fail(Start(t.Context(), "/nonexistent", nil, time.Now())), "a program that is not there started")
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
	assert.ErrorIs(t, must.Fail(readMessage(strings.NewReader(""))), io.EOF, "the end")
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

func TestHandshakes(t *testing.T) {
	own, _, err := ownCertificate(time.Now())
	require.NoError(t, err)
	certificate := base64.RawStdEncoding.EncodeToString(own.Certificate[0])
	for line, problem := range map[string]string{
		"1|6|unix|/tmp/plugin|grpc|" + certificate + "\n":        "",
		"1|5|unix|/tmp/plugin|grpc|" + certificate + "|true\r\n": "",
		"":                              "is not that of a provider of Terraform",
		"usage: terraform-provider":     "is not that of a provider of Terraform",
		"2|6|unix|/tmp/plugin|grpc|x":   `version "2" of the handshake`,
		"1|4|unix|/tmp/plugin|grpc|x":   `version "4" of the plugin protocol`,
		"1|x|unix|/tmp/plugin|grpc|x":   `version "x" of the plugin protocol`,
		"1|6|tcp|127.0.0.1:1234|grpc|x": "not at a Unix socket",
		"1|6|unix|plugin|grpc|x":        "not at a Unix socket",
		"1|6|unix|/tmp/plugin":          "too old",
		"1|5|unix|/tmp/plugin|netrpc|x": "too old",
		"1|6|unix|/tmp/plugin|grpc|":    "too old",
		"1|6|unix|/tmp/plugin|grpc|???": "is not base64",
		"1|6|unix|/tmp/plugin|grpc|AAA": "its certificate",
	} {
		h, err := parseHandshake(line)
		switch {
		case problem == "" && (err != nil || h.socket != "/tmp/plugin" || h.certificate == nil):
			t.Errorf("%.30q gave %v and %v", line, h, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%.30q gave %v, want %q", line, err, problem)
		}
	}
}

func FuzzHandshake(f *testing.F) {
	f.Add("1|6|unix|/tmp/plugin|grpc|MIIB")
	f.Fuzz(func(t *testing.T, line string) {
		h, err := parseHandshake(line)
		assert.False(t, err == nil && (versions()[h.version].service == "" || h.certificate == nil), "%q was accepted", line)
	})
}

func TestMain(m *testing.M) {
	if tftest.Started() {
		tftest.Main()
	}
	os.Exit(m.Run())
}

func TestSchemasAreBounded(t *testing.T) {
	var deep message
	for range maxNesting + 2 {
		var block, nested message
		if deep != nil {
			block.message(3, deep)
		}
		nested.text(1, "x")
		nested.message(2, block)
		nested.number(3, int64(List))
		deep = nested
	}
	var block, schema message
	block.message(3, deep)
	schema.message(2, block)
	assert.ErrorContains(t, must.Fail(newSchemaReader(versions()[6]).schema(schema)), "nested deeper")
}

func TestTypesOfNestedBlocks(t *testing.T) {
	port := Block{Attributes: []Attribute{{Name: "port", Type: cty.Number}}}
	anything := Block{Attributes: []Attribute{{Name: "value", Type: cty.DynamicPseudoType}}}
	for _, tc := range []struct {
		block NestedBlock
		want  cty.Type
	}{
		{NestedBlock{Block: port, Nesting: Single}, port.Type()},
		{NestedBlock{Block: port, Nesting: Group}, port.Type()},
		{NestedBlock{Block: port, Nesting: List}, cty.List(port.Type())},
		{NestedBlock{Block: port, Nesting: Set}, cty.Set(port.Type())},
		{NestedBlock{Block: port, Nesting: Map}, cty.Map(port.Type())},
		{NestedBlock{Block: anything, Nesting: List}, cty.DynamicPseudoType},
	} {
		got := tc.block.Type()
		assert.True(t, got.Equals(tc.want), "nested %d times it is %#v, want %#v", tc.block.Nesting, got, tc.want)
	}
}

func FuzzSchema(f *testing.F) {
	var attribute, block, schema message
	attribute.text(1, "name")
	attribute.text(2, `["list","string"]`)
	block.message(2, attribute)
	schema.message(2, block)
	f.Add([]byte(schema), true)
	f.Fuzz(func(t *testing.T, data []byte, six bool) {
		version := versions()[5]
		if six {
			version = versions()[6]
		}
		s, err := newSchemaReader(version).schema(data)
		if err == nil {
			_ = s.Type() // of what was accepted there is a type
		}
		_, _ = readDiagnostic(data)
		_, _ = readValue(data, cty.List(cty.String))
	})
}
