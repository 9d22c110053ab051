// Command editor edits, in memory, every value of the files of some directories that a promotion
// could set, and counts what became of it: scripts/editor DIRECTORY…
//
// An edit is minimal if only the bytes of the value differ. It is wrong if a reader of YAML reads
// another value, or anything else differently. A refusal changes nothing, and the last table has the reasons.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	all := flag.Bool("all", false, "edit every value, not only those that are named like a version")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: editor [-all] DIRECTORY…")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	c := newCount(*all)
	for _, dir := range flag.Args() {
		if err := c.directory(dir); err != nil {
			fmt.Fprintln(os.Stderr, "editor:", err)
			os.Exit(2)
		}
	}
	c.print(os.Stdout)
	if len(c.failures) > 0 {
		os.Exit(1)
	}
}
