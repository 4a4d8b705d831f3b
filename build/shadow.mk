# The demo's pods under kube-scheduler while Berth watches in shadow mode. SEED=n chooses the pods. With
# VOLCANO_SCHEDULER=path Volcano's vc-scheduler places them; it rejects fewer. VOLCANO_CONTROLLER is its
# vc-controller-manager, VOLCANO_SOURCE the folder with its source.
SHADOW_FLAGS ?=
SHADOW_VOLCANO = $(if $(VOLCANO_SCHEDULER),-volcano=$(VOLCANO_SCHEDULER) -volcano-controller=$(VOLCANO_CONTROLLER) -volcano-source=$(VOLCANO_SOURCE) -rejections=5)

.PHONY: e2e-shadow
e2e-shadow: ## kube-scheduler places the demo's pods and Berth, in shadow mode, predicts the kubelets' answers: SEED=n VOLCANO_SCHEDULER=path; the last line is JSON (3 minutes).
	$(call say,building bin/shadow)
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/shadow ./test/shadow
	@$(BIN)/shadow -seed=$(or $(filter-out 0,$(SEED)),1) $(SHADOW_VOLCANO) $(SHADOW_FLAGS)
