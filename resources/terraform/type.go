package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// request is a question to a type; its configuration is read once the schema is known.
type request = protocol.Request[json.RawMessage]

// managed is the type of a resource that a provider manages.
func managed(p *pool, name string, init Init) protocol.Type[json.RawMessage] {
	m := manager{p, name}
	return protocol.Type[json.RawMessage]{
		Plugs: init.Plugs, ConfigSchema: init.ConfigSchema, StateSchema: init.StateSchema,
		Removable: true, Keeps: true, Adoptable: true, AcceptsUnknown: true,
		State: m.state,
		Actions: map[string]func(context.Context, request) error{
			createKind: m.create, updateKind: m.update, destroyKind: m.destroy,
		},
	}
}

type manager struct {
	pool *pool
	name string
}

// open is a resource as a request is about it, and its configuration.
func (m manager) open(ctx context.Context, r request) (*resource, any, error) {
	config, own, err := split(r)
	if err != nil {
		return nil, nil, err
	}
	warn := func(text string) { r.Warnf("warning: %s: %s", m.name, text) }
	provider, err := m.pool.provider(ctx, own, warn)
	if err != nil {
		return nil, nil, err
	}
	schema, there := provider.Schemas.Resources[m.name]
	if !there {
		return nil, nil, fmt.Errorf("the provider has no resource %s; make the image again with `deployster type terraform`", m.name)
	}
	return &resource{m.name, schema, provider, own, warn}, config, nil
}

// split separates the configuration of a resource from that of its provider.
func split(r request) (config, provider any, err error) {
	text := r.Config
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	whole, err := decodeJSON(text)
	if err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	for _, path := range r.Unknown {
		whole = withUnknown(whole, strings.Split(path, "."))
	}
	given, ok := whole.(object)
	if !ok {
		return nil, nil, errors.New("config: an object is needed")
	}
	if provider = given[providerKey]; provider == nil {
		provider = object{}
	}
	delete(given, providerKey)
	return given, provider, nil
}

// state observes, and says what is to be done, and which thing the resource is.
func (m manager) state(ctx context.Context, r request) (protocol.StateOutput, error) {
	res, config, err := m.open(ctx, r)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	now, err := m.look(ctx, r, res)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	out, err := m.compare(ctx, r, res, now, config)
	if err == nil {
		out.Identity = res.identity(now)
	}
	return out, err
}

// identity identifies what there is, if the provider does and it is not gone: in the world of the provider's configuration, without
// what is secret of that.
func (r *resource) identity(now found) object {
	if !now.there() || now.Identity == cty.NilVal || now.Identity.IsNull() || !now.Identity.IsWhollyKnown() {
		return nil
	}
	own, _ := r.own.(object)
	at := object{}
	for name, value := range own {
		if !slices.ContainsFunc(r.provider.Schemas.Provider.Attributes, func(a tfplugin.Attribute) bool { return a.Name == name && (a.Sensitive || a.WriteOnly) }) {
			at[name] = value
		}
	}
	if len(protocol.UnknownPaths(at)) > 0 {
		return nil
	}
	return object{"identity": document(now.Identity), "provider": at}
}

// compare says what is to be done with what there is.
func (m manager) compare(ctx context.Context, r request, res *resource, now found, config any) (protocol.StateOutput, error) {
	if r.Ensure == protocol.Absent {
		if !now.there() {
			if err := r.Keep(object{}); err != nil {
				return protocol.StateOutput{}, err
			}
			return protocol.AnswerValid(object{})
		}
		return protocol.AnswerStale(document(now.State), protocol.Do(destroyKind, "destroy "+m.name+identity(now.State)))
	}
	given, err := res.configuration(ctx, config)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	c, err := res.change(ctx, now, given)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	settled, err := m.settled(r, res, now, c, given)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	if c.kind == "" || settled {
		if err := m.keepSeen(r, res, now); err != nil {
			return protocol.StateOutput{}, err
		}
		return protocol.AnswerValid(document(now.State))
	}
	if r.Adopt != "" {
		if err := m.keepSeen(r, res, now); err != nil {
			return protocol.StateOutput{}, err
		}
	}
	return m.stale(res, now, c)
}

// settled reports whether a change would change nothing: it was made already, and what came
// of it is what there is.
func (m manager) settled(r request, res *resource, now found, c change, given cty.Value) (bool, error) {
	if now.settled == "" || now.tainted || c.kind == "" || len(r.Unknown) > 0 {
		return false, nil
	}
	mark, err := settlement(res.schema, given, now.State)
	if err != nil || mark != now.settled {
		return false, err
	}
	r.Warnf("warning: %s: the provider would %s it each time it is asked, to no effect: %s", m.name, c.kind, changes(res.schema.Block, now.State, c.planned))
	return true, nil
}

// look observes what was kept, or what is to be taken over.
func (m manager) look(ctx context.Context, r request, res *resource) (found, error) {
	if r.Adopt != "" {
		return res.adopt(ctx, r.Adopt)
	}
	was, err := remembered(r.Kept)
	if err != nil {
		return found{}, err
	}
	if was == nil && r.Interrupted && r.Ensure == protocol.Present {
		r.Warnf("warning: %s: an action was interrupted, and nothing was kept of what it made: look whether there is something that it made, and remove that, or it is made a second time", m.name)
	}
	return res.look(ctx, was)
}

// keep has what there is kept.
func (m manager) keep(r request, res *resource, now found) error {
	document, err := kept(res.schema, res.provider.Schemas.Identities[m.name], now)
	if err != nil {
		return err
	}
	return r.Keep(document)
}

// keepSeen has what was observed kept, unless it is already.
func (m manager) keepSeen(r request, res *resource, now found) error {
	document, err := kept(res.schema, res.provider.Schemas.Identities[m.name], now)
	if err != nil || sameMemory(r.Kept, document) {
		return err
	}
	return r.Keep(document)
}

// stale is the answer that something is to be done.
func (m manager) stale(res *resource, now found, c change) (protocol.StateOutput, error) {
	var actions []protocol.Action
	switch c.kind {
	case createKind:
		actions = append(actions, protocol.Do(createKind, "create "+m.name))
	case updateKind:
		what := changes(res.schema.Block, now.State, c.planned)
		actions = append(actions, protocol.Do(updateKind, "update "+m.name+identity(now.State)+" in place: "+what))
	case replaceKind:
		what := changes(res.schema.Block, now.State, c.planned)
		actions = append(actions,
			protocol.DoDestroy(destroyKind, "destroy "+m.name+identity(now.State)+" to replace it: "+c.because),
			protocol.Do(createKind, "create "+m.name+" in its place: "+what))
	}
	var stale any
	if now.there() {
		stale = document(now.State)
	}
	out, err := protocol.AnswerStale(stale, actions...)
	out.PlannedState, _ = document(c.planned).(object)
	return out, err
}

// identity names what there is by its id, where that is short.
func identity(state cty.Value) string {
	if !state.Type().HasAttribute("id") {
		return ""
	}
	id := state.GetAttr("id")
	if id.IsNull() || id.Type() != cty.String || len(id.AsString()) > longestText {
		return ""
	}
	return " " + shown(id)
}

func (m manager) create(ctx context.Context, r request) error {
	return m.act(ctx, r, func(res *resource, now found, given cty.Value) error {
		if now.there() {
			c, err := res.change(ctx, now, given)
			if err == nil && c.kind != "" {
				err = errors.New("there is one that is not as configured; plan again")
			}
			return err // else it was made by an interrupted run
		}
		return m.apply(ctx, r, res, now, given)
	})
}

func (m manager) update(ctx context.Context, r request) error {
	return m.act(ctx, r, func(res *resource, now found, given cty.Value) error {
		c, err := res.change(ctx, now, given)
		switch {
		case err != nil || c.kind == "":
			return err
		case c.kind != updateKind:
			return fmt.Errorf("it can no longer be updated in place, a plan would now %s it; plan again", c.kind)
		}
		return m.apply(ctx, r, res, now, given)
	})
}

func (m manager) destroy(ctx context.Context, r request) error {
	res, _, err := m.open(ctx, r)
	if err != nil {
		return err
	}
	now, err := m.look(ctx, r, res)
	if err != nil {
		return err
	}
	if !now.there() {
		return r.Keep(object{})
	}
	return m.apply(ctx, r, res, now, res.null())
}

// act observes again before something is done: what was done by an interrupted run is not
// done twice.
func (m manager) act(ctx context.Context, r request, do func(*resource, found, cty.Value) error) error {
	res, config, err := m.open(ctx, r)
	if err != nil {
		return err
	}
	now, err := m.look(ctx, r, res)
	if err != nil {
		return err
	}
	given, err := res.configuration(ctx, config)
	if err != nil {
		return err
	}
	return do(res, now, given)
}

// apply does what is planned, and keeps what there is then, whether it failed or not.
func (m manager) apply(ctx context.Context, r request, res *resource, now found, config cty.Value) error {
	after, err := res.apply(ctx, now, config)
	err = errors.Join(err, m.keep(r, res, after))
	if err != nil || config.IsNull() {
		return err
	}
	return m.settle(ctx, r, res, after, config)
}

// settle looks whether the provider would change what it has just made, and notes that it
// has made it.
func (m manager) settle(ctx context.Context, r request, res *resource, made found, config cty.Value) error {
	now, err := res.read(ctx, made.Instance)
	if err != nil || now.State.IsNull() {
		return nil //nolint:nilerr // it is made; whoever asks for its state next is told
	}
	made.Instance = now
	c, err := res.change(ctx, made, config)
	if err != nil || c.kind == "" || !c.legacy {
		return nil //nolint:nilerr // as above
	}
	if made.settled, err = settlement(res.schema, config, now.State); err != nil {
		return err
	}
	return m.keep(r, res, made)
}

// data is the type of a data source of a provider, which is only observed.
func data(p *pool, name string, init Init) protocol.Type[json.RawMessage] {
	d := reader{p, name}
	return protocol.Type[json.RawMessage]{
		Plugs: init.Plugs, ConfigSchema: init.ConfigSchema, StateSchema: init.StateSchema,
		Removable: true, State: d.state,
	}
}

type reader struct {
	pool *pool
	name string
}

func (d reader) state(ctx context.Context, r request) (protocol.StateOutput, error) {
	if r.Ensure == protocol.Absent {
		return protocol.AnswerValid(object{}) // there is nothing of it to remove
	}
	config, own, err := split(r)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	warn := func(text string) { r.Warnf("warning: %s: %s", d.name, text) }
	provider, err := d.pool.provider(ctx, own, warn)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	schema, there := provider.Schemas.DataSources[d.name]
	if !there {
		return protocol.StateOutput{}, fmt.Errorf("the provider has no data source %s; make the image again with `deployster type terraform`", d.name)
	}
	given, err := blockValue(schema.Block, config, nil)
	if err != nil {
		return protocol.StateOutput{}, inConfig(err)
	}
	said, err := provider.ValidateData(ctx, d.name, given)
	if err := failed(said, err, warn); err != nil {
		return protocol.StateOutput{}, fmt.Errorf("the configuration: %w", err)
	}
	state, said, err := provider.ReadData(ctx, d.name, given)
	if err := failed(said, err, warn); err != nil {
		return protocol.StateOutput{}, fmt.Errorf("reading %s: %w", d.name, err)
	}
	if state.IsNull() || !state.IsWhollyKnown() {
		return protocol.StateOutput{}, fmt.Errorf("reading %s: the provider did not say what there is, which is an error in the provider", d.name)
	}
	return protocol.AnswerValid(document(state))
}
