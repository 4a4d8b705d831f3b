// Command clusterbench compares Berth's scheduler with the stock scheduler in a large cluster, and
// measures the cost of the agents' writes for the API server.
//
//	clusterbench cluster   throughput and memory of both schedulers, and the time of Filter
//	clusterbench gangs     pods in gangs and the same pods one by one, both by Berth
//	clusterbench starts    the time from a scheduler's start to its first Binding
//	clusterbench writes    reports and heartbeats of all agents at their usual rates
//	clusterbench shadow    processor time and memory of shadow mode next to the stock scheduler
//
// The API server is real, in its own process. So are the schedulers: one program, with and without
// the plugin. Only the nodes are simulated: a simulator in this process acts as every kubelet and
// agent, with the engine in place of the kubelets' managers. Everything listens on loopback and
// ends with this process.
//
// # What makes two runs comparable
//
// All processes share one small machine. The writes after a Binding (the pod's phase and the node's
// report) cost the API server several times as much as the Binding. If the measurement ended with
// the last Binding, its result would depend on how many of these writes were done by then. So:
//
//   - The throughput counts from the first Binding until every pod is bound and every phase and
//     report is written. Berth writes most events later. So the result also has the rate until
//     every event is written, which is the same work for both schedulers in every run, and the rate
//     of the Bindings. Processor time is counted until the last event.
//   - Acknowledgements come 0.3 to 1 s after a Binding and are not held back. The result has their
//     real delays, which are longer with a slow API server.
//   - With -apart the schedulers have half of the processors exclusively. Nodes, API server and
//     etcd, which would run on other machines, share the other half. With -first, for root, the
//     schedulers have priority on all processors. Without either flag the other processes take a
//     varying amount of time from the scheduler.
//   - A first pair of runs is not counted. Every run begins on empty nodes, after the scheduler has
//     read the cluster and is idle, as is the API server.
//   - Pairs run as A B, B A, A B, ..., and the result is the ratio within a pair. The estimate and
//     its lower bound use ranks: see estimateOf.
//
// Heartbeats are the same for both, at the requested interval; each costs the API server some two
// milliseconds.
package main
