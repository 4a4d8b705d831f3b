# Kubernetes' own integration tests of its scheduler, under kube-scheduler and under Berth, of each release that berth-scheduler
# is built from (SUITES=1.36: of one). They are copied from the module cache into a temporary folder. A test that passes under the
# one and not under the other is repeated three times under each. The last line of each release is JSON, and the target fails if
# any differs. PACKAGES=batch,podgroup/topology_aware_scheduling runs some.
SUITES ?= $(SCHEDULERS)

.PHONY: scheduler-suites
scheduler-suites: ## Kubernetes' own scheduler tests under kube-scheduler and under Berth (two hours for each release; SUITES=1.36 PACKAGES=batch,preemption: some).
	@failed=; $(foreach v,$(SUITES),printf '\n\033[1m== Kubernetes %s\033[0m\n' $(v); \
	  $(GO) run ./test/suites -packages='$(PACKAGES)' $(call modflags,$(v)) $(SUITES_FLAGS) || failed="$$failed $(v)"; )\
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }
