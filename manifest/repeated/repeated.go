// Package repeated says once what is wrong with several instances of one resource: they are declared in one place, and
// so one mistake is found in each of them.
package repeated

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/address"
)

// mostNamed is how many instances a problem names.
const mostNamed = 5

// Once returns problems in their order, each mistake of several instances once, with how many they are.
func Once(problems []yamlfile.Problem) []yamlfile.Problem {
	type mistake struct {
		yamlfile.Position
		path, message string
	}
	var once []yamlfile.Problem
	at, names := map[mistake]int{}, map[int][]string{}
	for _, p := range problems {
		name, declared, path := split(p.Path)
		key := mistake{p.Position, path, address.WithoutKeys(p.Message)}
		i, known := at[key]
		if declared == name || !known {
			at[key], i = len(once), len(once)
			once = append(once, p)
		}
		names[i] = append(names[i], name)
	}
	for i, all := range names {
		if len(all) > 1 {
			_, _, once[i].Path = split(once[i].Path)
			once[i].Message += fmt.Sprintf(" (of %s: %s)", phrase.Count(len(all), "instance"), phrase.First(all, mostNamed))
		}
	}
	return once
}

// split is the resource that a path is of, what it is declared as, and the path without the keys of instances.
func split(path string) (name, declared, whole string) {
	const resources, config = "resources.", ".config"
	rest, ok := strings.CutPrefix(path, resources)
	if !ok {
		return "", "", path
	}
	name, within, configured := strings.Cut(rest, config)
	if declared = address.WithoutKeys(name); configured {
		within = config + within
	}
	return name, declared, resources + declared + within
}
