package authoring

import (
	"bytes"
	"encoding/json"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

// mask hides what the schemas mark secret, in configurations and in what the type has
// answered: test data, but often real.
func (c *checker) mask(text string) string {
	c.conceal(c.Config)
	c.conceal(c.Second)
	return c.secrets.Replace(text, "•••")
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
		c.conceal(state)
	}
	c.learnKept(said.Keep)
}

// learnKept remembers what is kept as secret, all of it where the type has secrets, as it
// need not have the form of configurations or states.
func (c *checker) learnKept(keep map[string]any) {
	for _, s := range []*schema.Schema{c.schema, c.states} {
		if s != nil && s.MarksSecrets() {
			c.secrets.Add(keep, [][]string{{}})
		}
	}
}

// conceal remembers the secrets in a configuration or state.
func (c *checker) conceal(v map[string]any) {
	for _, s := range []*schema.Schema{c.schema, c.states} {
		if s != nil && v != nil {
			c.secrets.Add(v, s.Secrets(protocol.ReplaceUnknown(v, nil)))
		}
	}
}
