# API servers of other releases, built from their own modules, under a scheduler that is not newer (older API servers get the
# oldest), these agents and the chart's objects. The hollow nodes are kubelets of this release.
APISERVER_VERSIONS ?= 1.36 1.35 1.34
APISERVER_TESTS    := ^(TestControlPlane|TestInstalled|TestChart|TestChartRuns|TestScheduler|TestBerthKeepsItsPromise)$$

# The scheduler for an API server: the newest build that is not newer, as the chart chooses it.
scheduler-for = $(shell printf '%s\n' $(SCHEDULERS) | awk -F. -v server=$(1:1.%=%) 'NR == 1 || $$2 <= server {build = $$0} END {print "$(BIN)/berth-scheduler-k8s" build}')

.PHONY: e2e-versions apiservers
e2e-versions: apiservers $(sort $(foreach v,$(APISERVER_VERSIONS),$(call scheduler-for,$(v)))) ## Scheduler, agents and policies against the API servers of 1.36, 1.35 and 1.34 (each compiled once: some 7 minutes on 2 cores).
	@$(foreach v,$(APISERVER_VERSIONS),printf '\n\033[1m== %s\033[0m\n' "API server $(v), $(notdir $(call scheduler-for,$(v)))"; \
	  BERTH_APISERVER=$(BIN)/kube-apiserver-$(v) BERTH_SCHEDULER=$(call scheduler-for,$(v)) $(GO) test -count=1 -timeout 30m -parallel 4 -run '$(APISERVER_TESTS)' ./test/e2e;)

apiservers:
	@mkdir -p $(BIN)
	@for v in $(APISERVER_VERSIONS); do \
	  mod=test/conformance/versions/v$$v/go.mod; kube=$$(awk '$$1 == "k8s.io/kubernetes" {print $$2}' $$mod); \
	  printf '\n\033[1m== %s\033[0m\n' "building kube-apiserver $$kube"; \
	  $(GO) build -modfile=$$mod -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$kube -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$${v#1.}" \
	    -o $(BIN)/kube-apiserver-$$v k8s.io/kubernetes/cmd/kube-apiserver; \
	done
