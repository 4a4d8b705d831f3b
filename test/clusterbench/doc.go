// Command clusterbench measures Berth's scheduler beside the stock one in a large cluster, and what the agents' writes
// cost the API server.
//
//	clusterbench cluster   throughput and memory of both schedulers, in interleaved pairs, and how long Filter takes
//	clusterbench writes    reports and heartbeats of all agents at their usual rates
//
// The API server is real, in a process of its own. So are the schedulers: one program, with and without the plugin. Only
// the nodes are not: a simulator in this process plays every kubelet and every agent, with the engine as the kubelets'
// managers. Everything listens on loopback and ends with this process.
package main
