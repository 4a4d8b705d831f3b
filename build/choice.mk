# The scenes of the choice among nodes, on the real API server with hollow nodes.
.PHONY: e2e-choice
e2e-choice: ## Whole NUMA nodes first, and GPUs that keep their CPUs, under the real scheduler (4 minutes).
	$(call say,two scenes of the choice among nodes)
	@BERTH_SLOW_SCENES=1 $(GO) test -count=1 -timeout 20m -run '^(TestWholeNUMANodesFirst|TestGPUsKeepTheirCPUs)$$' ./test/e2e

.PHONY: e2e-simulated
e2e-simulated: ## 560 pods under the real scheduler and in the simulator: equal choices one by one, similar choices at once (5 minutes).
	$(call say,560 pods in the simulator and on hollow nodes)
	@BERTH_SLOW_SCENES=1 $(GO) test -count=1 -timeout 30m -v -run '^(TestSimulatedLikePlayed|TestSimulatedBurst)$$' ./test/e2e
