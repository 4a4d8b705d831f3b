# Pods with ResourceClaims from a seed on hollow nodes, under kube-scheduler and under Berth.
DRA_PODS ?= 100

.PHONY: e2e-dra
e2e-dra: ## Devices of ResourceClaims with CPUs on hollow nodes: SEED=n DRA_PODS=100 DRA_FLAGS=-only=stock.
	$(call say,running bin/dra -seed=$(SEED) -pods=$(DRA_PODS) $(DRA_FLAGS))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/dra ./test/dra
	@$(BIN)/dra -seed=$(SEED) -pods=$(DRA_PODS) $(DRA_FLAGS)
