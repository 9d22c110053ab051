package entrypoint

import "encoding/json"

// Expected is what a container is to see where paths of the machine were mounted. The paths of
// its sources are the container's.
type Expected struct {
	Boot   string   // id of the start of the caller's kernel
	Shim   Source   // this program's file, as the caller sees it
	Mounts []Source // what was checked
}

// text is what Expected is as an argument.
func (e Expected) text() string {
	if len(e.Mounts) == 0 {
		return ""
	}
	text, err := json.Marshal(e)
	if err != nil {
		return "" // it is made of text and numbers
	}
	return string(text)
}

// BootFile tells one start of a kernel from others.
const BootFile = "/proc/sys/kernel/random/boot_id"

// ReplacedText begins what a shim reports of a mount that is not what was checked.
const ReplacedText = "not what was checked: "
