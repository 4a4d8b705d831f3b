package koordinator

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/internal/hollow"
)

// machines are the machines of the nodes. One CPU of each is reserved.
var machines = []string{
	"package:2 numa:1 core:4 pu:2 mem:8Gi dist:10,21",
	"package:2 numa:2 core:4 pu:1 mem:4Gi",
	"package:1 numa:2 core:4 pu:2 mem:8Gi",
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
reservedSystemCPUs: "0"
`

func nodes() (all []hollow.Spec) {
	for i, m := range machines {
		all = append(all, hollow.Spec{Name: fmt.Sprint("k", i), Machine: m, KubeletConfig: kubeletConfig, NRI: true, StopTime: 200 * time.Millisecond})
	}
	return all
}
