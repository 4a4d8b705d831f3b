package placement

import "hash/maphash"

// uids is a filter over UIDs. A new pod is on no node, and finding that out by comparing it with those that are costs
// a visit to each of their UIDs, wherever in memory: on a large cluster longer than the rest of an admission.
type uids [8]uint64

func (u *uids) add(uid string) {
	h := maphash.String(fingerprintSeed, uid)
	u[h>>6%8] |= 1 << (h % 64)
}

// mayHave says no only if the UID was never added.
func (u *uids) mayHave(uid string) bool {
	h := maphash.String(fingerprintSeed, uid)
	return u[h>>6%8]>>(h%64)&1 == 1
}
