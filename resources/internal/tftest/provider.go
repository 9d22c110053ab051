package tftest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"google.golang.org/protobuf/encoding/protowire"
)

// Faults that a thing may have.
const (
	CrashInApply      = "crash-in-apply"      // the process ends, once the thing is made
	FailAfterCreate   = "fail-after-create"   // it is made, and that fails
	UnknownAfterApply = "unknown-after-apply" // what is not known stays so
	OtherAfterApply   = "other-after-apply"   // it has another size than planned
	OtherPlan         = "other-plan"          // the plan changes what is configured
	Hang              = "hang"                // planning never ends
	Huge              = "huge"                // its state is too large to be kept
	Garbage           = "garbage"             // the answer to a plan is no message
	BadValue          = "bad-value"           // the planned state is of another type
	Exclusive         = "exclusive"           // none, but what is there is not made once more, as in most worlds
	Restless          = "restless"            // it would change the thing each time, to no effect
)

// ruleType is that of a nested block of things.
var ruleType = cty.Object(map[string]cty.Type{"port": cty.Number, "note": cty.String})

// thingType is that of things, and of the data source.
var thingType = cty.Object(map[string]cty.Type{
	"id": cty.String, "name": cty.String, "size": cty.Number, "tags": cty.Map(cty.String), "password": cty.String,
	"token": cty.String, "serial": cty.Number, "fault": cty.String, "rule": cty.Set(ruleType),
})

var providerType = cty.Object(map[string]cty.Type{"greeting": cty.String, "key": cty.String})

// flags of attributes.
const (
	required = 1 << iota
	optional
	computed
	sensitive
	writeOnly
)

func attribute(name, kind string, flags int) message {
	m := message(nil).text(1, name).text(2, kind).text(3, "the "+name+" of it")
	for i, field := range []protowire.Number{4, 5, 6, 7, writeOnlyField()} {
		if flags&(1<<i) != 0 {
			m = m.number(field, 1)
		}
	}
	return m
}

func writeOnlyField() protowire.Number {
	if os.Getenv(Protocol) == "5" {
		return 10
	}
	return 11
}

func schema(version uint64, attributes []message, blocks ...message) message {
	block := message(nil)
	for _, a := range attributes {
		block = block.bytes(2, a)
	}
	for _, b := range blocks {
		block = block.bytes(3, b)
	}
	return message(nil).number(1, version).bytes(2, block)
}

func schemas() message {
	rule := message(nil).text(1, "rule").number(3, 3).
		bytes(2, fields(schema(0, []message{attribute("port", `"number"`, required), attribute("note", `"string"`, optional|computed)}))[2])
	thing := schema(3, []message{
		attribute("id", `"string"`, computed), attribute("name", `"string"`, required), attribute("size", `"number"`, optional),
		attribute("tags", `["map","string"]`, optional), attribute("password", `"string"`, computed|sensitive),
		attribute("token", `"string"`, optional|writeOnly), attribute("serial", `"number"`, computed), attribute("fault", `"string"`, optional),
	}, rule)
	source := schema(0, []message{
		attribute("id", `"string"`, required), attribute("name", `"string"`, computed), attribute("size", `"number"`, computed),
		attribute("tags", `["map","string"]`, computed), attribute("password", `"string"`, computed|sensitive),
		attribute("token", `"string"`, computed), attribute("serial", `"number"`, computed), attribute("fault", `"string"`, computed),
	}, rule)
	provider := schema(0, []message{attribute("greeting", `"string"`, optional), attribute("key", `"string"`, optional|sensitive)})
	return message(nil).bytes(1, provider).bytes(2, message(nil).text(1, "fake_thing").bytes(2, thing)).
		bytes(3, message(nil).text(1, "fake_thing").bytes(2, source)).bytes(6, message(nil).number(1, 1))
}

// configured counts how often it was, of which more than once is an error.
var configured struct {
	sync.Mutex
	times int
}

// call answers a method.
func call(method string, request map[protowire.Number][]byte) (message, error) {
	switch method {
	case "GetProviderSchema", "GetSchema":
		return schemas(), nil
	case "PrepareProviderConfig":
		return message(nil).bytes(1, request[1]), nil
	case "ValidateProviderConfig", "ValidateDataResourceConfig", "ValidateDataSourceConfig":
		return nil, nil
	case "ConfigureProvider", "Configure":
		return configure(valueOf(request[2], providerType)), nil
	case "ValidateResourceConfig", "ValidateResourceTypeConfig":
		if name := valueOf(request[2], thingType).GetAttr("name"); name.IsKnown() && strings.Contains(name.AsString(), " ") {
			return message(nil).diagnostic(1, 1, "a name has no spaces", "name").diagnostic(1, 2, "names should be short", ""), nil
		}
		return nil, nil
	case "UpgradeResourceState":
		v, err := ctyjson.Unmarshal(fields(request[3])[1], thingType)
		if err != nil {
			return message(nil).diagnostic(2, 1, "the state is of no version: "+err.Error(), ""), nil
		}
		return message(nil).value(1, v, thingType), nil
	case "ReadResource":
		was := valueOf(request[2], thingType)
		now := read(was.GetAttr("id").AsString())
		return identified(message(nil).value(1, now, thingType).bytes(3, request[3]), 5, now, request[6])
	case "ImportResourceState":
		found := read(string(request[2]))
		if found.IsNull() {
			return message(nil).diagnostic(2, 1, "there is no such thing", ""), nil
		}
		imported, err := identified(message(nil).text(1, "fake_thing").value(2, found, thingType), 4, found, nil)
		return message(nil).bytes(1, imported), err
	case "PlanResourceChange":
		if err := mayIdentify(request[8]); err != nil {
			return nil, err
		}
		return plan(valueOf(request[2], thingType), valueOf(request[3], thingType), request[5])
	case "ApplyResourceChange":
		planned := valueOf(request[3], thingType)
		answer, err := apply(valueOf(request[2], thingType), planned, valueOf(request[4], thingType), request[5])
		if err != nil {
			return nil, err
		}
		return identified(answer, 5, planned, request[7])
	case "Stop", "StopProvider":
		return nil, nil
	}
	return callOther(method, request)
}

// callOther answers the methods of data sources and identities.
func callOther(method string, request map[protowire.Number][]byte) (message, error) {
	switch method {
	case "ReadDataSource":
		found := read(valueOf(request[2], thingType).GetAttr("id").AsString())
		if found.IsNull() {
			return message(nil).diagnostic(2, 1, "there is no such thing", "id"), nil
		}
		return message(nil).value(1, found, thingType), nil
	case "GetResourceIdentitySchemas":
		if version := identityVersion(); version > 0 {
			name := message(nil).text(1, "name").text(2, `"string"`).number(3, 1)
			return message(nil).bytes(1, message(nil).text(1, "fake_thing").bytes(2, message(nil).number(1, version).bytes(2, name))), nil
		}
	case "UpgradeResourceIdentity":
		if was := string(fields(request[3])[1]); was != `{"name":"a"}` || identityVersion() != 2 {
			return nil, fmt.Errorf("no identity of a former version: %s", was)
		}
		return identified(nil, 1, cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("a")}), nil)
	}
	return nil, fmt.Errorf("there is no %s: %w", method, errUnimplemented)
}

var errUnimplemented = errors.New("unimplemented")

var identityType = cty.Object(map[string]cty.Type{"name": cty.String})

func identityVersion() uint64 {
	version, _ := strconv.ParseUint(os.Getenv(Identity), 10, 32) // 0 is none
	return version
}

// mayIdentify refuses an identity of a thing that has none.
func mayIdentify(data []byte) error {
	if identityVersion() == 0 && data != nil {
		return errors.New("an identity of a thing without a schema of it")
	}
	return nil
}

// identified adds the identity of a thing, if things have one. data is the one of the request.
func identified(m message, n protowire.Number, thing cty.Value, data []byte) (message, error) {
	if err := mayIdentify(data); err != nil || identityVersion() == 0 || thing.IsNull() {
		return m, err
	}
	identity := cty.ObjectVal(map[string]cty.Value{"name": thing.GetAttr("name")})
	if data != nil && !valueOf(fields(data)[1], identityType).RawEquals(identity) {
		return nil, errors.New("another identity")
	}
	return m.bytes(n, message(nil).value(1, identity, identityType)), nil
}

func configure(config cty.Value) message {
	configured.Lock()
	defer configured.Unlock()
	if configured.times++; configured.times > 1 {
		return message(nil).diagnostic(1, 1, "it is configured already", "")
	}
	if greeting := config.GetAttr("greeting"); !greeting.IsNull() {
		fmt.Fprintln(os.Stderr, greeting.AsString())
	}
	return nil
}

func plan(prior, proposed cty.Value, private []byte) (message, error) {
	if proposed.IsNull() {
		return message(nil).value(1, proposed, thingType).bytes(3, private), nil
	}
	values := proposed.AsValueMap()
	unknown := prior.IsNull()
	var replace message
	if !prior.IsNull() && !prior.GetAttr("name").RawEquals(values["name"]) {
		replace = message(nil).bytes(2, message(nil).bytes(1, message(nil).text(1, "name")))
		unknown = true
	}
	if unknown {
		for _, name := range []string{"id", "password", "serial"} {
			values[name] = cty.UnknownVal(thingType.AttributeType(name))
		}
	}
	switch fault(values) {
	case Restless:
		if !prior.IsNull() {
			values["serial"] = cty.NumberIntVal(666)
		}
	case OtherPlan:
		values["size"] = cty.NumberIntVal(666)
	case Hang:
		select {}
	case Garbage:
		return message{0xff, 0xff, 0xff}, nil
	case BadValue:
		return message(nil).value(1, cty.True, cty.Bool), nil
	}
	answer := append(replace, message(nil).value(1, cty.ObjectVal(values), thingType).text(3, "planned")...)
	if fault(values) == Restless {
		answer = answer.number(5, 1)
	}
	return answer, nil
}

func fault(values map[string]cty.Value) string {
	if f := values["fault"]; !f.IsNull() && f.IsKnown() {
		return f.AsString()
	}
	return ""
}

func apply(prior, planned, config cty.Value, private []byte) (message, error) {
	if planned.IsNull() {
		if err := os.Remove(file(prior.GetAttr("id").AsString())); err != nil {
			return message(nil).value(1, prior, thingType).diagnostic(3, 1, err.Error(), ""), nil
		}
		return message(nil).value(1, planned, thingType), nil
	}
	if string(private) != "planned" {
		return nil, errors.New("what was planned is lost")
	}
	values := planned.AsValueMap()
	if prior.IsNull() {
		values["id"] = cty.StringVal("id-" + values["name"].AsString())
		values["serial"] = cty.NumberIntVal(1)
		values["password"] = cty.StringVal("geheim-" + values["name"].AsString())
	}
	if token := config.GetAttr("token"); !token.IsNull() {
		values["password"] = token
	}
	problem := message(nil)
	switch fault(values) {
	case Exclusive:
		if prior.IsNull() && !read(values["id"].AsString()).IsNull() {
			return message(nil).value(1, prior, thingType).diagnostic(3, 1, "there is such a thing already", "name"), nil
		}
	case Restless:
		values["serial"] = cty.NumberIntVal(1)
	case OtherAfterApply:
		values["size"] = cty.NumberIntVal(666)
	case FailAfterCreate:
		problem = problem.diagnostic(3, 1, "the disk is full", "size")
	case Huge:
		values["tags"] = cty.MapVal(map[string]cty.Value{"huge": cty.StringVal(strings.Repeat("x", 100<<10))})
	}
	if err := write(cty.ObjectVal(values)); err != nil {
		return nil, err
	}
	switch fault(values) {
	case CrashInApply:
		fmt.Fprintln(os.Stderr, "panic: the provider of tests crashes")
		os.Exit(2)
	case UnknownAfterApply:
		values["serial"] = cty.UnknownVal(cty.Number)
	}
	return append(message(nil).value(1, cty.ObjectVal(values), thingType).text(2, "applied"), problem...), nil
}

func file(id string) string { return filepath.Join(os.Getenv(World), filepath.Base(id)+".json") }

func read(id string) cty.Value {
	text, err := os.ReadFile(file(id))
	if err != nil {
		return cty.NullVal(thingType)
	}
	v, err := ctyjson.Unmarshal(text, thingType)
	if err != nil {
		panic(err)
	}
	return v
}

func write(thing cty.Value) error {
	thing, err := cty.Transform(thing, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsKnown() {
			return cty.NullVal(v.Type()), nil
		}
		return v, nil
	})
	if err != nil {
		return err
	}
	text, err := ctyjson.Marshal(thing, thingType)
	if err != nil {
		return err
	}
	return os.WriteFile(file(thing.GetAttr("id").AsString()), text, 0o600)
}
