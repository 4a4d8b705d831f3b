# Devices with CPUs and memory on hollow nodes, from a seed.
DEVICES_PODS ?= 100

.PHONY: e2e-devices
e2e-devices: ## Devices with CPUs and memory on hollow nodes: SEED=n DEVICES_PODS=100.
	$(call say,running bin/devices -seed=$(SEED) -pods=$(DEVICES_PODS))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/devices ./test/devices
	@$(BIN)/devices -seed=$(SEED) -pods=$(DEVICES_PODS)
