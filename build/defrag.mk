# Room made on purpose, on a real API server with hollow nodes. SEED=n chooses machines, replicas and pods.
DEFRAG_FLAGS ?=

.PHONY: e2e-defrag
e2e-defrag: ## Make room by moving pods, plan after plan, on hollow nodes: SEED=n; the last line is JSON (5 to 10 minutes).
	$(call say,building bin/defrag)
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/defrag ./test/defrag
	@$(BIN)/defrag -seed=$(SEED) $(DEFRAG_FLAGS)
