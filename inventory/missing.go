package inventory

import "fmt"

// NoHostError is that an inventory does not have a host any more.
type NoHostError struct{ Host, File string }

func (e *NoHostError) Error() string {
	return fmt.Sprintf("host %s is no longer in %s", e.Host, e.File)
}
