// Package nodes implements a scheduler's table of nodes, their stored answers, and the feed that
// changes both.
//
// The Table has a Node for every known name of a node. A Node combines the ledger's account of the
// node with other facts: whether the last report is usable, when the agent last sent a report or
// heartbeat, and which pod's Binding is written next.
//
// A Query asks thousands of nodes about one pod. Most of them have already answered for a pod of
// its shape. Each of these answers is stored in 64 bits and read without a lock. Reserve and Bind
// do not use stored answers, but ask the account itself.
//
// The Feed receives pods, reports and heartbeats from the API, and wakes waiting pods.
package nodes
