package enginetest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Main runs the tests of a package, of which those named need user namespaces, as
// containers without root do. Where this machine forbids them these tests are
// named and left out, except where the environment says CI: there that is a
// failure. scripts/able finds the names here.
func Main(m *testing.M, names ...string) int {
	flag.Parse()
	err := userNamespaces()
	if err == nil {
		return m.Run()
	}
	if os.Getenv("CI") != "" {
		fmt.Fprintf(os.Stderr, "%s need user namespaces, which are forbidden here (%v): CI has to allow them\n", strings.Join(names, ", "), err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "not run, as user namespaces are forbidden here (%v): %s\n", err, strings.Join(names, ", "))
	skip := flag.Lookup("test.skip")
	for _, name := range names {
		pattern := "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
		if before := skip.Value.String(); before != "" {
			pattern = before + "|" + pattern
		}
		if err := skip.Value.Set(pattern); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// userNamespaces fails where users without rights may have no user namespace.
func userNamespaces() error {
	words := []string{"unshare", "--user", "true"}
	if os.Geteuid() == 0 {
		words = append([]string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}, words...)
	}
	said, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w %s", strings.Join(words, " "), err, strings.TrimSpace(string(said)))
	}
	return nil
}
