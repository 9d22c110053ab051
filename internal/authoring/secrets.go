package authoring

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

// mask hides what the schemas mark secret, in configurations and in what the type has
// answered: test data, but often real.
func (c *checker) mask(text string) string {
	forms := slices.Clone(c.hidden)
	for _, config := range []map[string]any{c.Config, c.Second} {
		forms = append(forms, c.secretForms(config)...)
	}
	// Longer ones first: a secret may be part of another.
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, "•••")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// hide masks what a container wrote, before anything of it is cut off.
func (c *checker) hide(data []byte) []byte { return []byte(c.mask(string(data))) }

// learn remembers what is secret in an answer to state: a generated password, for example.
func (c *checker) learn(answer []byte) {
	var said struct {
		State        map[string]any `json:"state"`
		StaleState   map[string]any `json:"staleState"`
		PlannedState map[string]any `json:"planned_state"`
		Keep         map[string]any `json:"keep"`
	}
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	if decoder.Decode(&said) != nil {
		return
	}
	for _, state := range []map[string]any{said.State, said.StaleState, said.PlannedState} {
		c.addHidden(c.secretForms(state))
	}
	c.learnKept(said.Keep)
}

// learnKept remembers what is kept as secret, all of it where the type has secrets, as it
// need not have the form of configurations or states.
func (c *checker) learnKept(keep map[string]any) {
	for _, s := range []*schema.Schema{c.schema, c.states} {
		if s != nil && s.MarksSecrets() {
			c.addHidden(asWritten(texts(keep)))
		}
	}
}

func (c *checker) addHidden(forms []string) {
	for _, form := range forms {
		if !slices.Contains(c.hidden, form) {
			c.hidden = append(c.hidden, form)
		}
	}
}

// secretForms are the secrets in a configuration or state, as they may be written.
func (c *checker) secretForms(v map[string]any) (forms []string) {
	for _, s := range []*schema.Schema{c.schema, c.states} {
		if s == nil || v == nil {
			continue
		}
		for _, path := range s.Secrets(protocol.ReplaceUnknown(v, nil)) {
			forms = append(forms, asWritten(texts(schema.Within(v, path)))...)
		}
	}
	return forms
}

// asWritten are texts as they may be written in what a type prints.
func asWritten(secrets []string) (forms []string) {
	for _, secret := range secrets {
		encoded, _ := json.Marshal(secret) // text can be encoded
		forms = append(forms, secret, strings.Join(printable([]byte(secret)), ""), string(encoded[1:len(encoded)-1]))
	}
	return forms
}

// texts returns all text within v that is long enough to be told from others.
func texts(v any) []string {
	const telling = 3
	var found []string
	switch t := v.(type) {
	case string:
		if len(t) >= telling {
			found = append(found, t)
		}
	case json.Number:
		found = append(found, texts(t.String())...)
	case []any:
		for _, item := range t {
			found = append(found, texts(item)...)
		}
	case map[string]any:
		for _, item := range t {
			found = append(found, texts(item)...)
		}
	}
	return found
}
