// Command clusterbench measures Berth's scheduler beside the stock one in a large cluster, and what
// the agents' writes cost the API server.
//
//	clusterbench cluster   throughput and memory of both schedulers, and how long Filter takes
//	clusterbench gangs     pods in gangs beside the same pods one by one, both by Berth
//	clusterbench starts    how soon a scheduler that starts binds its first pod
//	clusterbench writes    reports and heartbeats of all agents at their usual rates
//	clusterbench ways      other ways to write a report
//
// The API server is real, in a process of its own. So are the schedulers: one program, with and
// without the plugin. Only the nodes are not: a simulator in this process plays every kubelet and
// every agent, with the engine as the kubelets' managers. Everything listens on loopback and ends
// with this process.
//
// # What makes two runs comparable
//
// Everything shares one small machine, and what follows a Binding, the pod's phase and the node's
// report, costs the API server several times what the Binding does. A figure that ends with the
// last Binding depends on how much of that was done by then. So
//
//   - the throughput counts from the first Binding until every pod is bound, its phase written and
//     every report too. Berth writes most events after that, so that the same until every event is
//     written stands beside it, the same work for both schedulers in every run, and so does the
//     rate of the Bindings alone. Processor time is counted until the last event;
//   - acknowledgements come 0.3 to 1 s after a Binding and are not held back; how long they took,
//     where the API server is slower than that, is in the result;
//   - with -apart the schedulers have half of the processors for themselves. Nodes, API server and
//     etcd, which stand for other machines, share the others. With -first, for root, the schedulers
//     have all processors, and the others have what they leave. Without either they take from the
//     scheduler what they need, now more and now less;
//   - a first pair of runs is not counted. Every run begins on empty nodes, when the scheduler has
//     read the cluster and it and the API server have nothing left to do;
//   - pairs are run as A B, B A, A B, ..., and what counts is the ratio within a pair. The estimate
//     and its lower bound go by ranks: see estimateOf.
//
// Heartbeats are the same for both, at the interval that is asked for; each costs the API server
// some two milliseconds.
package main
