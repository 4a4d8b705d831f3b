package vm

// counter reads the time stamp counter, which an emulated processor passes on to the guest.
func counter() uint64
