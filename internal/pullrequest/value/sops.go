package value

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// errEncrypted refuses a change that SOPS would detect as manipulation.
var errEncrypted = errors.New("the file is encrypted by SOPS, whose checksum (sops.mac) covers this value, so the file could not be decrypted after a change; " +
	"keep the value in a file of its own, or encrypt with mac_only_encrypted: true")

// encrypted returns an error if a change of the value breaks a file that SOPS encrypted.
func encrypted(documents []*yaml.Node, target *yaml.Node) error {
	for _, document := range documents {
		if len(document.Content) == 0 {
			continue
		}
		sops := member(document.Content[0], "sops")
		if sops == nil || member(sops, "mac") == nil {
			continue
		}
		only := member(sops, "mac_only_encrypted")
		if only == nil || only.Value != "true" || strings.HasPrefix(target.Value, "ENC[") {
			return errEncrypted
		}
	}
	return nil
}

// member returns the value of a key of a mapping, or nil.
func member(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if textOf(node.Content[i]) == key {
			return node.Content[i+1]
		}
	}
	return nil
}
