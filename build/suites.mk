# Kubernetes' own integration tests of its scheduler, under kube-scheduler and under Berth. They are copied from the module
# cache into a temporary folder. A test that passes under the one and not under the other is repeated three times under each.
# The last line is JSON, and the target fails if any differs. PACKAGES=batch,podgroup/topology_aware_scheduling runs some.
.PHONY: scheduler-suites
scheduler-suites: ## Kubernetes' own scheduler tests under kube-scheduler and under Berth (two hours; PACKAGES=batch,preemption: some).
	@$(GO) run ./test/suites -packages='$(PACKAGES)' $(SUITES_FLAGS)
