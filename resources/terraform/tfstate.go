package terraform

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Known is a resource that Terraform knows.
type Known struct {
	Address  string // as Terraform writes it, such as module.web.docker_network.net["a"]
	Resource string // what it is, such as docker_network
	Name     string // its own in its module, without a key
	Path     string // the same as manifests have it: web.net[a]
	Key      string // of one of several: a text or a number; "" of one that is alone
	Kept     json.RawMessage
	Secrets  [][]string // where there are values in Kept that are not to be seen
	Unusable string     // why it cannot be gone on with, and what to do; "" where it can
}

// MaxState bounds a file with a state of Terraform, in bytes.
const MaxState = 256 << 20

// stateVersion is that of the form of such files, since Terraform 0.12.
const stateVersion = 4

// ReadState reads a state of Terraform or OpenTofu, version 4, and returns the resources in
// it that are managed, in its order. Kept is what their types would have kept of them. No
// error repeats what is in the file, which has secrets.
func ReadState(from io.Reader) ([]Known, error) {
	text, err := io.ReadAll(io.LimitReader(from, MaxState+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxState {
		return nil, fmt.Errorf("it has more than %d bytes", MaxState)
	}
	var state struct {
		Version   int             `json:"version"`
		Encrypted json.RawMessage `json:"encrypted_data"`
		Resources []stateResource `json:"resources"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, errors.New("it is not a state of Terraform, which is one JSON object")
	}
	switch {
	case state.Encrypted != nil:
		return nil, errors.New("it is encrypted: give what `tofu state pull` prints")
	case state.Version != stateVersion:
		return nil, fmt.Errorf("its version is %d, not %d: have Terraform 0.12 or later write it, as `terraform state pull` does", state.Version, stateVersion)
	}
	var all []Known
	for _, r := range state.Resources {
		known, err := r.known()
		if err != nil {
			return nil, err
		}
		all = append(all, known...)
	}
	return all, nil
}

// stateResource is a resource in a state, with all its instances.
type stateResource struct {
	Module    string          `json:"module"`
	Mode      string          `json:"mode"`
	Type      string          `json:"type"`
	Name      string          `json:"name"`
	Instances []stateInstance `json:"instances"`
}

type stateInstance struct {
	Key           json.RawMessage `json:"index_key"`
	Status        string          `json:"status"`
	Deposed       string          `json:"deposed"`
	SchemaVersion int64           `json:"schema_version"`
	Attributes    json.RawMessage `json:"attributes"`
	Sensitive     json.RawMessage `json:"sensitive_attributes"`
	Private       []byte          `json:"private"`
}

// known are the instances of a resource, without those that are to be replaced already.
func (r stateResource) known() (all []Known, err error) {
	if r.Mode != "managed" {
		return nil, nil
	}
	address := r.Type + "." + r.Name
	if r.Module != "" {
		address = r.Module + "." + address
	}
	for _, i := range r.Instances {
		if i.Deposed != "" {
			continue
		}
		k := Known{Address: address, Resource: r.Type, Name: r.Name, Path: r.path()}
		if len(i.Key) > 0 {
			k.Address += "[" + string(i.Key) + "]"
			k.Key = strings.Trim(string(i.Key), `"`)
			var text string
			if json.Unmarshal(i.Key, &text) == nil {
				k.Key = text
			}
			k.Path += "[" + k.Key + "]"
		}
		if len(i.Attributes) == 0 || i.Attributes[0] != '{' {
			k.Unusable = "it has no attributes there, as in states of old versions: have a current Terraform or OpenTofu write the state anew (`terraform apply -refresh-only`)"
			all = append(all, k)
			continue
		}
		if k.Kept, err = json.Marshal(memory{SchemaVersion: i.SchemaVersion, State: i.Attributes, Private: i.Private, Tainted: i.Status == "tainted"}); err != nil {
			return nil, fmt.Errorf("the attributes of %s cannot be read", k.Address)
		}
		k.Secrets = i.secrets()
		all = append(all, k)
	}
	return all, nil
}

// mostSecrets is of how many values of an instance it is recorded that they are to be hidden: of more, all are.
const mostSecrets = 256

// secrets is where what is kept of an instance has the values that Terraform was told to
// hide, by a provider or by a variable. A path of which something cannot be read hides all
// that is below the rest of it.
func (i stateInstance) secrets() (all [][]string) {
	var paths []json.RawMessage
	if len(i.Sensitive) > 0 && json.Unmarshal(i.Sensitive, &paths) != nil {
		return [][]string{{"state"}}
	}
	if len(paths) > mostSecrets {
		return [][]string{{"state"}}
	}
	for _, text := range paths {
		var steps []struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		}
		_ = json.Unmarshal(text, &steps) // what is no list hides everything
		path := []string{"state"}
		for _, step := range steps {
			key := step.Value
			if step.Type == "index" {
				var index struct {
					Value json.RawMessage `json:"value"`
				}
				_ = json.Unmarshal(step.Value, &index)
				key = index.Value
			}
			var name string
			if json.Unmarshal(key, &name) != nil {
				number, err := strconv.Atoi(string(key))
				if err != nil {
					break
				}
				name = strconv.Itoa(number)
			}
			path = append(path, name)
		}
		all = append(all, path)
	}
	return all
}

// path is the name of a resource with its modules, as manifests have it.
func (r stateResource) path() string {
	if r.Module == "" {
		return r.Name
	}
	path, module := "", regexp.MustCompile(`module\.([^.\["]+)(?:\[("(?:[^"\\]|\\.)*"|[0-9]+)\])?`)
	for _, step := range module.FindAllStringSubmatch(r.Module, -1) {
		key := step[2]
		var text string
		if json.Unmarshal([]byte(key), &text) == nil {
			key = text
		}
		if path += step[1]; key != "" {
			path += "[" + key + "]"
		}
		path += "."
	}
	return path + r.Name
}
