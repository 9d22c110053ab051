package record

// maxHosts is how many bytes of host names an event holds.
const maxHosts = 256 << 10

// Parts divides names so that each part fits into an event.
func Parts(names []string) (parts [][]string) {
	size, from := 0, 0
	for i, name := range names {
		if size += len(name) + len(`"",`); size > maxHosts {
			parts = append(parts, names[from:i])
			size, from = len(name)+len(`"",`), i
		}
	}
	if from < len(names) {
		parts = append(parts, names[from:])
	}
	return parts
}
