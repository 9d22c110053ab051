package jobs

// SetFree has the disk have so much free, as far as jobs are concerned.
func (j *Jobs) SetFree(free func() uint64) {
	j.free = func(string) (uint64, error) { return free(), nil }
}
