//go:build unix

package app

import "syscall"

// MaxEntities is how many pipelines or environments this process can control: each
// keeps a file open, and the engines and programs of its work need some, too. 0 is any
// number.
func (a *App) MaxEntities() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 0
	}
	return maxEntities(int(limit.Cur), a.Global.Parallelism)
}

// maxEntities leaves as many files as work at full parallelism is known to need, but
// no more than half of all.
func maxEntities(files, parallelism int) int {
	const process, work = 64, 20
	return max(1, files-min(process+work*parallelism, files/2))
}
