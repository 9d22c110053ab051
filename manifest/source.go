package manifest

import (
	"path/filepath"

	"github.com/deployster-go/deployster/internal/namedfile"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Source is a file that has been read.
type Source struct {
	Name string
	Data []byte
}

// ReadFiles reads manifests. What cannot be read is reported for all files
// together, as an *Error.
func ReadFiles(paths []string) ([]Source, error) {
	var found yamlfile.Report
	var sources []Source
	seen := map[string]bool{}
	for _, path := range paths {
		if clean := filepath.Clean(path); seen[clean] {
			found.Add(Problem{Position: Position{File: path}, Message: "is given twice"})
			continue
		} else {
			seen[clean] = true
		}
		data, err := namedfile.ReadRegular(path, yamlfile.MaxSize)
		if err != nil {
			found.Add(Problem{Position: Position{File: path}, Message: err.Error()})
			continue
		}
		sources = append(sources, Source{Name: path, Data: data})
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	return sources, nil
}

// ReadFile reads one file that somebody named, of at most so many bytes. It fails with an
// *Error.
func ReadFile(path string, most int64) ([]byte, error) {
	data, err := namedfile.ReadRegular(path, most)
	if err != nil {
		return nil, &Error{Problems: []Problem{{Position: Position{File: path}, Message: err.Error()}}}
	}
	return data, nil
}
