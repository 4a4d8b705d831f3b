// An assembly file lets link.go declare a function without a body.
