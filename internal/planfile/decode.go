package planfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/schema"
)

// Decode reads a saved plan. It accepts exactly what Encode writes; its errors
// say what is wrong with the file, and what to do.
func Decode(data []byte) (*File, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("has more than %d MiB, which no saved plan has", MaxSize>>20)
	}
	if err := genuine(data); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	var d document
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("is not a plan as deployster saves it (%s); plan again", strings.TrimPrefix(err.Error(), "json: "))
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("is not a plan as deployster saves it: %w; plan again", err)
	}
	f := d.file()
	// The digest is right, so whoever wrote this knows how plans are made, and
	// what is read must be what is meant: no keys twice, no other notation. That
	// is compared without indentation, which can be far more than the rest.
	digest := d.Digest
	d = f.document()
	d.Digest = digest
	var again, given bytes.Buffer
	enc := json.NewEncoder(&again)
	enc.SetEscapeHTML(false)
	if err := errors.Join(enc.Encode(d), json.Compact(&given, data)); err != nil {
		return nil, fmt.Errorf("is not a plan as deployster saves it (%w); plan again", err)
	}
	if !bytes.Equal(bytes.TrimSuffix(again.Bytes(), []byte("\n")), given.Bytes()) {
		return nil, errors.New("is not a plan as deployster saves it; plan again")
	}
	return f, nil
}

// genuine checks that a file is a plan of this version, whole and as it was
// written.
func genuine(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("is empty; plan again")
	}
	if schema.Depth(data) > MaxDepth {
		return fmt.Errorf("is nested more than %d levels deep, which no saved plan is", MaxDepth)
	}
	var head struct {
		Format     string      `json:"format"`
		Version    json.Number `json:"version"`
		Digest     string      `json:"digest"`
		Deployster string      `json:"deployster"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&head)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("ends within the plan: it was cut off; plan again")
	case err != nil && !Is(bytes.NewReader(data)), err == nil && head.Format != format:
		return errors.New("is not a saved plan")
	case err != nil:
		return fmt.Errorf("was changed after it was made (%s); plan again", strings.TrimPrefix(err.Error(), "json: "))
	case head.Version != json.Number(strconv.Itoa(Version)) && head.Version != json.Number(strconv.Itoa(unlogged)):
		return fmt.Errorf("has version %.20q of the format, made by deployster %.40q, and this one reads versions %d and %d: apply it with that one, or plan again",
			head.Version, head.Deployster, unlogged, Version)
	}
	blank := bytes.Replace(data, digestField(head.Digest), digestField(""), 1)
	if digest(blank) != head.Digest {
		return errors.New("was changed after it was made; plan again")
	}
	if !utf8.Valid(data) {
		return errors.New("is not valid UTF-8; plan again")
	}
	return nil
}

var (
	validSalt = pattern.Lazy(`^[0-9a-f]{32}$`)
	validHash = pattern.Lazy(`^[0-9a-f]{64}$`)
)

// check refuses what cannot be applied.
func (d *document) check() error {
	switch {
	case len(d.Manifests) == 0:
		return errors.New("it names no manifest")
	case !validSalt().MatchString(string(d.Salt)):
		return errors.New("it has no salt")
	case !validHash().MatchString(d.ManifestHash):
		return errors.New("it has no hash of its manifest")
	case (d.Version == Version) != (d.Log != nil), d.Log != nil && (d.Log.ID == "" || d.Log.Event < 0):
		return errors.New("it does not say what was in the log")
	case d.Engine.Name == "":
		return errors.New("it does not say on which engine it was made")
	}
	if err := d.checkInputs(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, r := range d.Resources {
		node := report.Node(r.Name, r.MadeBy != "")
		if seen[node] || !d.defines(&r) {
			return fmt.Errorf("the resource %q is there twice, or is not defined", r.Name)
		}
		seen[node] = true
		if err := r.check(); err != nil {
			return fmt.Errorf("the resource %q %w", r.Name, err)
		}
	}
	return nil
}

// checkInputs refuses variables and files of which it is not said what they were.
func (d *document) checkInputs() error {
	for _, v := range d.Variables.Given {
		if (v.Name == "") == (v.File == "") {
			return errors.New("a variable must have either a name or a file")
		}
	}
	for name, hash := range d.Variables.Hashes {
		if !validHash().MatchString(hash) {
			return fmt.Errorf("it has no hash of the variable %q", name)
		}
	}
	for name, hash := range d.Includes {
		if !validHash().MatchString(hash) {
			return fmt.Errorf("it has no hash of the file %q", name)
		}
	}
	return nil
}

// defines reports whether it has a definition of a resource, or of what that is an instance of,
// unless it is one that a run made and nothing declares.
func (d *document) defines(r *resource) bool {
	definition, defined := d.Definitions[cmp.Or(r.Of, r.Name)]
	switch {
	case r.Name == "" || r.Of == r.Name:
		return false
	case r.Of == "" && r.MadeBy != "":
		return true // one that stands for instances may have the name by now
	}
	return defined && definition != ""
}

// has reports whether all of these are hashes.
func has(hashes ...string) bool {
	return !slices.ContainsFunc(hashes, func(h string) bool { return !validHash().MatchString(h) })
}

func (r *resource) check() error {
	status := r.Status
	if removed := status == report.Present || status == report.Absent; removed != (r.MadeBy != "") || r.Replace && status != report.Stale {
		status = ""
	}
	pinned := true
	switch status {
	case report.Absent:
	case report.Valid:
		pinned = has(r.ConfigHash, r.StateHash)
	case report.Stale, report.Present:
		pinned = has(r.ConfigHash, r.StateHash, r.ActionsHash) && len(r.Actions) > 0
	case report.Unknown:
		pinned = r.foreseen()
	default:
		return fmt.Errorf("has the status %.20q", r.Status)
	}
	if !pinned || r.ImageID == "" || r.KeptHash != "" && !has(r.KeptHash) {
		return fmt.Errorf("is %s, and not all of it is pinned", r.Status)
	}
	return nil
}

// foreseen reports whether what is known only later is said as plans say it.
func (r *resource) foreseen() bool {
	return len(r.After) > 0 && (!r.Late || r.Of == "") && (r.Tentative == "" || r.Tentative == report.Valid || r.Tentative == report.Stale)
}

// object is plain of an object; nil stays nil.
func object(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = plain(v)
	}
	return out
}

// plain gives numbers the Go types they have elsewhere: int64 where they were
// integers, float64 else, and what neither holds exactly remains text.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return object(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	case json.Number:
		if i, err := v.Int64(); err == nil && strconv.FormatInt(i, 10) == v.String() {
			return i
		}
		if f, err := v.Float64(); err == nil {
			if text, err := json.Marshal(f); err == nil && string(text) == v.String() {
				return f
			}
		}
		return v
	default:
		return v
	}
}
