# Pods from a seed on hollow nodes that obey: Koordinator's words, and devices.
KOORDINATOR_PODS ?= 100
DEVICES_PODS     ?= 100
RESIZE_STEPS     ?= 500

.PHONY: e2e-koordinator e2e-devices
e2e-koordinator: ## Koordinator's annotations on hollow nodes with authority berth: SEED=n KOORDINATOR_PODS=100.
	@$(MAKE) --no-print-directory obey LOAD=koordinator PODS=$(KOORDINATOR_PODS)

e2e-devices: ## Pods with devices, CPUs and memory on hollow nodes: SEED=n DEVICES_PODS=100.
	@$(MAKE) --no-print-directory obey LOAD=devices PODS=$(DEVICES_PODS)

.PHONY: e2e-resize
e2e-resize: ## 200 pods that are resized in place, like by the Vertical Pod Autoscaler, on hollow nodes with authority berth: SEED=n RESIZE_STEPS=500 (10 minutes); the last line is JSON. On real containerd: make e2e-vm E2E_ONLY=resize.
	@$(MAKE) --no-print-directory obey LOAD=resize PODS=$(RESIZE_STEPS)

.PHONY: obey
obey:
	$(call say,running bin/obey -load=$(LOAD) -seed=$(SEED) -pods=$(PODS))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/obey ./test/obey
	@$(BIN)/obey -load=$(LOAD) -seed=$(SEED) -pods=$(PODS)
