package authoring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

func (c *checker) initExits(ctx context.Context) (verdict, error) {
	var err error
	if c.answer, err = c.ask(ctx, "init", c.initInput()); err != nil {
		return verdict{}, err
	}
	return c.exited("init (the image without arguments)", c.answer), nil
}

func (c *checker) initOnlyJSON(context.Context) (verdict, error) {
	return c.onlyJSON("init", c.answer.stdout, decodeInit), nil
}

func (c *checker) initValid(context.Context) (verdict, error) {
	var err error
	if c.init, err = protocol.DecodeInit(c.answer.stdout); err != nil {
		return fail("%s; `deployster schema init` says what it must be like", c.explain(decodeInit, c.answer.stdout)), nil
	}
	for i, ref := range c.init.ActionImages {
		if _, err := reference.ParseAnyReference(ref); err != nil {
			return fail("action_images[%d]: %.100q is not the reference of an image: %v; no engine could get it, and no revision carry it", i, ref, err), nil
		}
	}
	said := []string{fmt.Sprintf("plugs: %s", list(slices.Sorted(maps.Keys(c.init.Plugs))))}
	if len(c.init.ActionImages) > 0 {
		said = append(said, "images of actions: "+list(c.init.ActionImages))
	}
	for _, offer := range []struct {
		made bool
		word string
	}{
		{c.init.Removable, "removable"}, {c.init.Keeps, "keeps"},
		{c.init.AcceptsUnknown, "accepts what is unknown"}, {c.init.Adoptable, "adoptable"}, {c.init.MakesNothing, "makes nothing"},
	} {
		if offer.made {
			said = append(said, offer.word)
		}
	}
	return pass("%s", strings.Join(said, "; ")), nil
}

// initMalformed lets a type ignore its input in init, but not stumble over it.
func (c *checker) initMalformed(ctx context.Context) (verdict, error) {
	s, err := c.askText(ctx, "init", malformed[0])
	if err != nil {
		return verdict{}, err
	}
	if s.exit.Code != 0 {
		return pass("refuses it"), nil
	}
	if err := decodeInit(s.stdout); err != nil {
		return fail("given %q, init exited with 0 without a valid answer: %s; end with a non-zero exit code where stdin cannot be read",
			malformed[0], c.explain(decodeInit, s.stdout)), nil
	}
	return pass("answers without reading it"), nil
}

func (c *checker) schemaCompiles(context.Context) (verdict, error) {
	if len(c.init.ConfigSchema) == 0 {
		return warn("init answers no config_schema, so any configuration is accepted and mistakes are found late; add one"), nil
	}
	var err error
	if c.schema, err = schema.CompileConfig(c.init.ConfigSchema); err != nil {
		return fail("%v; received %s; config_schema must be a JSON Schema (draft 2020-12, 2019-09, 07, 06 or 04)", err, received(c.init.ConfigSchema)), nil
	}
	return pass(""), nil
}

func (c *checker) stateSchemaCompiles(context.Context) (verdict, error) {
	if len(c.init.StateSchema) == 0 {
		return skip("init answers no state_schema"), nil
	}
	var err error
	if c.states, err = schema.CompileConfig(c.init.StateSchema); err != nil {
		return fail("%v; received %s; state_schema must be a JSON Schema, as config_schema", err, received(c.init.StateSchema)), nil
	}
	return pass(""), nil
}

func (c *checker) plugsGiven(context.Context) (verdict, error) {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(c.init.Plugs)) {
		want := c.init.Plugs[name]
		path, given := c.Plugs[name]
		switch {
		case given:
			c.mounts = append(c.mounts, engine.Mount{Source: path, Target: want.ContainerPath, ReadOnly: !want.Writable})
		case !want.Optional:
			missing = append(missing, fmt.Sprintf("--plug %s=PATH (the type wants it at %s%s)", name, want.ContainerPath, access(want)))
		}
	}
	if len(missing) > 0 {
		return fail("give %s", strings.Join(missing, " and ")), nil
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(c.Plugs)) {
		if _, ok := c.init.Plugs[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return warn("init does not ask for %s, so the type does not get it; it asks for %s",
			list(unknown), list(slices.Sorted(maps.Keys(c.init.Plugs)))), nil
	}
	return pass("%s", list(slices.Sorted(maps.Keys(c.init.Plugs)))), nil
}

func access(p protocol.PlugRequest) string {
	if p.Writable {
		return ", to write"
	}
	return ", to read"
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
