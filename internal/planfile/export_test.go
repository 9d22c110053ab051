package planfile

// EncodeUnread is Encode without a look at whether the file can be read again.
func (f *File) EncodeUnread() ([]byte, error) { return f.encode() }
