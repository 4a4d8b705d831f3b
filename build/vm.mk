# Real kubelets on emulated multi-NUMA machines. Everything that is needed is installed or built on the first call and kept in
# .cache/vm; what a failed run leaves is in _artifacts/vm.
# E2E_KUBELET chooses another release of the kubelet, of those in test/conformance/versions: make e2e-vm-smoke E2E_KUBELET=1.36
E2E_KUBELET ?=
export E2E_KUBELET
# The flags of the linker tell the API server its version, by which Helm judges charts.
VM_TEST = $(GO) test -count=1 -v -ldflags '$(LDFLAGS)' -timeout $(1) -run '^$(2)$$' ./test/vm

.PHONY: e2e-vm-smoke
e2e-vm-smoke: ## One emulated machine with 4 NUMA nodes, a real kubelet, five pods (warm: 3 minutes; cold it compiles Kubernetes and containerd first).
	$(call say,booting a machine with 4 NUMA nodes and a real kubelet)
	@BERTH_VM=smoke $(call VM_TEST,30m,TestSmoke)

# The parts of e2e-vm, and the test of each. E2E_CASES, a regular expression, chooses among the configurations of policies or options:
#   make e2e-vm E2E_ONLY=options E2E_CASES='memory|uncore'
#   make e2e-vm E2E_ONLY=enforce SEED=7 ENFORCE_PODS=100
E2E_ONLY  ?= policies options node race devices dra enforce resize chart
E2E_CASES ?=
export E2E_CASES
VM_TEST_policies = (TestPolicies|TestRestartsKeepPods)
VM_TEST_options  = TestOptions
VM_TEST_node     = TestNode
VM_TEST_race     = (TestRace|TestRestartRefusals)
VM_TEST_devices  = TestDevices
VM_TEST_dra      = TestClaims
DEVICE_PODS ?= 40
VM_TEST_chart    = TestChart

.PHONY: e2e-vm
e2e-vm: ## Two emulated machines of different shape; E2E_ONLY chooses among policies, options, node, race, devices, dra, enforce, resize, chart (up to 25 minutes each).
	@for part in $(E2E_ONLY); do $(MAKE) --no-print-directory e2e-vm-$$part; done

# What Helm installs, and what replaces it: two releases for the guest's processor.
VM_RELEASE      := $(BIN)/release-vm
VM_LAST_RELEASE := $(LAST)/release

.PHONY: e2e-vm-chart
e2e-vm-chart: $(VM_LAST_RELEASE)/SHA256SUMS
	$(call say,building $(VERSION) as a release)
	@$(RELEASE_TOOL) build -source $(CURDIR) -out $(VM_RELEASE) -version $(VERSION) -platforms linux/amd64 -ldflags '$(LINKED)'
	$(call say,an emulated machine: helm install of $(LAST_VERSION) and upgrade to $(VERSION))
	@BERTH_VM=chart BERTH_HELM="$$($(GO) tool -n -modfile=tools/helm/go.mod helm)" BERTH_LAST_RELEASE=$(VM_LAST_RELEASE) BERTH_THIS_RELEASE=$(VM_RELEASE) $(call VM_TEST,40m,$(VM_TEST_chart))

.PHONY: e2e-vm-policies e2e-vm-options e2e-vm-node e2e-vm-race
e2e-vm-policies e2e-vm-options e2e-vm-node e2e-vm-race: e2e-vm-%:
	$(call say,real kubelets on two emulated machines: $*)
	@BERTH_VM=$* $(call VM_TEST,40m,$(VM_TEST_$*))

# First where the kubelet chooses, then where Berth does. The last line is one of JSON, which the go command would follow with its own.
.PHONY: e2e-vm-devices
e2e-vm-devices:
	$(call say,real kubelets on emulated machines with devices: SEED=$(SEED) DEVICE_PODS=$(DEVICE_PODS))
	@rm -f _artifacts/vm/devices.json
	@BERTH_VM=devices $(call VM_TEST,40m,$(VM_TEST_devices))
	@BERTH_VM=devices SEED=$(SEED) ENFORCE_PODS=$(DEVICE_PODS) $(call VM_TEST,90m,TestDecidedDevices); code=$$?; cat _artifacts/vm/devices.json; exit $$code

# The last line is one of JSON, which the go command would follow with its own.
.PHONY: e2e-vm-dra
e2e-vm-dra:
	$(call say,real kubelets on emulated machines with devices of a DRA driver)
	@rm -f _artifacts/vm/dra.json
	@BERTH_VM=dra $(call VM_TEST,40m,$(VM_TEST_dra)); code=$$?; cat _artifacts/vm/dra.json; exit $$code

# First without the runtime's validator, then with an agent that takes the runtime for an older one. The last line is one of JSON, which the
# go command would follow with its own.
ENFORCE_PODS ?= 100

.PHONY: e2e-vm-enforce
e2e-vm-enforce:
	$(call say,real containerd that carries decisions out on two emulated machines: SEED=$(SEED) ENFORCE_PODS=$(ENFORCE_PODS))
	@rm -f _artifacts/vm/enforce*.json
	@BERTH_VM=enforce-unvalidated $(call VM_TEST,40m,TestEnforceUnvalidated)
	@BERTH_VM=enforce-older SEED=$(SEED) ENFORCE_PODS=$(ENFORCE_PODS) $(call VM_TEST,60m,TestEnforceOlderNRI); code=$$?; cat _artifacts/vm/enforce-older.json; exit $$code
	@BERTH_VM=enforce SEED=$(SEED) ENFORCE_PODS=$(ENFORCE_PODS) $(call VM_TEST,90m,TestEnforce); code=$$?; cat _artifacts/vm/enforce.json; exit $$code

# Pods that are resized in place on real containerd: what make e2e-resize cannot play on hollow nodes is memory that shrinks.
.PHONY: e2e-vm-resize
e2e-vm-resize:
	$(call say,ten pods that grow and shrink on an emulated machine with real containerd)
	@rm -f _artifacts/vm/resize.json
	@BERTH_VM=resize SEED=$(SEED) $(call VM_TEST,60m,TestResize); code=$$?; cat _artifacts/vm/resize.json; exit $$code
