// Package repo has the rules of this repository as tests: which package may import which, what
// documents may name, how wide lines are, and how releases are listed. They read the whole
// checkout, so they run in its root.
package repo
