package definition

import (
	"path"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// SecretFileRule says which files may be named as token_file or key_file: whoever writes a
// definition chooses to which server the secret goes, and must not get what else is in the
// workspace, its log and its state among that.
const SecretFileRule = "must be in a directory named secrets, below the workspace, as secrets/git.token is" //nolint:gosec // a rule, and no secret

const (
	secretsName = "secrets"
	stateName   = ".deployster" // of the workspace: its log and what it keeps
)

// IsSecretFile reports whether a file may have a token or a key, by its path.
func IsSecretFile(name string) bool {
	parts := strings.Split(path.Dir(path.Clean(name)), "/")
	return slices.Contains(parts, secretsName) && !slices.Contains(parts, stateName)
}

// readSecretPath reads the path of a file that has a secret, relative to the file of the definition.
func readSecretPath(n *yamlfile.Node) string {
	text := readPath(n, "the path of a file")
	if text != "" && !path.IsAbs(text) && !IsSecretFile(text) {
		n.Fail("%s", SecretFileRule)
	}
	return text
}
