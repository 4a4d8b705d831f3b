package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/suggest"
)

// Strategies returns all strategies of this package, in a fixed order.
func Strategies() []Strategy { return slices.Concat(stock(), own()) }

// StrategiesOf returns the strategies with the given names. The error names a strategy that is
// unknown or listed twice.
func StrategiesOf(all []Strategy, names ...string) (out []Strategy, err error) {
	for _, name := range names {
		i := slices.IndexFunc(all, func(s Strategy) bool { return strings.EqualFold(s.Name, name) })
		if i < 0 {
			known := make([]string, len(all))
			for j := range all {
				known[j] = all[j].Name
			}
			return nil, fmt.Errorf("strategy %.40q: want %s%s", name, strings.Join(known, ", "), suggest.DidYouMean(name, known))
		}
		if slices.ContainsFunc(out, func(s Strategy) bool { return s.Name == all[i].Name }) {
			return nil, fmt.Errorf("strategy %s: want it once", all[i].Name)
		}
		out = append(out, all[i])
	}
	return out, nil
}
