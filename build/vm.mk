# Real kubelets on emulated multi-NUMA machines. Everything that is needed is installed or built on the first call and kept in
# .cache/vm; what a failed run leaves is in _artifacts/vm.
VM_TEST = $(GO) test -count=1 -v -timeout $(1) -run '$(2)' ./test/vm

.PHONY: e2e-vm-smoke
e2e-vm-smoke: ## One emulated machine with 4 NUMA nodes, a real kubelet, five pods (cold: 15 minutes, warm: 3).
	$(call say,booting a machine with 4 NUMA nodes and a real kubelet)
	@BERTH_VM=smoke $(call VM_TEST,30m,TestSmoke)
