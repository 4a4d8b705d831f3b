# Jobs of batch.volcano.sh on a real API server with hollow nodes, from a seed.
VOLCANO_JOBS ?= 60

.PHONY: e2e-volcano volcano-build
e2e-volcano: volcano-build neighbours-build ## Sixty Volcano Jobs and other pods, while controller and scheduler are killed: SEED=n VOLCANO_JOBS=60 VOLCANO_FLAGS=-v; then its documents' YAML, its own examples and e2e Jobs (20 minutes).
	$(call say,running bin/volcanojobs -seed=$(SEED) -jobs=$(VOLCANO_JOBS) $(VOLCANO_FLAGS))
	@BERTH_SLOW_SCENES=1 $(GO) test -count=1 -v -timeout 20m -run '^(TestVolcanoDocuments|TestAmountsAlone)$$' ./test/e2e
	@$(BIN)/volcanojobs -seed=$(SEED) -jobs=$(VOLCANO_JOBS) $(VOLCANO_FLAGS)
	@$(BIN)/neighbours -from=$(NEIGHBOURS) $(NEIGHBOURS_FLAGS)

volcano-build:
	$(call say,building bin/volcanojobs)
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/volcanojobs ./test/volcanojobs
