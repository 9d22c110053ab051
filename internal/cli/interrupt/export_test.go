package interrupt

// Aborts has abort called in place of the end of the process.
func Aborts(with func()) (back func()) {
	was := abort
	abort = with
	return func() { abort = was }
}
