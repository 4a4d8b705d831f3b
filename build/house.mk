.PHONY: house
house: ## How much a reader must hold in mind: methods, fields, lengths, arrows between files; fails if an import climbs.
	@$(GO) run ./test/house $(HOUSE_FLAGS)
	@$(GO) test -count=1 -run '^TestImportsOnlyDescend$$' ./test/repo
