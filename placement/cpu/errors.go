package cpu

import (
	"errors"
	"fmt"
)

// These are the errors of the kubelet when it takes CPUs. A pod fails with UnexpectedAdmissionError
// after ErrNotEnough, ErrFailed and ErrAccounting, and with SMTAlignmentError after ErrSMTSize and
// ErrSMTCores. ErrWouldHang and ErrTooComplex are Berth's own: the kubelet would never answer, or
// would answer much too late.
var (
	// ErrNotEnough is the kubelet's "not enough cpus available to satisfy request".
	ErrNotEnough = errors.New("not enough cpus available to satisfy request")
	// ErrFailed is the kubelet's "failed to allocate cpus".
	ErrFailed = errors.New("failed to allocate cpus")
	// ErrAccounting is the kubelet's "accounting error": distribute-cpus-across-numa took too many
	// or too few CPUs.
	ErrAccounting = errors.New("accounting error: too many or too few CPUs taken")
	// ErrSMTSize: the request is not a multiple of the CPUs per core.
	ErrSMTSize = errors.New("SMT alignment: the request is not a multiple of the CPUs per core")
	// ErrSMTCores is the kubelet's "not enough free physical CPUs": too few whole cores are free.
	ErrSMTCores = errors.New("SMT alignment: not enough free physical CPUs")
	// ErrWouldHang means that the kubelet would loop forever with its CPU manager locked
	// (takeByTopologyNUMADistributed, kubernetes#140730).
	ErrWouldHang = errors.New("the kubelet would loop forever: distribute-cpus-across-numa cannot place the remainder")
	// ErrTooComplex means that the kubelet would try too many combinations of NUMA nodes to finish
	// in time.
	ErrTooComplex = errors.New("the kubelet would try too many combinations of NUMA nodes")
	// ErrReserve means that the kubelet would not start, because it cannot pick as many CPUs as it
	// must reserve. The text has the kubelet's words.
	ErrReserve = errors.New("unable to reserve the required amount of CPUs")
)

// NodeError names the part of a Node with which the kubelet's CPU manager would fail, or which
// Berth does not support.
type NodeError struct {
	Field string // the field of Node, such as "NumSockets" or "Threads[3].NUMA"
	Value int
	Want  string // the expected value
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("CPU topology: %s: %d: want %s", e.Field, e.Value, e.Want)
}
