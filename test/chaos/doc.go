// Command chaos runs a whole cluster of real parts except for its machines, breaks them at random,
// and checks throughout that Berth keeps its promises. The parts are etcd, an API server, hollow
// nodes, agents, two schedulers with leader election and a stock scheduler, each in its own
// process. README.md describes it for users.
//
// The operations are a Plan. The seed determines the Plan, but not the timing of the parts. So a
// seed repeats operations, not outcomes.
//
// The checks use the code of `berth check` if it applies. Every kubelet's checkpoints and every
// NodeTopology must be sound, and a NodeTopology's sequence never decreases. No kubelet may refuse
// a pod. A placement marked exact must equal the managers' assignment. The scheduler's own count of
// broken promises must agree. After the faults every pod that fits must run, deleted pods must
// leave nothing behind, and no process may be left.
//
// Some events are counted separately and are not violations, because no scheduler could know
// better:
//
//   - A restarted kubelet refuses a pod that it had admitted before.
//   - A restarted kubelet has lost its device plugins and refuses a pod that requests a device.
//   - An exact placement differs after a fault broke one of the two assumptions about speed
//     (package ledger): a hollow node that restarts loses its containers at once.
//   - Another scheduler's pod reached the node before Berth's scheduler could hear of it.
//
// A clock that jumps is no excuse.
package main
