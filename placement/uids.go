package placement

import "hash/maphash"

// uids is a filter over UIDs. A new pod is on no node. To find that out by comparison costs a visit
// to the UID of each pod, wherever in memory: on a large cluster that is longer than the rest of an
// admission.
type uids [8]uint64

var uidSeed = maphash.MakeSeed()

func (u *uids) add(uid string) {
	h := maphash.String(uidSeed, uid)
	u[h>>6%8] |= 1 << (h % 64)
}

// mayHave says no only if the UID was never added.
func (u *uids) mayHave(uid string) bool {
	h := maphash.String(uidSeed, uid)
	return u[h>>6%8]>>(h%64)&1 == 1
}
