.PHONY: house house-lower
house: ## How much a reader must hold in mind: methods per type, fields, arrows between files, lengths.
	@$(GO) run ./test/house $(HOUSE_FLAGS)

house-lower: ## Lower the limits of test/house to what is measured now.
	@$(GO) run ./test/house -lower test/house/limits.txt >/dev/null
