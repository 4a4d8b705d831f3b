# Koordinator's words on hollow nodes that obey, from a seed.
KOORDINATOR_PODS ?= 100

.PHONY: e2e-koordinator
e2e-koordinator: ## Koordinator's words on hollow nodes that obey: SEED=n KOORDINATOR_PODS=100.
	$(call say,running bin/koordinator -seed=$(SEED) -pods=$(KOORDINATOR_PODS))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/koordinator ./test/koordinator
	@$(BIN)/koordinator -seed=$(SEED) -pods=$(KOORDINATOR_PODS)
