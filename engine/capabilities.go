package engine

// Capabilities are what root has in a container: what programs need that work
// with files and networks, and that give up being root. Of Docker's default it
// lacks AUDIT_WRITE, MKNOD, NET_RAW, SETFCAP, SETPCAP and SYS_CHROOT; with MKNOD a
// container can leave the machine's disk, as a file, in whatever it may write to.
func Capabilities() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
		"CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETUID",
	}
}
