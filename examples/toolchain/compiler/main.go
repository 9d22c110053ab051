// Command compiler is a compiler to learn with: it "builds" a package of what its plan says
// and of what it needs, so that the same goes in whenever the same comes out.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := compile(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// compile builds a package into the directory of what the job makes.
func compile(name, version string) error {
	plan, err := os.ReadFile(filepath.Join("plans", name))
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(plan), "\n") {
		if strings.Contains(line, "TODO") {
			return fmt.Errorf("plans/%s:%d: there is something left to do", name, i+1)
		}
	}
	made := fmt.Sprintf("%s %s\n%s", name, version, plan)
	dependencies, err := os.ReadDir(os.Getenv("DEPLOYSTER_DEPENDENCIES"))
	if err != nil {
		return err
	}
	for _, d := range dependencies {
		text, err := os.ReadFile(filepath.Join(os.Getenv("DEPLOYSTER_DEPENDENCIES"), d.Name(), d.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%s is built with %s\n", name, strings.SplitN(string(text), "\n", 2)[0])
		made += fmt.Sprintf("with %s %x\n", d.Name(), sha256.Sum256(text))
	}
	metadata := fmt.Sprintf("needs=%d\n", len(dependencies))
	if err := os.WriteFile(os.Getenv("DEPLOYSTER_METADATA"), []byte(metadata), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(os.Getenv("DEPLOYSTER_OUT"), name), []byte(made), 0o600)
}
