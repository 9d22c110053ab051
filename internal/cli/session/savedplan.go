package session

import (
	"bytes"
	"os"
	"slices"

	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/manifest"
)

// IsSavedPlan reports by its content whether a file is a saved plan. What comes
// through a pipe can be read only once, and is none.
func IsSavedPlan(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return planfile.Is(f)
}

// refuseSavedPlans is for commands that take manifests only.
func refuseSavedPlans(files []string) error {
	if i := slices.IndexFunc(files, IsSavedPlan); i >= 0 {
		word := output.ShellWord(output.Operand(files[i]))
		return exit.Usage("%s is a saved plan and no manifest; \"deployster apply %s\" applies it, \"deployster plan %s\" shows it", files[i], word, word)
	}
	return nil
}

// byteOrderMark is what some editors put before a text.
var byteOrderMark = []byte("\xef\xbb\xbf")

// refuseSavedSources refuses a saved plan that was not seen to be one before it
// was read.
func refuseSavedSources(sources []manifest.Source) error {
	for _, s := range sources {
		text, marked := bytes.CutPrefix(s.Data, byteOrderMark)
		switch {
		case !planfile.Is(bytes.NewReader(text)):
		case marked:
			return exit.Usage("%s is a saved plan with a byte order mark before it: it was changed after it was made; plan again", s.Name)
		default:
			return exit.Usage("%s is a saved plan, and not a file that can be read twice: give the file that \"plan -o\" wrote", s.Name)
		}
	}
	return nil
}
