package revision

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// VariablesName is the name of the variables among what a revision carries. No file has
// it: those are named by their paths below the workspace.
const VariablesName = "/variables"

// The forms in which variables are carried. Older versions of the program read the older ones.
const (
	plainForm    = 1
	textForm     = 2 // some are texts as they stand
	yamlForm     = 3 // some are carried as YAML
	variableForm = yamlForm
)

// Variable is one value that a revision gives a variable.
type Variable struct {
	Name string `json:"name"`

	// File is below the workspace where it lies in it, below the home of whoever applies
	// it where it begins with ~, and else absolute. It is "" of a --var.
	File string `json:"file,omitempty"`

	Whole bool   `json:"whole,omitempty"` // the value is all of the file, a text as it stands
	From  string `json:"from,omitempty"`  // what gave a text as it stands: a variable of the environment, or a command

	Value  json.RawMessage `json:"value,omitempty"`  // as it is written in the file, with its expressions
	YAML   string          `json:"yaml,omitempty"`   // in the place of Value where that would lose a text: 1.10, 0644
	Text   *string         `json:"text,omitempty"`   // of a --var, or of From
	Secret string          `json:"secret,omitempty"` // salted hash of the value, which is not here: it is read from the file
}

// mostDescribed is how many bytes of a value are described.
const mostDescribed = 100

// Described says in words which value it is, and where it comes from.
func (v Variable) Described() string {
	value, from := string(v.Value), v.File
	switch {
	case v.Secret != "":
		return "is secret, in " + from
	case v.Text != nil:
		value, from = strconv.Quote(*v.Text), cmp.Or(v.From, "--var")
	case v.YAML != "":
		value = v.YAML
	}
	if len(value) > mostDescribed {
		value = strings.ToValidUTF8(value[:mostDescribed], "") + "…"
	}
	return "= " + value + ", from " + from
}

// Variables are all of them, in the order in which they count.
type Variables struct {
	Version   int        `json:"version"`
	Salt      string     `json:"salt,omitempty"` // SHA-256 of that of the hashes
	Variables []Variable `json:"variables"`
}

// Encode is their form in an object.
func (v Variables) Encode() ([]byte, error) {
	v.Version = plainForm
	for _, one := range v.Variables {
		switch {
		case one.YAML != "":
			v.Version = yamlForm
		case one.Whole || one.From != "":
			v.Version = max(v.Version, textForm)
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(v)
	return out.Bytes(), err
}

// DecodeVariables reads what Encode wrote.
func DecodeVariables(text []byte) (v Variables, err error) {
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("reading the variables: %w", err)
	}
	if v.Version > variableForm {
		return v, fmt.Errorf("the variables have the form %d, which this version does not know: use a newer one", v.Version)
	}
	return v, nil
}

// Exactly is a value as JSON that Value reads to the same: a number with a point is
// none without.
func Exactly(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(pointed(value)); err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(out.Bytes())
	if again, err := Value(text); err != nil || !reflect.DeepEqual(again, value) {
		return nil, errors.New("its value is not UTF-8, which JSON cannot hold")
	}
	return text, nil
}

func pointed(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = pointed(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = pointed(item)
		}
		return out
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return json.Number(text)
	default:
		return v
	}
}

// Value is a variable as it was written, with its numbers as they are.
func Value(text json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return numbered(value)
}

func numbered(value any) (_ any, err error) {
	switch v := value.(type) {
	case map[string]any:
		for name, item := range v {
			if v[name], err = numbered(item); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			if v[i], err = numbered(item); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return v.Float64()
		}
		return v.Int64()
	}
	return value, nil
}

// Hash identifies the value of a secret variable to those who have the salt. yaml is the value as YAML where its texts
// are not those of the value, else "".
func Hash(salt []byte, name string, value any, yaml string) (string, error) {
	text, err := Exactly(value)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(name + "\x00"))
	mac.Write(text)
	if yaml != "" {
		mac.Write([]byte("\x00" + yaml))
	}
	return hex.EncodeToString(mac.Sum(nil)), nil
}
