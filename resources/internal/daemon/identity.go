package daemon

// Identify returns what says which thing of a kind a resource manages, and the
// property of its configuration that says so: things of an engine are identified
// by name, which is the resource's where the configuration has none. thing is ""
// when the name is not known.
func Identify(kind string) func(resource string, config map[string]any) (property, thing string) {
	return func(resource string, config map[string]any) (property, thing string) {
		name, given := config["name"]
		if !given {
			return "", kind + " " + resource
		}
		text, _ := name.(string)
		if text == "" {
			return "", ""
		}
		return "name", kind + " " + text
	}
}
