// Package revision is the forms in which a revision carries what is no file: the values of
// variables, the contents of images, and what had to be left out.
//
// What a revision carries is a map of names to contents. Files have their paths below the
// workspace for names; these documents have names that no file has, as they begin with a
// slash. The package knows the documents and not how they come about.
package revision
