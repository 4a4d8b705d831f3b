package deploy

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/rank"
)

// TestChartTakesEveryCriterion: the chart's schema accepts the same values of scoring.first as the
// scheduler.
func TestChartTakesEveryCriterion(t *testing.T) {
	data, err := os.ReadFile("chart/berth/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Properties map[string]json.RawMessage
		Items      struct{ Enum []rank.Criterion }
	}
	var at object
	for _, name := range []string{"", "scheduler", "args", "scoring", "first"} {
		if name != "" {
			data = at.Properties[name]
		}
		at = object{}
		if err := json.Unmarshal(data, &at); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var scoring rank.Scoring
	scoring.FillIn()
	got, want := slices.Sorted(slices.Values(at.Items.Enum)), slices.Sorted(slices.Values(scoring.First))
	if !slices.Equal(got, want) {
		t.Errorf("the chart takes %q in scheduler.args.scoring.first, and the scheduler %q", got, want)
	}
}
