# The page of berth serve. Its files are committed, so that make build needs no node; these targets do.
WEB_PAGE   := internal/web/page
WEB_STATIC := internal/web/static
CHROMIUM   ?= $(firstword $(foreach b,chromium chromium-browser google-chrome,$(shell command -v $(b) 2>/dev/null)))

$(WEB_PAGE)/node_modules/.package-lock.json: $(WEB_PAGE)/package-lock.json
	@command -v npm >/dev/null || { echo "the page is built with npm, and there is none here: apt-get install npm" >&2; exit 1; }
	@cd $(WEB_PAGE) && npm ci --ignore-scripts --no-audit --no-fund

.PHONY: web
web: $(WEB_PAGE)/node_modules/.package-lock.json ## Build the page of berth serve into the files that are committed (needs npm).
	$(call say,building $(WEB_STATIC))
	@cd $(WEB_PAGE) && node build.mjs ../static

.PHONY: web-check
web-check: $(WEB_PAGE)/node_modules/.package-lock.json ## Check that the committed page is built from its sources.
	@out=$$(mktemp -d); trap "rm -rf $$out" EXIT; cd $(WEB_PAGE) && node build.mjs $$out && diff -r $$out ../static && echo "$(WEB_STATIC) is what $(WEB_PAGE) makes"

.PHONY: e2e-web
e2e-web: web-check ## Click through the page in a headless Chromium; pictures go to _artifacts/web (10 minutes).
	@[ -n "$(CHROMIUM)" ] || { echo "installing chromium: there is none on this machine"; apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-noto-core; }
	@mkdir -p $(BIN) _artifacts/web
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/berth ./cmd/berth
	@$(GO) build -C lab -o $(BIN)/play ./play
	@cd test/web && BERTH=$(BIN)/berth PLAY=$(BIN)/play CHROMIUM="$$(command -v chromium || echo $(CHROMIUM))" ARTIFACTS=$(CURDIR)/_artifacts/web $(GO) test -count=1 -timeout 20m $(WEB_FLAGS) .
