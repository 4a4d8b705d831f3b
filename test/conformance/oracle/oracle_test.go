package oracle

import "testing"

func TestBuilds(t *testing.T) {}
