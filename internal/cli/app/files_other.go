//go:build !unix

package app

// MaxEntities is how many pipelines or environments this process can control; 0 is any
// number.
func (a *App) MaxEntities() int { return 0 }
