# The last release and this tree, together. RELEASES names the last release; $(LAST) is in build/release.mk.
UPGRADE_NODES ?= 13
THIS := $(BIN)/this
CHART_VALUES = -n berth-system --skip-tests --kube-version $(KUBE) --set image.repository=registry.example/berth

.PHONY: e2e-upgrade
e2e-upgrade: upgrade-build ## From the last release to this tree and back under load, on a real API server with hollow nodes: UPGRADE_NODES=6 (4 to 8 minutes).
	$(call say,from $(LAST_VERSION) to $(VERSION) and back)
	@$(BIN)/upgrade -from=$(LAST)/bin -to=$(THIS) -nodes=$(UPGRADE_NODES) $(UPGRADE_FLAGS)

.PHONY: upgrade-build
upgrade-build: $(LAST)/bin/berth-agent $(LAST)/bin/berth-scheduler $(LAST)/bin/chart.yaml
	$(call say,building berth-agent and berth-scheduler of this tree and bin/upgrade)
	@mkdir -p $(THIS)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(THIS)/ ./cmd/berth-agent ./cmd/berth-scheduler
	@$(call render,$(CHART)) > $(THIS)/chart.yaml
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/upgrade ./test/upgrade

# What helm would apply, with Berth as the default scheduler.
render = $(HELM) template berth $(1) -f $(1)/values-default-scheduler.yaml $(CHART_VALUES) $(QUIETLY)

$(LAST)/bin/chart.yaml: $(LAST)/source/go.mod
	@mkdir -p $(@D)
	@$(call render,$(LAST)/source/deploy/chart/berth) > $@.new
	@mv $@.new $@
