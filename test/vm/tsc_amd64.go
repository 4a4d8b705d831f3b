package vm

// counter reads the time stamp counter, which an emulated processor hands on.
func counter() uint64
