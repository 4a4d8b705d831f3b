package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// roleVariable makes a copy of the test binary a child of Pool instead of a test run.
const roleVariable = "BERTH_CONFORMANCE_ROLE"

func TestMain(m *testing.M) {
	var answer func([]byte) ([]byte, bool)
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "oracle":
		answer = AnswerOracle(20 * time.Second)
	case "compare":
		answer = AnswerCompare(engine, 8*time.Second)
	default:
		fmt.Fprintln(os.Stderr, "unknown role")
		os.Exit(2)
	}
	if err := Serve(os.Stdin, os.Stdout, answer); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// recorded is the folder with the genuine kubelet's decisions.
var recorded = filepath.Join("..", "replay", "cases", "testdata", "recorded")
