package invoke

import "io"

// Masked returns a writer that hides the secrets known so far, and those that become known,
// in what a program writes, and passes it on line by line. The end of the last line is added
// where it lacks, and carriage returns at the end of lines are left out. flush passes on what
// is held back, once the program has written all.
func (s *Secrets) Masked(to io.Writer) (w io.Writer, flush func() error) {
	m := &masked{to: to}
	m.lines = lines{secrets: s, each: m.line}
	return m, func() error {
		m.flush()
		return m.err
	}
}

// masked is a writer whose lines go on to another.
type masked struct {
	lines
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (m *masked) Write(p []byte) (int, error) {
	n, _ := m.lines.Write(p) // which never fails
	return n, m.err
}

func (m *masked) line(text string) {
	if m.err != nil {
		return
	}
	if !m.parted {
		text += "\n"
	}
	_, m.err = io.WriteString(m.to, text)
}
