package unwatched

// AfterFuncBy is AfterFunc by another clock.
var AfterFuncBy = afterFunc
