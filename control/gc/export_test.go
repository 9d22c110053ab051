package gc

// SometimesBounded is Sometimes with other bounds.
var SometimesBounded = sometimes
