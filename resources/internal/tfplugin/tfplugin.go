// Package tfplugin speaks to providers of Terraform as Terraform does: it starts
// the program of a provider, shakes hands with it, and calls it with gRPC over a
// Unix socket, secured by certificates that live as long as the process does.
//
// Versions 5 and 6 of the plugin protocol differ in the names of their services and
// methods and in few fields, so one Provider speaks both. The protocol is small and
// frozen: requests and answers are written and read field by field, and HTTP/2 comes
// from the standard library. Code that is generated for it, and gRPC, would take more of
// the program and of its start than all that this package does.
//
// A provider is hostile input: what it says on stdout, and each answer, is bounded
// and checked.
package tfplugin

import "fmt"

// terraformVersion is what providers are told that they talk to; some refuse old ones.
const terraformVersion = "1.12.0"

// methods are the names of one version of the protocol.
type methods struct {
	service                                                     string
	schema, validateProvider, configure, validate, validateData string
	stop                                                        string
}

// versions are those of the protocol that are spoken.
func versions() map[int]methods {
	return map[int]methods{
		5: {"tfplugin5.Provider", "GetSchema", "PrepareProviderConfig", "Configure", "ValidateResourceTypeConfig", "ValidateDataSourceConfig", "Stop"},
		6: {"tfplugin6.Provider", "GetProviderSchema", "ValidateProviderConfig", "ConfigureProvider", "ValidateResourceConfig", "ValidateDataResourceConfig", "StopProvider"},
	}
}

// CrashError is of a provider whose process ended while it was needed.
type CrashError struct {
	How    string // such as "exit status 2"
	Output string // the end of what it wrote
}

func (e *CrashError) Error() string {
	if e.Output == "" {
		return fmt.Sprintf("the provider ended unexpectedly (%s), without output", e.How)
	}
	return fmt.Sprintf("the provider ended unexpectedly (%s); its last output:\n%s", e.How, e.Output)
}
