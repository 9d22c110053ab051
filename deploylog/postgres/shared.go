package postgres

// Shared says that whoever reaches the database has the log, on any machine.
func (*Log) Shared() bool { return true }
