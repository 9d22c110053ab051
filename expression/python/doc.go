// Package python computes with values as Python does, on behalf of templates.
//
// Templates are Jinja2, whose operators, methods and formats are Python's: text
// counts characters, a range is no list, True is 1, and -7 // 2 is -4. What a
// value is made of is said at Norm. An operation has Python's result or
// fails; it never has another one.
//
// A State carries what one evaluation has left of its bounds. Every operation
// that takes time or builds something counts it there, and ends the evaluation
// when a bound is exceeded. Failures are thrown, and caught by RecoverTo where
// the evaluation began.
package python
