# Pods from a seed on hollow nodes that obey: Koordinator's words, and devices.
KOORDINATOR_PODS ?= 100
DEVICES_PODS     ?= 100

.PHONY: e2e-koordinator e2e-devices
e2e-koordinator: ## Koordinator's words on hollow nodes that obey: SEED=n KOORDINATOR_PODS=100.
	@$(MAKE) --no-print-directory obey LOAD=koordinator PODS=$(KOORDINATOR_PODS)

e2e-devices: ## Devices with CPUs and memory on hollow nodes: SEED=n DEVICES_PODS=100.
	@$(MAKE) --no-print-directory obey LOAD=devices PODS=$(DEVICES_PODS)

.PHONY: obey
obey:
	$(call say,running bin/obey -load=$(LOAD) -seed=$(SEED) -pods=$(PODS))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/obey ./test/obey
	@$(BIN)/obey -load=$(LOAD) -seed=$(SEED) -pods=$(PODS)
