package tenant

import (
	"math/rand/v2"
	"strings"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// right has values that Berth or a dialect accepts, by the key of an annotation or label. Package
// wire defines the keys; TestEveryKeyHasARightValue compares this map with it. %[1]s is a name in
// the friendly namespace, %[2]s a UID there or an invented one.
var right = map[string][]string{
	wire.ClaimsAnnotation:                             {"near", "required"},
	"volcano.sh/preemptable":                          {"true", "false"},
	wire.PolicyAnnotation:                             {"single-numa-node", "restricted,scope=pod", "best-effort", "none"},
	wire.VolcanoPolicyAnnotation:                      {"single-numa-node", "restricted", "best-effort", "none"},
	wire.CPUsAnnotation:                               {"shares", "full-cores", "full-cores,required", "spread,preferred"},
	wire.ExclusiveAnnotation:                          {"core", "numa", "core,required", "numa,required", "numa,preferred"},
	wire.L3Annotation:                                 {"required", "preferred"},
	wire.MemoryAnnotation:                             {"pinned"},
	wire.DevicesAnnotation:                            {"same-switch", "same-root,required", "one-switch", "perNUMANode=1", "perNUMANode=2"},
	wire.NUMANodesAnnotation:                          {"1", "2", "64"},
	wire.FunctionsAnnotation:                          {"one-per-card"},
	wire.GangAnnotation:                               {"%[1]s"},
	wire.GangMinimumAnnotation:                        {"1", "2", "3", "4096"},
	wire.SameNUMAAnnotation:                           {"*", "%[1]s"},
	wire.OtherNUMAAnnotation:                          {"*", "%[1]s"},
	wire.PlacementAnnotation:                          {`{"version":1,"node":"b0","containers":[{"name":"main","cpus":"1-4"}]}`},
	wire.BoundForAnnotation:                           {`{"v":1,"uid":"%[2]s","gang":"%[1]s","source":"gang","whole":true}`, `{"v":1,"uid":"%[2]s","reservation":"%[2]s"}`},
	wire.HolderLabel:                                  {"%[2]s"},
	wire.RequiredPlugins:                              {`["berth"]`},
	wire.RequiredPlugins + "/pod":                     {`[ "berth" ]`, `["nobody"]`},
	volcano.GroupNameAnnotation:                       {"%[1]s"},
	volcano.TaskSpecAnnotation:                        {"one", "two"},
	sigs.PodGroupLabel:                                {"%[1]s"},
	wire.AllocatedAnnotation:                          {`{"name":"%[1]s","uid":"%[2]s"}`},
	wire.KoordinatorStatusAnnotation:                  {`{"cpuset":"1-4"}`, `{"numaNodeResources":[{"node":0,"resources":{"cpu":"8"}}]}`},
	wire.KoordinatorDevicesAnnotation:                 {`{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}`},
	wire.ReservationAffinityAnnotation:                {`{"name":"%[1]s"}`, `{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[]}}`},
	volcano.VolcanoGroupNameAnnotation:                {"%[1]s"},
	"pod-group.scheduling.sigs.k8s.io":                {"%[1]s"},
	"gang.scheduling.koordinator.sh/name":             {"%[1]s"},
	"gang.scheduling.koordinator.sh/min-available":    {"1", "2", "3"},
	"gang.scheduling.koordinator.sh/total-number":     {"2", "3"},
	"gang.scheduling.koordinator.sh/mode":             {"Strict", "NonStrict"},
	"gang.scheduling.koordinator.sh/match-policy":     {"once-satisfied", "only-waiting", "waiting-and-running"},
	"gang.scheduling.koordinator.sh/waiting-time":     {"1s", "600s"},
	"gang.scheduling.koordinator.sh/groups":           {`["friends/%[1]s"]`},
	"koordinator.sh/qosClass":                         {"LSE", "LSR", "LS", "BE", "SYSTEM"},
	"scheduling.koordinator.sh/resource-spec":         {`{"preferredCPUBindPolicy":"FullPCPUs"}`, `{"preferredCPUExclusivePolicy":"NUMANodeLevel"}`, `{"preferredCPUExclusivePolicy":"PCPULevel"}`},
	"scheduling.koordinator.sh/numa-topology-spec":    {`{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}`, `{"numaTopologyPolicy":"Restricted"}`},
	"scheduling.koordinator.sh/device-joint-allocate": {`{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`},
	"scheduling.koordinator.sh/device-allocate-hint":  {`{"rdma":{"allocateStrategy":"ApplyForAll"}}`},
}

// odd are invalid values, and values that could harm a careless parser.
var odd = []string{
	"", " ", "nonsense", "-1", "0", "9999999999999999999999", "1e309", "null", "[]", "{}", `{"uid":null}`, `{"name":{"a":1}}`, "\x00", "\x7f\x1b[31m",
	"ünïcödé", "日本語", "👩‍👩‍👧‍👦", "a\u202eb", "\ufeff{}", strings.Repeat("é", 63), "../../etc/passwd", "%s%s%n", `"`, "single-numa-node,scope=", ",,,", "*,*,*",
	strings.Repeat("[", 10000), strings.Repeat(`{"a":`, 5000), strings.Repeat("0,", 3000), "0-4294967295", strings.Repeat("9", 4000),
}

// words makes the tenant's annotations and labels.
type words struct {
	annotations, labels []string
}

func newWords() words {
	annotations, labels := wire.KeysRead()
	return words{annotations, labels}
}

// value returns a value for a key: right, odd or huge, about a name and a UID.
func (w *words) value(r *rand.Rand, key, name, uid string, label bool) string {
	switch n := r.IntN(20); {
	case n < 11 && len(right[key]) > 0:
		return about(right[key][r.IntN(len(right[key]))], name, uid)
	case n == 19 && !label:
		return strings.Repeat(string(rune('a'+r.IntN(26))), 1<<(10+r.IntN(8)))
	default:
		return odd[r.IntN(len(odd))]
	}
}

// about inserts a name and a UID into a form.
func about(form, name, uid string) string {
	return strings.NewReplacer("%[1]s", name, "%[2]s", uid).Replace(form)
}
