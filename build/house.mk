.PHONY: house
house: ## Measure how hard code is to read: methods, fields, lengths, references between files. Fails if an import breaks the order of layers.
	@$(GO) run ./test/house $(HOUSE_FLAGS)
	@$(GO) test -count=1 -run '^TestImportsOnlyDescend$$' ./test/repo
