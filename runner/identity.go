package runner

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

// Thing is what a resource manages of which there is one in the world.
type Thing struct {
	Key   string // equal for two that manage one thing; "" is not known
	Name  string // of the part of its identity that its configuration says, such as "path"
	Value string
}

// Owners know what other manifests manage.
type Owners interface {
	// Other returns what another manifest has that is of the key; nil is nothing.
	Other(ctx context.Context, key string) (*report.Owned, error)

	// Takes returns what a resource has from now on that another manifest made: that of which the manifest
	// says so, and what was made just so, under the name, by a manifest that no longer declares it; nil is
	// nothing. now is what the resource is to be.
	Takes(ctx context.Context, resource string, now *report.Made) (*report.Owned, error)

	// Ours returns what runs of this manifest made that is of the key.
	Ours(ctx context.Context, key string) ([]*report.Owned, error)

	// Still reports whether something is just what it was, and of whom it was: a manifest, or this one where by is nil.
	Still(ctx context.Context, u report.Undeclared, by *report.OwnedBy) (bool, error)

	// Update has the answers be as of now, and not of when the past of the resource was asked for.
	Update(ctx context.Context) error

	// PastOf returns the past of something that runs made.
	PastOf(ctx context.Context, u report.Undeclared, keeps bool) (Past, error)
}

// identify finds out what identifies the thing that a resource manages: its type, the engine and the plugs where
// it is, and what its type says in its answer to init or to state; answered is the latter, nil where it was not
// asked. A plug that the type only reads, such as one with credentials, is not where it is.
func (r *Runner) identify(res *resource, answered []map[string]any) report.Identity {
	id, _ := r.identifyNow(res, answered)
	return id
}

// identifyNow is identify. It fails if something secret identifies the thing and there is no key for hashes of that.
func (r *Runner) identifyNow(res *resource, answered []map[string]any) (report.Identity, error) {
	hash := &identityHash{runner: r, res: res, engine: r.spec.EngineID}
	id := r.identifyBy(res, answered, hash)
	if hash.engine != "" {
		if id.ByAddress = r.identifyBy(res, answered, &identityHash{runner: r, res: res}).Keys(); slices.Equal(id.ByAddress, id.Keys()) {
			id.ByAddress = nil
		}
	}
	if hash.keyed {
		former := r.identifyBy(res, answered, &identityHash{runner: r, res: res, former: true})
		id.Former = &former
	}
	if hash.failed != nil {
		return id, fmt.Errorf("something secret identifies it, and the key for hashes of such things cannot be read, so that it is not known who has it: %w; make that file readable", hash.failed)
	}
	return id, nil
}

func (r *Runner) identifyBy(res *resource, answered []map[string]any, hash *identityHash) report.Identity {
	engine := cmp.Or(r.spec.Where, report.ThisMachine)
	id := report.Identity{Parts: map[string]string{report.PartType: taken.Image(res.Type), report.PartEngine: engine}}
	if hash.engine != "" {
		id.Parts[report.PartEngineID] = hash.engine
	}
	where := []string{cmp.Or(hash.engine, engine), r.spec.Machine, taken.Image(res.Type)}
	for _, name := range slices.Sorted(maps.Keys(res.init.Plugs)) {
		if p := res.Plug(res.manifest, name); p != nil && res.init.Plugs[name].Writable && p.Allows(res.Name, res.Type) {
			path := r.real(p.Path)
			hash.part(id.Parts, "plug "+name, path, !hash.former && r.secrets.Mask(path) != path)
			where = append(where, name, path)
		}
	}
	if r.spec.Thing != nil {
		if thing := r.spec.Thing(res.manifest, res.Resource, res.config); thing.Key != "" {
			hash.member(id.Parts, thing.Name, thing.Value)
			return id.WithKeys(hash.keys(keyParts(cmp.Or(hash.engine, r.spec.Where), r.spec.Machine, res.Type, thing.Key)))
		}
	}
	named := map[string]any{}
	for _, member := range res.init.Identity {
		value, known := memberOf(res.config, member)
		if !known || len(protocol.UnknownPaths(map[string]any{member: value})) > 0 {
			return id
		}
		named[member] = value
		hash.member(id.Parts, member, value)
	}
	switch {
	case len(answered) > 0: // which the world gave, and which says nothing of the plugs by which it was reached
		var things [][]any
		for _, thing := range answered {
			text := textOf(thing)
			hash.keyed = hash.keyed || !hash.former && r.secrets.Mask(text) != text
			things = append(things, []any{taken.Image(res.Type), thing})
		}
		return id.WithKeys(hash.keys(things...))
	case len(named) > 0:
		return id.WithKeys(hash.keys([]any{where, named}))
	}
	return id
}

// identityHash hashes what identifies a thing. Hashes of secrets are keyed: who has the log, but not the key, cannot
// try values.
type identityHash struct {
	runner *Runner
	res    *resource
	engine string // the id of the engine; "" is that it is known by its address
	former bool   // as former versions did: without keys
	keyed  bool   // something is secret
	failed error  // why there is no key for that
}

// member adds a member of the configuration to the parts of an identity.
func (h *identityHash) member(parts map[string]string, member string, value any) {
	text, ok := value.(string)
	if !ok {
		text = textOf(value)
	}
	h.part(parts, member, text, h.res.target.Secret.Cover(strings.Split(member, ".")) || h.runner.secrets.Mask(text) != text)
}

// part adds a part for people. A secret one is a hash, or left out if there is no key.
func (h *identityHash) part(parts map[string]string, name, text string, secret bool) {
	switch {
	case !secret:
		parts[name] = text
	case h.former:
		parts[name] = "sha256:" + hashed(text)[:12]
	default:
		h.keyed = true
		if key, known := h.key(); known {
			parts[name] = report.KeyedHash(hashed(hex.EncodeToString(key))[:8], keyedHash(key, text)[:12])
		}
	}
}

// keys are the keys of things, or none if there is no key for what is secret in them.
func (h *identityHash) keys(things ...[]any) (keys []string) {
	key, known := []byte(nil), true
	if h.keyed {
		key, known = h.key()
	}
	for _, thing := range things {
		switch {
		case !known:
			return nil
		case key != nil:
			keys = append(keys, keyedHash(key, thing...))
		default:
			keys = append(keys, hashed(thing...))
		}
	}
	return keys
}

func (h *identityHash) key() ([]byte, bool) {
	if h.runner.spec.Key == nil {
		return nil, false
	}
	key, err := h.runner.spec.Key()
	if h.failed = err; err == nil && len(key) == 0 {
		h.failed = errors.New("it is empty")
	}
	return key, h.failed == nil
}

func keyedHash(key []byte, parts ...any) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(textOf(parts)))
	return hex.EncodeToString(mac.Sum(nil))
}

// IdentityKey is the Key of the identity of what Spec.Thing knows: where is Spec.Where, and machine Spec.Machine.
func IdentityKey(where, machine, ref, key string) string {
	return hashed(keyParts(where, machine, ref, key)...)
}

func keyParts(where, machine, ref, key string) []any {
	return []any{where, machine, taken.Image(ref), key}
}

// textOf is a value as text: JSON, with members in order.
func textOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// memberOf is a member of a configuration, which may be in a member of it.
func memberOf(config map[string]any, member string) (any, bool) {
	var at any = config
	for _, name := range strings.Split(member, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = object[name]; !ok {
			return nil, false
		}
	}
	return at, true
}

func hashed(parts ...any) string {
	sum := sha256.Sum256([]byte(textOf(parts)))
	return hex.EncodeToString(sum[:])
}

// real is a path without links, where this machine sees it.
func (r *Runner) real(path string) string {
	if r.containers.Remote {
		return path
	}
	if known, ok := r.paths.Load(path); ok {
		return known.(string) //nolint:forcetypeassert // it holds nothing else
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	r.paths.Store(path, real)
	return real
}

// own finds out whether a resource is still what it was, and whether another manifest manages that. It comes
// after the past is known, and before its type is asked.
func (r *Runner) own(ctx context.Context, res *resource) error {
	res.deposes, res.deposesOf, res.replaced, res.took = nil, nil, "", nil
	id, err := r.identifyNow(res, nil)
	if res.identity = id; res.ReadOnly || res.undeclared != nil || r.caller.Owners == nil || res.init.MakesNothing {
		return nil
	}
	if err != nil {
		return err
	}
	made := res.past.Made // by a run of this manifest
	if err := r.take(ctx, res); err != nil {
		return err
	}
	was, open := made, res.recalled.Open
	isTook := res.took != nil && made == nil
	if isTook {
		was, open = &res.took.Undeclared, res.took.Open
	}
	if was == nil {
		return nil
	}
	if r.sameThing(res, was) {
		return nil
	}
	if isTook && res.took.Declares {
		return r.ownedElsewhere(res, res.took) // it would be lost
	}
	return r.depose(res, was, open, isTook)
}

// observeOwned observes a resource once its past is known, and which thing it is.
func (r *Runner) observeOwned(ctx context.Context, res *resource) (out protocol.StateOutput, err error) {
	if err = r.recall(ctx, res); err == nil {
		err = r.own(ctx, res)
	}
	if err == nil {
		out, err = r.observeAnswered(ctx, res)
	}
	return out, err
}

// observeAnswered observes a resource, and takes in which things its type says that it manages. If it takes over
// what another manifest had, its type is asked again, with the past of that.
func (r *Runner) observeAnswered(ctx context.Context, res *resource) (protocol.StateOutput, error) {
	took := res.took
	out, err := r.observe(ctx, res)
	var other *conflict
	switch {
	case err == nil:
		err = r.answered(ctx, res, out.Things())
	case errors.As(err, &other):
		if failed := r.answered(ctx, res, other.things); failed != nil {
			return out, failed
		}
	default:
	}
	if res.took != nil && res.took != took {
		return r.observe(ctx, res)
	}
	return out, err
}

// conflict is the answer of a type that another resource has what a resource is.
type conflict struct {
	message string
	things  []map[string]any
}

func (c *conflict) Error() string { return c.message }

// depose marks what runs made of a resource for removal, if the resource is another thing now.
func (r *Runner) depose(res *resource, was *report.Undeclared, open func() (report.Made, error), isTook bool) error {
	res.replaced = r.secrets.Mask(was.Identity.DiffersText(res.identity))
	if res.PreventDestroy {
		return r.prevented(res, "it would be another thing ("+res.replaced+"), and what run "+was.Run+" made would be removed")
	}
	if open == nil {
		return nil
	}
	made, err := open()
	if err != nil {
		return fmt.Errorf("it is another thing now (%s), and what it takes to remove what run %s made is not known any more: %w; remove that by hand, then \"deployster state forget %s\"",
			res.replaced, was.Run, err, res.Name)
	}
	old := *was
	old.Made, old.Deposed = made, true
	old.Identity, old.PreventDestroy = was.Identity, false // what is declared now says so
	res.deposes = &old
	switch {
	case isTook:
		res.deposesOf = res.took
		res.past, res.took = Past{ID: r.newID(res)}, nil
	case res.took == nil:
		res.past = Past{ID: r.newID(res)}
	}
	return nil
}

// mentionEngine says once that another engine answers than the one on which runs made things. What is not there is made
// anew, as on an engine that was set up anew; what is on the other one stays there.
func (r *Runner) mentionEngine(res *resource, was *report.Undeclared) {
	if !was.Identity.Replaced(res.identity) {
		return
	}
	r.engineMentioned.Do(func() {
		at := was.Identity.Parts
		r.notify(report.Warning, res.Name, "", fmt.Sprintf("another engine answers at %s than the one that run %s used (it was %q, and is %q): what is missing there is created, and what the former engine has stays there. Correct the address if this is not what you mean",
			at[report.PartEngine], was.Run, at[report.PartEngineID], res.identity.Parts[report.PartEngineID]))
	})
}

// sameThing reports whether what runs made of a resource is what it is configured to be. What is equal by all that
// is known of it is, however it is written.
func (r *Runner) sameThing(res *resource, was *report.Undeclared) bool {
	r.mentionEngine(res, was)
	if res.identity.Is(was.Identity) {
		return true
	}
	changed := was.Identity.Differs(res.identity)
	if res.init.Keeps && res.identity.Key == "" { // it is found by what is kept, by whichever way
		changed = slices.DeleteFunc(changed, func(name string) bool { return name != "type" })
	}
	return len(changed) == 0 || r.movedAlong(res, was, changed)
}

// take finds out whether another manifest manages what a resource is. One that still declares it keeps it.
func (r *Runner) take(ctx context.Context, res *resource) error {
	if res.past.Made == nil {
		other, err := r.caller.Owners.Takes(ctx, res.Name, r.made(res))
		if err != nil {
			return err
		}
		if other != nil {
			return r.takeOver(ctx, res, other)
		}
	}
	if res.past.Made == nil || !res.identity.Is(res.past.Made.Identity) {
		for _, key := range res.identity.Known() {
			ours, err := r.caller.Owners.Ours(ctx, key)
			if err != nil {
				return err
			}
			for _, other := range ours {
				if other.Deposed || r.becomesAnother(other.Name, res.identity) {
					return r.takeOver(ctx, res, other)
				}
			}
		}
	}
	return r.takeOfKey(ctx, res)
}

// becomesAnother reports whether it is known that a resource, which may be visited now, is something else than what
// is identified.
func (r *Runner) becomesAnother(name string, id report.Identity) bool {
	res := r.byNode[name]
	return res != nil && res.Late == nil && res.final && !res.ReadOnly && !overlap(res.early, id.Known())
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(key string) bool { return slices.Contains(b, key) })
}

// takeOfKey is take by what identifies a thing, wherever it is declared.
func (r *Runner) takeOfKey(ctx context.Context, res *resource) error {
	for _, key := range res.identity.Known() {
		other, err := r.caller.Owners.Other(ctx, key)
		switch {
		case err != nil:
			return err
		case other != nil && other.Declares:
			return r.ownedElsewhere(res, other)
		case other == nil || other.Claimed || res.took != nil || !res.identity.Covers(other.Identity):
			continue // no run made it, or it is more than this
		case res.past.Made != nil && r.sameThing(res, res.past.Made):
			if res.past.Made.Identity.Shares(other.Identity) {
				continue // it is of both, and stays this one's
			}
			return r.twoPasts(res, other)
		}
		if err := r.takeOver(ctx, res, other); err != nil {
			return err
		}
	}
	return nil
}

// takeOver has a resource be what another manifest had.
func (r *Runner) takeOver(ctx context.Context, res *resource, other *report.Owned) error {
	past, err := r.caller.Owners.PastOf(ctx, other.Undeclared, res.init.Keeps)
	if err != nil {
		return err
	}
	if past.ID = other.ID; past.ID == "" && other.Name != res.Name {
		past.ID = past.Identity // what it is marked with
	}
	named := other.ID == "" && past.ID != ""
	res.past, res.took = past, other
	r.learnKept(res, past.Kept)
	if named && r.applying && len(past.Kept) > 0 && past.ID != other.Name { // it is kept by the name that it had there
		return r.emit(ctx, r.keeping(res, past.Kept))
	}
	return nil
}

// answered takes in what a type answered of which things its resource manages, where only the world gives that.
func (r *Runner) answered(ctx context.Context, res *resource, things []map[string]any) error {
	if len(things) == 0 || res.undeclared != nil {
		return nil
	}
	id, err := r.identifyNow(res, things)
	if res.identity = id; res.ReadOnly || res.took != nil || r.caller.Owners == nil {
		return nil
	}
	if err != nil {
		return err
	}
	return r.takeOfKey(ctx, res)
}

// newID is the id of something new whose resource has, or had, something else of its name.
func (r *Runner) newID(res *resource) string { return res.Name + "#" + r.containers.Run }

// ownedElsewhere refuses what another manifest manages.
func (r *Runner) ownedElsewhere(res *resource, other *report.Owned) error {
	reference := other.By.String() + "#" + other.Name
	return failure.Because(report.ReasonOwned, &manifest.Error{Problems: []manifest.Problem{{
		Position: res.Position, Path: "resources." + res.Name,
		Message: fmt.Sprintf("%s manages the same thing, as its resource %s (run %s); each would undo what the other does. To have it here, write moved: [{from: %q, to: %q}]; or remove it from %[1]s, then apply or adopt it here; or run \"deployster state forget %[2]s --manifest %[6]s\"",
			other.By, other.Name, other.Run, reference, res.Name, strings.Join(other.By.Files, " --manifest ")),
	}}})
}

// twoPasts refuses to take over what another manifest made for a resource that manages something already: it would
// lose what is known of that.
func (r *Runner) twoPasts(res *resource, other *report.Owned) error {
	u := other.Undeclared
	u.Owner = &other.By
	return failure.Because(report.ReasonOwned, &manifest.Error{Problems: []manifest.Problem{{
		Position: res.Position, Path: "resources." + res.Name,
		Message: fmt.Sprintf("it manages what run %s made, and now also what run %s of %s made as %s, which that no longer declares; a resource takes over only if it manages nothing yet. Run \"deployster destroy --orphans --target %s\", or \"deployster state forget %s\", or declare that as another resource",
			res.past.Made.Run, other.Run, other.By, other.Name, u.Target(), u.Reference()),
	}}})
}

// movedAlong reports whether a thing is where its plugs are now: somebody moved what holds all of it.
func (r *Runner) movedAlong(res *resource, was *report.Undeclared, changed []string) bool {
	for _, name := range changed {
		plug, isPlug := strings.CutPrefix(name, "plug ")
		if !isPlug || !res.init.Plugs[plug].Holds || !r.missing(was.Identity.Parts[name]) {
			return false
		}
	}
	return true
}

// missing reports whether a path is known not to be there.
func (r *Runner) missing(path string) bool {
	if r.containers.Remote || r.spec.Machine != "" || !filepath.IsAbs(path) { // it may be on another machine
		return false
	}
	if _, err := os.Lstat(filepath.Dir(path)); err != nil {
		return false // such as a disk that is not there
	}
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// missingPlug returns the plug that held all of a thing and is no longer there, so that the thing is gone; nil is
// none.
func (r *Runner) missingPlug(res *resource) *report.MadePlug {
	if res.undeclared == nil {
		return nil
	}
	for _, p := range res.undeclared.Plugs {
		if res.init.Plugs[p.Name].Holds && r.missing(p.Path) {
			return &p
		}
	}
	return nil
}

// elsewhere refuses to remove what was made on another engine: this one would find nothing, or something else.
func (r *Runner) elsewhere(res *resource) error {
	if res.undeclared == nil {
		return nil
	}
	was, here := res.undeclared.Identity, r.identify(res, nil)
	if !was.Elsewhere(here) {
		return nil
	}
	return fmt.Errorf("run %s made it on the engine of %s, and this is that of %s: remove it there, with \"deployster destroy --orphans\" and that engine, or by hand and then \"deployster state forget %s\"",
		res.undeclared.Run, was.Parts[report.PartEngine], here.Parts[report.PartEngine], res.Name)
}

// prevented refuses to lose a resource that has prevent_destroy.
func (r *Runner) prevented(res *resource, what string) error {
	return failure.Because(report.ReasonPrevented, &manifest.Error{Problems: []manifest.Problem{{
		Position: res.PreventedAt(), Path: "resources." + res.Name,
		Message: what + ": its prevent_destroy is true; set that to false first, if it is to go",
	}}})
}

// previous makes a resource of the thing that another one replaces.
func (r *Runner) previous(u report.Undeclared) *resource {
	res := orphan(u)
	res.deposed = "#" + u.ID
	if key := u.Identity.Key; key != "" {
		res.deposed += "/" + key[:8]
	}
	res.shadowed, res.unprepared, res.times = true, true, 2
	res.target, res.named = invoke.Target{Name: res.Name, Type: res.Type, Timeout: res.Timeout, Apart: res.apart()}, map[string]*resource{}
	return res
}

// apart is where the files of its calls are, where something else has its name.
func (res *resource) apart() string {
	if res.deposed == "" {
		return ""
	}
	return "before-" + hashed(res.deposed)[:8]
}

// addPrevious adds the removal of a thing that a resource replaces. found says that this walk found it, and of that
// another manifest has it; nil is this one.
func (r *Runner) addPrevious(u report.Undeclared, found bool, of *report.Owned) {
	res := r.previous(u)
	if r.byNode[res.node()] != nil {
		return // it was left by an earlier run
	}
	for _, other := range r.orphans {
		if other.Name == res.Name {
			res.times++
		}
	}
	res.took, res.gone, res.kept = of, found, res.times<<12 // attempts of what is kept of others of the name come before
	r.add(res)
	r.orphans = append(r.orphans, res)
}

// addOrphan has something be removed of which the run knows no manifest: the nth of its name.
func (r *Runner) addOrphan(u report.Undeclared, i, n int) {
	res := orphan(u)
	res.deposed = fmt.Sprintf("#%d", i)
	res.orphan, res.unprepared, res.shadowed, res.times = true, true, n > 1, n
	res.kept = n << 12
	r.add(res)
	if res.shadowed {
		res.target.Apart = fmt.Sprintf("other-%d", n)
	}
	r.orphans = append(r.orphans, res)
}

// ofOwner is a thing of another manifest, and what it depends on, among things of several.
func ofOwner(owner *report.OwnedBy, name string, dependsOn []string) (string, []string) {
	if owner == nil {
		return name, dependsOn
	}
	of := owner.Workspace + "\x00" + owner.String() + "\x00"
	names := make([]string, 0, len(dependsOn))
	for _, on := range dependsOn {
		names = append(names, of+on)
	}
	return of + name, names
}

// stays is why something undeclared is not removed any more.
func (d *removal) stays(ctx context.Context, res *resource) error {
	if res.undeclared == nil || d.caller.Stays == nil {
		return nil
	}
	return d.caller.Stays(ctx, *res.undeclared)
}

// addReplaced adds the removal of the things that resources replace in this run.
func (r *Runner) addReplaced() {
	for _, res := range each(r.declared()) {
		if res.deposes != nil {
			r.addPrevious(*res.deposes, true, res.deposesOf)
		}
	}
}

// removePrevious removes the thing that a resource replaces, if that goes first. The caller holds the resource.
func (r *Runner) removePrevious(ctx context.Context, res *resource) error {
	old := r.previous(*res.deposes)
	old.times, old.kept = firstGone, firstGone<<12
	if r.ready(ctx, old); old.failure != nil {
		return old.failure
	}
	if err := r.elsewhere(old); err != nil {
		return err
	}
	if old.took = res.deposesOf; r.mayStay(res, old) {
		return nil // it is found out at the end
	}
	if stays, err := r.held(ctx, old); err != nil || stays {
		return err
	}
	if _, err := r.pruning().removeEntered(ctx, old); err != nil {
		return fmt.Errorf("removing what it was before (%s): %w", res.replaced, err)
	}
	res.deposes = nil
	return nil
}

// mayStay reports whether something that a resource was before is what another one is now, or may come to be.
// Nothing of those that are being visited is looked at.
func (r *Runner) mayStay(now, old *resource) bool {
	known := slices.Concat(r.formsOf(old)...)
	return slices.ContainsFunc(r.declared(), func(res *resource) bool {
		if res == now || res.ReadOnly || taken.Image(res.Type) != taken.Image(old.Type) {
			return false
		}
		return res.Late != nil || !res.final || overlap(res.early, known)
	})
}

// held reports whether others have all things of something that is to be removed: another manifest that declares them
// or, of what a resource was before, another resource of the manifest, also one that the run has nothing to do with. It
// fails if others have only some: the type removes all.
func (r *Runner) held(ctx context.Context, old *resource) (bool, error) {
	if r.caller.Owners == nil {
		return false, nil
	}
	things := r.formsOf(old)
	all, by := len(things) > 0, ""
	find := func(forms []string) error {
		other, err := r.theirs(ctx, forms)
		if err != nil {
			return err
		}
		if other != nil {
			by = other.By.String() + ", as its resource " + other.Name
			return nil
		}
		ours := ""
		if old.deposed != "" || len(things) > 1 {
			ours, err = r.ours(ctx, old, forms)
		}
		if ours != "" {
			by = "resource " + ours
		} else {
			all = false
		}
		return err
	}
	for _, forms := range things {
		if err := find(forms); err != nil {
			return false, err
		}
	}
	rest := all
	for _, key := range old.undeclared.Identity.Lost {
		if err := find([]string{key}); err != nil {
			return false, err
		}
	}
	if rest || by == "" {
		return rest, nil
	}
	return false, failure.Because(report.ReasonOwned, fmt.Errorf(
		"run %s made several things as %s, and one of them is by now of %s: to remove the others would remove that, too. Remove them by hand, then \"deployster state forget %s\"",
		old.undeclared.Run, old.Name, by, old.undeclared.Reference()))
}

// ours returns another resource of the manifest that is the thing of some keys; "" is none.
func (r *Runner) ours(ctx context.Context, old *resource, forms []string) (string, error) {
	for _, key := range forms {
		ours, err := r.caller.Owners.Ours(ctx, key)
		if err != nil {
			return "", err
		}
		for _, other := range ours {
			if !other.Deposed && other.Name != old.Name && (old.deposed != "" || r.find(other.Name) != nil) {
				return other.Name, nil
			}
		}
	}
	return "", nil
}

// theirs returns what another manifest declares that is the thing of some keys; nil is nothing.
func (r *Runner) theirs(ctx context.Context, forms []string) (*report.Owned, error) {
	for _, key := range forms {
		other, err := r.caller.Owners.Other(ctx, key)
		if err != nil || other != nil && other.Declares {
			return other, err
		}
	}
	return nil, nil
}

// formsOf returns, for each thing that was made as a resource, the keys by which it may be known by now.
func (r *Runner) formsOf(old *resource) [][]string {
	forms := old.undeclared.Identity.Forms()
	if len(forms) == 1 {
		now := r.identify(old, nil)
		forms[0] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(forms[0], now.Known()))))
	}
	return forms
}

// observeAgain removes what a resource was before, where that goes first, and looks at the resource again.
func (r *Runner) observeAgain(ctx context.Context, res *resource, out protocol.StateOutput) (protocol.StateOutput, error) {
	if res.deposes == nil || out.Status == protocol.Valid || !res.destroysFirst() {
		return out, nil
	}
	if err := r.removePrevious(ctx, res); err != nil {
		return out, err
	}
	return r.observe(ctx, res)
}

// firstGone is which attempt of its name the removal of a former thing is that comes before the new one is made.
const firstGone = 1000

// recordedNow is recorded for a plan, of a resource that can be asked.
func (d *removal) recordedNow(ctx context.Context, res *resource) (*resource, error) {
	if d.absent[res.node()] == Verified {
		return nil, nil
	}
	return d.recorded(ctx, res)
}

// recorded is what runs made of a declared resource that is to be removed, where its configuration means
// another thing by now, which no run made; nil is what it is configured as.
func (d *removal) recorded(ctx context.Context, res *resource) (*resource, error) {
	if res.undeclared != nil || res.config == nil {
		return nil, nil
	}
	res.ensure = protocol.Absent
	if err := d.recall(ctx, res); err != nil {
		return nil, err
	}
	id, err := d.identifyNow(res, nil)
	if res.identity = id; err != nil {
		return nil, err
	}
	if res.took = nil; d.caller.Owners == nil || res.init.MakesNothing {
		return nil, nil
	}
	was := res.past.Made
	if was == nil {
		return nil, d.take(ctx, res)
	}
	if d.sameThing(res, was) {
		return nil, nil
	}
	made, err := res.past.Open()
	if err != nil {
		return nil, fmt.Errorf("run %s made it, and what it takes to remove that is not known any more: %w", was.Run, err)
	}
	u := *was
	u.Made, u.Deposed = made, true
	u.Identity, u.PreventDestroy = was.Identity, false // what is declared now says so, and was asked
	old := d.previous(u)
	old.times = firstGone
	if d.ready(ctx, old); old.failure != nil {
		return nil, old.failure
	}
	return old, d.elsewhere(old)
}

// destroysFirst reports whether the old thing of a resource is removed before the new one is made. It is unless the
// type says otherwise: should the two be one all the same, it is there at the end.
func (res *resource) destroysFirst() bool {
	return res.init.Replace != protocol.CreateFirst || taken.Image(res.deposes.Type) != taken.Image(res.Type)
}
