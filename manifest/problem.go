package manifest

import "github.com/deployster-go/deployster/internal/yamlfile"

// Position is a place in a manifest.
type Position = yamlfile.Position

// Problem is something that the user must repair.
type Problem = yamlfile.Problem

// Error is everything that is wrong with the manifests, in their order.
type Error = yamlfile.Error

// Sorted returns problems in the order of files and places, each once.
func Sorted(problems []Problem, files []string) []Problem { return yamlfile.Sorted(problems, files) }
