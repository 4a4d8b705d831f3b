# Gangs on a real API server with hollow nodes, from a seed.
GANGS ?= 100

.PHONY: e2e-gangs gangs-build
e2e-gangs: gangs-build ## A hundred gangs and single pods, watched all the time: SEED=n GANGS=100 GANGS_FLAGS=-v; before it, single cases and Kubernetes' own groups (10 minutes).
	$(call say,running bin/gangs -seed=$(SEED) -gangs=$(GANGS) $(GANGS_FLAGS))
	@BERTH_SLOW_SCENES=1 $(GO) test -count=1 -v -timeout 20m -run '^(TestGangs|TestKubernetesOwnGroups)$$' ./test/e2e ./test/groups
	@$(BIN)/gangs -seed=$(SEED) -gangs=$(GANGS) $(GANGS_FLAGS)

gangs-build:
	$(call say,building bin/gangs)
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/gangs ./test/gangs
