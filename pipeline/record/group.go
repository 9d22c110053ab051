package record

import "strings"

// belowGroups begins the names of build groups among the files that a revision carries. No
// file has such a name.
const belowGroups = "/build/"

// CarriedGroup is the name of the build group of a stage among the files that a revision
// carries.
func CarriedGroup(stage string) string { return belowGroups + stage }

// StageOfGroup is the stage whose build group has a name among the files that a revision
// carries.
func StageOfGroup(name string) (stage string, ok bool) { return strings.CutPrefix(name, belowGroups) }
