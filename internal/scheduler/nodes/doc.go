// Package nodes is what a scheduler keeps of its nodes: the table of them, what they answered to
// the pods before, and the feed that changes both.
//
// The Table has a Node for every name that it has heard of. A Node joins the ledger's account with
// what the account does not know: whether the last report can be relied on, when its agent was
// heard, and whose turn it is to write a Binding.
//
// A Query puts one pod to thousands of nodes. Most of them have answered its shape before, so their
// Answers are remembered in 64 bits each and read without a lock. Reserve and Bind ask the account
// itself.
//
// The Feed takes in what the API says about pods, reports and heartbeats. It says who is woken by
// it.
package nodes
