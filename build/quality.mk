# How good the choice among nodes is (lab/README.md). OPENB is the folder with the lists and with what was published; the
# optimum of small instances needs the solver cbc (apt-get install coinor-cbc).
OPENB ?= ../shared/realdata/traces/openb
QUALITY = @mkdir -p $(BIN) && $(GO) build -C lab -o $(BIN)/quality ./quality && $(BIN)/quality -from=$(OPENB) -results=_artifacts/quality

.PHONY: quality quality-full
quality: ## The default strategy compared with others and with the optimum: two lists, two overlays, two seeds, 200 instances (2 minutes; the last line is JSON).
	$(call say,running bin/quality)
	$(QUALITY) $(QUALITY_FLAGS)

quality-full: ## make quality with all lists and ten seeds (an hour or two); another call continues where it ended.
	$(call say,running bin/quality -full)
	$(QUALITY) -full $(QUALITY_FLAGS)
