// Package shapes has machines for tests, demonstrations and documentation: real servers as machine
// strings.
package shapes

import "github.com/berth-dev/berth/topology"

// Machine strings of whole machines. Captured machines come from a real server of that kind, but
// their devices are left out, and the memory of some is rounded. The other machines follow the
// vendor's description.
const (
	// Xeon6130 is a two-socket Xeon Gold 6130 without SMT.
	Xeon6130 = "package:2 die:1 numa:1 l3:1 core:16 pu:1 number:interleaved mem:96Gi huge:2Mi=0;1Gi=0 dist:10,21"
	// Xeon6230 is a captured two-socket Xeon Gold 6230 with SMT and even/odd numbering. Only node 0
	// has 2 MiB pages.
	Xeon6230 = "package:2 die:1 numa:1 l3:1 core:20 pu:2 number:interleaved coreid:0,4,1,3,2,12,8,11,9-10,16,20,17,19,18,28,24,27,25-26 " +
		"mem:97557100Ki,99076588Ki huge:2Mi=128,0;1Gi=0 dist:10,21"
	// Xeon6330 is a captured two-socket Xeon Gold 6330 with SMT and even/odd numbering.
	Xeon6330 = "package:2 die:1 numa:1 l3:1 core:28 pu:2 number:interleaved " +
		"coreid:0,14,1,15,2,16,3,17,4,18,5,19,6,20,7,21,8,22,9,23,10,24,11,25,12,26,13,27 mem:131484584Ki,132057708Ki huge:2Mi=0;1Gi=0 dist:10,20"
	// XeonSNC2 is a captured two-socket Cascade Lake with sub-NUMA clustering. Each L3 spans two
	// NUMA nodes, and each node has 2560 huge pages.
	XeonSNC2 = "package:2 die:1 l3:1 core:20 pu:2 coreid:0-4,8-12,16-20,24-28 " +
		"numa:0=0-2,5-6,10-12,15-16,40-42,45-46,50-52,55-56;1=3-4,7-9,13-14,17-19,43-44,47-49,53-54,57-59;" +
		"2=20-22,25-26,30-32,35-36,60-62,65-66,70-72,75-76;3=23-24,27-29,33-34,37-39,63-64,67-69,73-74,77-79 " +
		"mem:48005604Ki,49507804Ki,49540688Ki,49539172Ki huge:2Mi=2560;1Gi=0 dist:10,11,21"
	// XeonPMEM is a captured two-socket server with sub-NUMA clustering. Four NUMA nodes without
	// CPUs have persistent memory.
	XeonPMEM = "package:2 die:1 l3:1 numa:2 core:14 pu:2 number:interleaved " +
		"coreid:0-3,8-10,16-19,24-26,6,5,4,14,13,12,11,22,21,20,30,29,28,27 numaid:0,2,1,3 memonly:4-7 " +
		"mem:32404120Ki,33022772Ki,33022780Ki,33002800Ki,124Gi*4 huge:2Mi=0;1Gi=0 " +
		"dist:10,21,11,21,17,28*3/21,10,21,11,28*2,17,28/11,21,10,21,28,17,28*2/21,11,21,10,28*3,17/17,28*3,10,28*3/28*2,17,28*2,10,28*2/28,17,28*4,10,28/28*3,17,28*3,10"
	// EPYC7451 is a captured two-socket EPYC of the first generation. Each socket has four nodes
	// with two L3s each. Memory and distances are as AMD describes them.
	EPYC7451 = "package:2 numa:4 l3:2 core:3 pu:2 coreid:0-2,4-6,8-10,12-14,16-18,20-22,24-26,28-30 mem:32Gi dist:10,16,32"
	// EPYCNPS4 is a two-socket EPYC of the third generation in NPS4. It has 256 CPUs on eight
	// nodes. Each node has two L3s of 8 cores.
	EPYCNPS4 = "package:2 numa:4 l3:2 core:8 pu:2 mem:64Gi huge:2Mi=0;1Gi=0 dist:10,12,32"
	// EPYCNPS1 is the same server in NPS1: two nodes with eight L3s each.
	EPYCNPS1 = "package:2 numa:1 l3:8 core:8 pu:2 mem:256Gi huge:2Mi=0;1Gi=0 dist:10,32"
	// Kunpeng920 is a captured two-socket arm64 server with four NUMA nodes.
	Kunpeng920 = "package:2 numa:2 l3:1 core:32 pu:1 packageid:36,8442 coreid:0-63|64-127 l3id:cpu " +
		"mem:131732940Ki,132117940Ki,132117936Ki,131062408Ki huge:64Ki=0;2Mi=0;32Mi=0;1Gi=0 dist:10,16,32,33/16,10,25,32/32,25,10,16/33,32,16,10"
	// XeonX7550 is a captured four-socket server with sparse ids, in which one NUMA node is
	// missing.
	XeonX7550 = "package:4 l3:1 core:8 pu:2 number:interleaved packageid:0,2,1,3 coreid:0,8,2,10,1,9,3,11 l3id:cpu " +
		"numa:0=0-62:1/2;2=1-61:1/4;3=3-63:1/4 mem:64Gi,32Gi*2 dist:10,20"
	// POWER7 is a captured partition of 256 CPUs with sparse NUMA ids, SMT4, and packages without
	// ids. All packages have the same core ids.
	POWER7 = "numa:8 package:8 l3:1 core:1 pu:4 number:packed packageid:none l3id:cpu numaid:0-1,4-5,8-9,12-13 " +
		"mem:57088Mi,64768Mi,65280Mi,64Gi,65280Mi,64Gi,65280Mi,55552Mi " +
		"dist:10,20,40*6/20,10,40*6/40*2,10,20,40*4/40*2,20,10,40*4/40*4,10,20,40*2/40*4,20,10,40*2/40*6,10,20/40*6,20,10"
	// POWER9GPU is a captured two-socket POWER9, shortened. The memory of its six GPUs is in the
	// NUMA nodes 250 to 255.
	POWER9GPU = "cpu:0-15,88-103 package:0=0-15;8=88-103 core:0/8-20/4=0-12/4+1-13/4+2-14/4+3-15/4;8/2056-2068/4=88-100/4+89-101/4+90-102/4+91-103/4 " +
		"l3:0=0-7;8=8-15;88=88-95;96=96-103 l3id:cpu numa:0=0-15;8=88-103 memonly:250-255 mem:126796Mi,133952000Ki,15Gi*6 huge:2Mi=0;1Gi=0 " +
		"dist:10,40,80*6/40,10,80*6/80*2,10,80*5/80*3,10,80*4/80*4,10,80*3/80*5,10,80*2/80*6,10,80/80*7,10"
	// Hybrid is a captured laptop with six cores of two threads and eight cores of one thread.
	Hybrid = "package:1 die:1 numa:1 l3:1 pu:20 core:0/0-20/4=0-10/2+1-11/2;0/24-31=12-19 mem:32489480Ki huge:2Mi=0;1Gi=0 dist:10"
	// GPUServer is a two-socket server with eight GPUs and four network cards. They are behind four
	// PCIe switches, two switches on each socket.
	GPUServer = "package:2 numa:1 l3:1 core:32 pu:2 mem:512Gi huge:2Mi=0;1Gi=0 dist:10,21 " +
		"dev:18:00.0|19:00.0,030200,10de:2330,numa=0,root=15,switch=16:00.0,driver=nvidia,name=card1|card2 " +
		"dev:1a:00.0,020700,15b3:1021,numa=0,root=15,switch=16:00.0,driver=mlx5_core,name=ib0 " +
		"dev:3a:00.0|3b:00.0,030200,10de:2330,numa=0,root=37,switch=38:00.0,driver=nvidia,name=card3|card4 " +
		"dev:3c:00.0,020700,15b3:1021,numa=0,root=37,switch=38:00.0,driver=mlx5_core,name=ib1 " +
		"dev:9a:00.0|9b:00.0,030200,10de:2330,numa=1,root=97,switch=98:00.0,driver=nvidia,name=card5|card6 " +
		"dev:9c:00.0,020700,15b3:1021,numa=1,root=97,switch=98:00.0,driver=mlx5_core,name=ib2 " +
		"dev:ba:00.0|bb:00.0,030200,10de:2330,numa=1,root=b7,switch=b8:00.0,driver=nvidia,name=card7|card8 " +
		"dev:bc:00.0,020700,15b3:1021,numa=1,root=b7,switch=b8:00.0,driver=mlx5_core,name=ib3"
	// GPUMesh is a two-socket server whose eight GPUs form a hybrid cube mesh of NVLinks. Each PCIe
	// switch has two GPUs and a network card. The links are as NVIDIA publishes them for the DGX-1
	// with V100.
	GPUMesh = "package:2 numa:1 l3:1 core:20 pu:2 mem:256Gi huge:2Mi=0;1Gi=64 dist:10,21 " +
		"dev:06:00.0|07:00.0,030200,10de:1db1,numa=0,root=00,switch=04:00.0,driver=nvidia " +
		"dev:08:00.0,020700,15b3:1013,numa=0,root=00,switch=04:00.0,driver=mlx5_core,name=ib0,rdma=mlx5_0 " +
		"dev:0a:00.0|0b:00.0,030200,10de:1db1,numa=0,root=00,switch=09:00.0,driver=nvidia " +
		"dev:0c:00.0,020700,15b3:1013,numa=0,root=00,switch=09:00.0,driver=mlx5_core,name=ib1,rdma=mlx5_1 " +
		"dev:85:00.0|86:00.0,030200,10de:1db1,numa=1,root=80,switch=83:00.0,driver=nvidia " +
		"dev:87:00.0,020700,15b3:1013,numa=1,root=80,switch=83:00.0,driver=mlx5_core,name=ib2,rdma=mlx5_2 " +
		"dev:89:00.0|8a:00.0,030200,10de:1db1,numa=1,root=80,switch=88:00.0,driver=nvidia " +
		"dev:8b:00.0,020700,15b3:1013,numa=1,root=80,switch=88:00.0,driver=mlx5_core,name=ib3,rdma=mlx5_3 " +
		"link:nvlink=1,06:00.0+07:00.0|06:00.0+0a:00.0|07:00.0+0b:00.0|0a:00.0+89:00.0|0b:00.0+8a:00.0|85:00.0+86:00.0|85:00.0+89:00.0|86:00.0+8a:00.0 " +
		"link:nvlink=2,06:00.0+0b:00.0|06:00.0+85:00.0|07:00.0+0a:00.0|07:00.0+86:00.0|0a:00.0+0b:00.0|85:00.0+8a:00.0|86:00.0+89:00.0|89:00.0+8a:00.0"
	// GPUSwitched is a two-socket server in NPS4, with eight NUMA nodes. Its eight GPUs are all
	// linked through NVSwitch. Each of its two PCIe switches has four GPUs, and two network cards
	// with four virtual functions each.
	GPUSwitched = "package:2 numa:4 l3:2 core:8 pu:2 mem:64Gi huge:2Mi=0;1Gi=16 dist:10,12,32 " +
		"dev:21:00.0|22:00.0|23:00.0|24:00.0,030200,10de:2330,numa=1,root=20,switch=20:01.0,driver=nvidia " +
		"dev:25:00.0|26:00.0,020000,15b3:1021,numa=1,root=20,switch=20:01.0,driver=mlx5_core,name=eth0|eth1,rdma=mlx5_0|mlx5_1 " +
		"dev:25:00.1|25:00.2|25:00.3|25:00.4,020000,15b3:101e,numa=1,root=20,switch=20:01.0,pf=25:00.0,driver=mlx5_core " +
		"dev:26:00.1|26:00.2|26:00.3|26:00.4,020000,15b3:101e,numa=1,root=20,switch=20:01.0,pf=26:00.0,driver=mlx5_core " +
		"dev:a1:00.0|a2:00.0|a3:00.0|a4:00.0,030200,10de:2330,numa=5,root=a0,switch=a0:01.0,driver=nvidia " +
		"dev:a5:00.0|a6:00.0,020000,15b3:1021,numa=5,root=a0,switch=a0:01.0,driver=mlx5_core,name=eth2|eth3,rdma=mlx5_2|mlx5_3 " +
		"dev:a5:00.1|a5:00.2|a5:00.3|a5:00.4,020000,15b3:101e,numa=5,root=a0,switch=a0:01.0,pf=a5:00.0,driver=mlx5_core " +
		"dev:a6:00.1|a6:00.2|a6:00.3|a6:00.4,020000,15b3:101e,numa=5,root=a0,switch=a0:01.0,pf=a6:00.0,driver=mlx5_core " +
		"link:nvlink=18,21:00.0+22:00.0+23:00.0+24:00.0+a1:00.0+a2:00.0+a3:00.0+a4:00.0"
	// GB200 is a compute tray of two Grace CPUs and four GPUs. Each GPU has eight NUMA nodes
	// without CPUs. The first of them has all memory of the GPU unless the GPU is divided (MIG).
	// Each device has a PCI domain of its own.
	GB200 = "package:2 numa:1 l3:1 core:72 pu:1 memonly:2-33 mem:480Gi*2,186Gi,0*7,186Gi,0*7,186Gi,0*7,186Gi,0*7 huge:64Ki=0;2Mi=0;32Mi=0;512Mi=0;16Gi=0 dist:" +
		"10,40,80*16,120*16/40,10,120*16,80*16/80,120,10,160*31/80,120,160,10,160*30/80,120,160*2,10,160*29/80,120,160*3,10,160*28/80,120,160*4,10,160*27" +
		"/80,120,160*5,10,160*26/80,120,160*6,10,160*25/80,120,160*7,10,160*24/80,120,160*8,10,160*23/80,120,160*9,10,160*22/80,120,160*10,10,160*21" +
		"/80,120,160*11,10,160*20/80,120,160*12,10,160*19/80,120,160*13,10,160*18/80,120,160*14,10,160*17/80,120,160*15,10,160*16/120,80,160*16,10,160*15" +
		"/120,80,160*17,10,160*14/120,80,160*18,10,160*13/120,80,160*19,10,160*12/120,80,160*20,10,160*11/120,80,160*21,10,160*10/120,80,160*22,10,160*9" +
		"/120,80,160*23,10,160*8/120,80,160*24,10,160*7/120,80,160*25,10,160*6/120,80,160*26,10,160*5/120,80,160*27,10,160*4/120,80,160*28,10,160*3" +
		"/120,80,160*29,10,160*2/120,80,160*30,10,160/120,80,160*31,10" +
		" dev:0008:01:00.0,030200,10de:2941,numa=0,root=pci0008:00,driver=nvidia dev:0009:01:00.0,030200,10de:2941,numa=0,root=pci0009:00,driver=nvidia " +
		"dev:0018:01:00.0,030200,10de:2941,numa=1,root=pci0018:00,driver=nvidia dev:0019:01:00.0,030200,10de:2941,numa=1,root=pci0019:00,driver=nvidia " +
		"dev:0000:03:00.0,020700,15b3:1021,numa=0,root=pci0000:00,driver=mlx5_core,name=ib0,rdma=mlx5_0 " +
		"dev:0002:03:00.0,020700,15b3:1021,numa=0,root=pci0002:00,driver=mlx5_core,name=ib1,rdma=mlx5_1 " +
		"dev:0010:03:00.0,020700,15b3:1021,numa=1,root=pci0010:00,driver=mlx5_core,name=ib2,rdma=mlx5_2 " +
		"dev:0012:03:00.0,020700,15b3:1021,numa=1,root=pci0012:00,driver=mlx5_core,name=ib3,rdma=mlx5_3 " +
		"link:nvlink=18,0008:01:00.0+0009:01:00.0+0018:01:00.0+0019:01:00.0"
)

// All lists the machine strings by name.
func All() map[string]string {
	return map[string]string{
		"Xeon6130": Xeon6130, "Xeon6230": Xeon6230, "Xeon6330": Xeon6330, "XeonSNC2": XeonSNC2, "XeonPMEM": XeonPMEM,
		"EPYC7451": EPYC7451, "EPYCNPS4": EPYCNPS4, "EPYCNPS1": EPYCNPS1, "Kunpeng920": Kunpeng920, "XeonX7550": XeonX7550,
		"POWER7": POWER7, "POWER9GPU": POWER9GPU, "Hybrid": Hybrid, "GPUServer": GPUServer, "GPUMesh": GPUMesh, "GPUSwitched": GPUSwitched, "GB200": GB200,
	}
}

// Machine parses a machine string of this package. It panics if the text is not a machine string,
// so it is for constants only. Use topology.Parse for input.
func Machine(text string) *topology.Machine {
	m, err := topology.Parse(text)
	if err != nil {
		panic(err)
	}
	return m
}

// CPUs parses a list of CPUs. It panics if the text is not a list of CPUs, so it is for constants
// only. Use topology.ParseCPUList for input.
func CPUs(list string) topology.CPUSet {
	set, err := topology.ParseCPUList(list)
	if err != nil {
		panic(err)
	}
	return set
}
