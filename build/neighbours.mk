# Files of Berth's neighbours, unchanged, beside Berth: NEIGHBOURS is the folder that has them.
NEIGHBOURS ?= ../shared/neighbours

.PHONY: e2e-neighbours neighbours-build
e2e-neighbours: neighbours-build ## Volcano's own examples and e2e Jobs, with its own controller and with berth-controller, and Koordinator's examples: NEIGHBOURS=folder NEIGHBOURS_FLAGS=-v (10 minutes).
	$(call say,running bin/neighbours -from=$(NEIGHBOURS) $(NEIGHBOURS_FLAGS))
	@$(BIN)/neighbours -from=$(NEIGHBOURS) $(NEIGHBOURS_FLAGS)

neighbours-build:
	$(call say,building bin/neighbours)
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/neighbours ./test/neighbours
