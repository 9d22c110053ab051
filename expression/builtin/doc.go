// Package builtin has the filters, tests and functions that every template may
// use. They take their arguments as Jinja2's do, and refuse what those refuse.
package builtin
