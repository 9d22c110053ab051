package deploylog

// Shared reports whether a log is of several machines: what one of them records of itself, such as its
// paths, need not be so on another one.
func Shared(log Log) bool {
	of, can := log.(interface{ Shared() bool })
	return can && of.Shared()
}
