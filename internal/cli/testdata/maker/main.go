// Maker is the program of jobs in tests. It makes a file of the contents of all that it
// depends on, and does what files in /world say about the package that it is asked for.
package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name string) error {
	fmt.Println("making", name)
	world := filepath.Join("/world", name)
	if _, err := os.Stat("/world"); err == nil {
		f, err := os.OpenFile(world+".began", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, os.Getenv("VERSION"))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	for there(world + ".hold") {
		time.Sleep(10 * time.Millisecond)
	}
	if text, err := os.ReadFile("/world/takes"); err == nil {
		takes, err := time.ParseDuration(string(text))
		if err != nil {
			return err
		}
		time.Sleep(takes)
	}
	if there(world + ".fail") {
		return errors.New(name + " does not compile")
	}
	h := sha256.New()
	_, _ = fmt.Fprintln(h, name, os.Getenv("VERSION"))
	err := filepath.WalkDir(os.Getenv("DEPLOYSTER_DEPENDENCIES"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		_, _ = fmt.Fprintf(h, "%s %s\n", filepath.Base(filepath.Dir(path)), text)
		return err
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%x\n", h.Sum(nil))
	return errors.Join(
		os.WriteFile(filepath.Join(os.Getenv("DEPLOYSTER_OUT"), "made"), []byte(text), 0o644),
		os.WriteFile(os.Getenv("DEPLOYSTER_METADATA"), []byte("MADE="+text[:12]+"\n"), 0o644),
	)
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
