package definition

import "strings"

// IsName reports whether a text can be the name of a group, a package or a job.
func IsName(text string) bool { return len(text) <= maxName && validName().MatchString(text) }

// IsRepository reports whether a text can be a repository of a registry.
func IsRepository(text string) bool {
	return len(text) <= MaxText && validRepository().MatchString(text)
}

// IsDigest reports whether a text can be the digest of an artifact.
func IsDigest(text string) bool { return validDigest().MatchString(text) }

// VariableProblem says why a job cannot be given a variable of the environment; "" is that it
// can.
func VariableProblem(name string) string {
	switch {
	case !validVariable().MatchString(name) || len(name) > maxName:
		return "cannot be the name of a variable of the environment: it has letters, digits and _, and does not begin with a digit"
	case strings.HasPrefix(name, "DEPLOYSTER_"):
		return "cannot be set: names that begin with DEPLOYSTER_ say what a job is given"
	}
	return ""
}

// ImageProblem says why a job cannot run an image; "" is that it can.
func ImageProblem(name string) string {
	switch {
	case strings.ContainsAny(name, " \t"):
		return "is not an image: its name has no spaces"
	case strings.HasPrefix(name, "deployster/"):
		return "is a resource type that ships, and no image that a job could run"
	}
	return ""
}

// PlugProblem says why a plug cannot be at a path of a container, which is clean; "" is that it
// can.
func PlugProblem(inside string) string {
	if inside == "/" || inside == own || strings.HasPrefix(inside, own+"/") || strings.HasPrefix(own, inside+"/") {
		return "cannot be the place of a plug: what a job is given is at " + own
	}
	return ""
}
